//! LIST: one page, or all, of a selection at one revision.
//!
//! The items are picked at once (a reference each) and written as the client takes them.

use crate::Store;
use crate::body::{Body, json};
use crate::encode::{Encoder, FRAME, LIST_END, ListHead};
use crate::filter::Filter;
use crate::options::{ListAt, ListOptions};
use crate::served_object::Memo;
use crate::token::Token;
use crate::view::Malformed;
use bytes::Bytes;
use edgegrid_machinery::status::Status;
use edgegrid_store::{Entry, RevisionError, Snapshot};
use futures::stream;
use http::Response;
use std::sync::Arc;

/// The items of a page and what it says of itself.
struct Page {
    head: ListHead,
    items: Vec<Arc<Entry<Memo>>>,
}

pub(crate) fn list(
    store: &Store,
    options: &ListOptions,
    encoder: Encoder,
) -> Result<Response<Body>, Status> {
    let prefix = &encoder.filter.prefix;
    let snapshot = match &options.at {
        ListAt::NotOlderThan(_) => store.snapshot().under(prefix),
        ListAt::Exact(revision) => store.snapshot_at(prefix, *revision).map_err(unreachable)?,
        ListAt::Continue(token) => resume(store, prefix, token)?,
    };
    let after = match &options.at {
        ListAt::Continue(token) => Some(&*token.after),
        _ => None,
    };
    let page = page(&snapshot, &encoder.filter, after, options).map_err(Status::internal)?;
    let length = length(&page, &encoder).map_err(Status::internal)?;
    Ok(json(Body::sized(
        stream::iter(Frames::new(page, encoder)),
        length,
    )))
}

fn resume(store: &Store, prefix: &str, token: &Token) -> Result<Snapshot<Memo>, Status> {
    let Some(revision) = token.revision else {
        return Ok(store.snapshot().under(prefix));
    };
    // A revision ahead of ours is as lost as a compacted one: the token is another server's.
    let lost = |_| Status::expired_continue(token.inconsistent().to_string());
    store.snapshot_at(prefix, revision).map_err(lost)
}

fn unreachable(error: RevisionError) -> Status {
    match error {
        RevisionError::TooOld { .. } => {
            Status::expired("The resourceVersion for the provided list is too old.")
        }
        RevisionError::TooNew { asked, current } => {
            Status::too_large_resource_version(asked, current, 1)
        }
    }
}

fn page(
    snapshot: &Snapshot<Memo>,
    filter: &Filter,
    after: Option<&str>,
    options: &ListOptions,
) -> Result<Page, Malformed> {
    let start = after.map(|after| format!("{}{after}\0", filter.resource.key_prefix));
    let mut entries = snapshot
        .iter_from(start.as_deref().unwrap_or_default())
        .peekable();
    let mut items = Vec::new();
    let mut head = ListHead {
        revision: snapshot.revision(),
        next: None,
        remaining: None,
    };
    while let Some(entry) = entries.next() {
        if !filter.matches(entry)? {
            continue;
        }
        items.push(Arc::clone(entry));
        if options
            .limit
            .is_some_and(|limit| limit.get() == items.len())
            && entries.peek().is_some()
        {
            let key = entry.key();
            let after = key
                .strip_prefix(&*filter.resource.key_prefix)
                .unwrap_or(key)
                .to_owned();
            head.next = Some(Token {
                revision: Some(head.revision),
                after,
            });
            head.remaining = filter.is_empty().then(|| entries.count());
            break;
        }
    }
    Ok(Page { head, items })
}

fn length(page: &Page, encoder: &Encoder) -> Result<u64, Malformed> {
    let commas = page.items.len().saturating_sub(1);
    let mut length = encoder.list_head(&page.head).len() + commas + LIST_END.len();
    for item in &page.items {
        length += encoder.length(item)?;
    }
    Ok(length as u64)
}

/// Writes a page in frames.
struct Frames {
    encoder: Encoder,
    items: std::vec::IntoIter<Arc<Entry<Memo>>>,
    /// What was written and not yet sent: at first the head, later a comma.
    pending: Vec<u8>,
    open: bool,
}

impl Frames {
    fn new(page: Page, encoder: Encoder) -> Self {
        let pending = encoder.list_head(&page.head);
        Self {
            encoder,
            items: page.items.into_iter(),
            pending,
            open: true,
        }
    }
}

impl Iterator for Frames {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if !self.open {
            return None;
        }
        let mut frame = std::mem::take(&mut self.pending);
        while let Some(item) = self.items.next() {
            // The length of every item was asked for before, so none is malformed now.
            if self.encoder.object(&item, &mut frame).is_err() {
                self.open = false;
                return None;
            }
            if self.items.len() > 0 {
                frame.push(b',');
                if frame.len() >= FRAME {
                    return Some(frame.into());
                }
            }
        }
        frame.extend_from_slice(LIST_END);
        self.open = false;
        Some(frame.into())
    }
}
