//! Puts objects into the store and removes them, and keeps what is served in step with the definitions
//! that are stored.

use std::sync::Arc;

use edgegrid_listwatch::Memo;
use edgegrid_machinery::metadata;
use edgegrid_machinery::status::Status;
use edgegrid_store::{CommitError, Entry, Event, Expect};
use serde_json::Value;

use crate::answer::Content;
use crate::crds;
use crate::request::Request;

/// What was committed, or nothing if somebody else was faster.
pub(crate) fn committed<T>(result: Result<T, CommitError>) -> Result<Option<T>, Status> {
    match result {
        Ok(content) => Ok(Some(content)),
        Err(CommitError::Conflict { .. }) => Ok(None),
        Err(error) => Err(Status::internal(error)),
    }
}

/// Removes a stored object for good.
pub(crate) fn remove(
    request: &Request<'_>,
    last: &Value,
    expect: Expect,
) -> Result<Content, CommitError> {
    let name = metadata::name(last);
    let mut last = last.clone();
    if !request.options.dry_run {
        let event = request
            .server
            .reader
            .store()
            .delete(request.key(name), expect)?;
        if let Some(event) = event {
            if crds::is_crd(request) {
                request.server.registry.undefine(&last);
            } else if request.served.is_custom() {
                let read = &request.served.read;
                finalize_definition(request, &format!("{}.{}", read.plural, read.group));
            }
            last["metadata"]["resourceVersion"] = event.revision.to_string().into();
        }
    }
    Ok(Content::Object(last))
}

/// Writes an object, unless it is only tried out.
pub(crate) fn put(
    request: &Request<'_>,
    name: &str,
    object: &Value,
    expect: Expect,
) -> Result<Content, CommitError> {
    let (store, key) = (request.server.reader.store(), request.key(name));
    if request.options.dry_run {
        let found = store.get(&key).map(|entry| entry.revision());
        let is_met = match expect {
            Expect::Absent => found.is_none(),
            Expect::Revision(revision) => found == Some(revision),
            _ => true,
        };
        if is_met {
            return Ok(Content::Object(object.clone()));
        }
        return Err(CommitError::Conflict {
            key: key.into(),
            expected: expect,
            found,
        });
    }
    let event = store.put(key, request.served.storable(object), expect)?;
    crds::serve(request, object);
    Ok(Content::Stored(stored(&event)))
}

fn stored(event: &Event<Memo>) -> Arc<Entry<Memo>> {
    event
        .after()
        .expect("invariant: a put leaves a version behind")
        .clone()
}

/// Lets a definition that is being deleted go when it has no objects any more.
pub(crate) fn finalize_definition(request: &Request<'_>, name: &str) {
    let Some((request, crd)) = crds::finalized(request, name) else {
        return;
    };
    let done = if crd["metadata"]["finalizers"].is_null() {
        remove(&request, &crd, Expect::Present)
    } else {
        put(&request, name, &crd, Expect::Present)
    };
    if let Err(error) = done {
        tracing::warn!(name, "cannot finalize CustomResourceDefinition: {error}");
    }
}
