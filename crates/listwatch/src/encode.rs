//! The bytes around the objects: list heads, watch events, bookmarks.

use crate::accept::Form;
use crate::filter::Filter;
use crate::served_object::{Memo, served_object};
use crate::token::Token;
use crate::view::Malformed;
use bytes::BufMut;
use edgegrid_machinery::status::Status;
use edgegrid_store::{Entry, Event};
use serde_json::json;

/// Frames are cut at about this many bytes, so that a long list is never in memory as a whole.
pub(crate) const FRAME: usize = 64 * 1024;

/// The annotation on the bookmark that ends the initial events of a `WatchList`.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What a list says of itself.
#[derive(Debug)]
pub(crate) struct ListHead {
    pub(crate) revision: u64,
    pub(crate) next: Option<Token>,
    pub(crate) remaining: Option<usize>,
}

/// Writes the objects of one selection in one form.
#[derive(Debug)]
pub(crate) struct Encoder {
    pub(crate) filter: Filter,
    pub(crate) form: Form,
}

impl Encoder {
    /// A list up to its first item; [`LIST_END`] closes it.
    pub(crate) fn list_head(&self, head: &ListHead) -> Vec<u8> {
        let resource = &self.filter.resource;
        let (kind, api_version) = match self.form {
            Form::Object => (&*resource.list_kind, resource.api_version()),
            Form::Metadata(version) => (
                "PartialObjectMetadataList",
                version.api_version().to_owned(),
            ),
        };
        let mut metadata = json!({ "resourceVersion": head.revision.to_string() });
        if let Some(next) = &head.next {
            metadata["continue"] = next.to_string().into();
        }
        if let Some(remaining) = head.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let (kind, api_version) = (json!(kind), json!(api_version));
        format!(r#"{{"kind":{kind},"apiVersion":{api_version},"metadata":{metadata},"items":["#)
            .into()
    }

    /// Writes one object at the revision of its version.
    pub(crate) fn object(&self, entry: &Entry<Memo>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        served_object(entry, &self.filter.resource)?.write(self.form, entry.revision(), out);
        Ok(())
    }

    /// How many bytes [`Encoder::object`] writes.
    pub(crate) fn length(&self, entry: &Entry<Memo>) -> Result<usize, Malformed> {
        Ok(served_object(entry, &self.filter.resource)?.length(self.form, entry.revision()))
    }

    /// Writes the event of an object that is there from the start.
    pub(crate) fn added(&self, entry: &Entry<Memo>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        self.event("ADDED", entry, entry.revision(), out)
    }

    /// Writes what a change means to a client that sees only the selection, if anything.
    ///
    /// An object that leaves the selection is deleted as far as the client can tell: it gets the
    /// last version it knew, at the revision of the change.
    pub(crate) fn change(&self, event: &Event<Memo>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let selected = |entry: Option<&_>| match entry {
            Some(entry) => self.filter.matches(entry),
            None => Ok(false),
        };
        let (before, after) = (
            event.before().map(|it| &**it),
            event.after().map(|it| &**it),
        );
        let (kind, entry) = match (selected(before)?, selected(after)?) {
            (false, false) => return Ok(()),
            (false, true) => ("ADDED", after),
            (true, true) => ("MODIFIED", after),
            (true, false) => ("DELETED", before),
        };
        entry.map_or(Ok(()), |entry| self.event(kind, entry, event.revision, out))
    }

    /// Writes a bookmark: the client has seen everything up to a revision.
    pub(crate) fn bookmark(&self, revision: u64, closing: bool, out: &mut Vec<u8>) {
        let resource = &self.filter.resource;
        let (kind, api_version) = match self.form {
            Form::Object => (&*resource.kind, resource.api_version()),
            Form::Metadata(version) => ("PartialObjectMetadata", version.api_version().to_owned()),
        };
        let mut metadata = json!({ "resourceVersion": revision.to_string() });
        if closing {
            metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        let object = json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata });
        line("BOOKMARK", &object, out);
    }

    fn event(
        &self,
        kind: &str,
        entry: &Entry<Memo>,
        revision: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let object = served_object(entry, &self.filter.resource)?;
        out.reserve(object.length(self.form, revision) + 40);
        out.put_slice(br#"{"type":""#);
        out.put_slice(kind.as_bytes());
        out.put_slice(br#"","object":"#);
        object.write(self.form, revision, out);
        out.put_slice(b"}\n");
        Ok(())
    }
}

/// What follows the last item of a list.
pub(crate) const LIST_END: &[u8] = b"]}\n";

/// Writes the event that ends a watch with a status.
pub(crate) fn error(status: &Status, out: &mut Vec<u8>) {
    line("ERROR", &status.to_json(), out);
}

fn line(kind: &str, object: &serde_json::Value, out: &mut Vec<u8>) {
    out.put_slice(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").as_bytes());
}
