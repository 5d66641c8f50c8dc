//! Namespaces: they are full of others' objects, so they go in two steps.
//!
//! A deleted namespace is Terminating until its `spec.finalizers` are empty; the one that every
//! namespace has is removed, through `finalize`, by whoever emptied it.

use edgegrid_machinery::metadata;
use edgegrid_machinery::status::{GroupResource, Status};
use edgegrid_store::{CommitError, Expect};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::request::Request;
use crate::update::TRIES;
use crate::{body, write};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const FINALIZER: &str = "kubernetes";

pub(crate) fn resource() -> GroupResource {
    GroupResource::new("", "namespaces")
}

fn is_namespaces(request: &Request<'_>) -> bool {
    request.served.read.group.is_empty() && request.served.read.plural == "namespaces"
}

/// What every new namespace has.
pub(crate) fn prepare_create(request: &Request<'_>, object: &mut Value) {
    if !is_namespaces(request) {
        return;
    }
    let name = object["metadata"]["name"].clone();
    if !object["metadata"]["labels"].is_object() {
        object["metadata"]["labels"] = json!({});
    }
    object["metadata"]["labels"][NAME_LABEL] = name;
    object["spec"] = json!({ "finalizers": [FINALIZER] });
    object["status"] = json!({ "phase": "Active" });
}

/// Says that a namespace is going.
pub(crate) fn prepare_delete(request: &Request<'_>, object: &mut Value) {
    if is_namespaces(request) && !is_finalized(request, object) {
        // It goes when it is empty, not after a time.
        crate::served::remove(&mut object["metadata"], "deletionGracePeriodSeconds");
        object["status"]["phase"] = "Terminating".into();
    }
}

/// Whether it was asked to go and still is cleaned up: then another wish changes nothing.
pub(crate) fn is_ending(request: &Request<'_>, object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null() && !is_finalized(request, object)
}

/// Whether nobody has anything left to clean up in it; true for everything but namespaces.
pub(crate) fn is_finalized(request: &Request<'_>, object: &Value) -> bool {
    let finalizers = object["spec"]["finalizers"].as_array();
    !is_namespaces(request) || finalizers.is_none_or(Vec::is_empty)
}

/// PUT of `finalize`: takes over `spec.finalizers`, and nothing else.
pub(crate) fn finalize(request: &Request<'_>) -> Result<Answer, Status> {
    let body = body::object(&request.body, &request.media_type)?.value;
    for _ in 0..TRIES {
        let live = request.live(request.name())?;
        metadata::check_uid(&body, &live.object, &resource())?;
        if !metadata::revision(&body).is_empty() {
            metadata::check_revision(&body, &live.object, &resource(), true)?;
        }
        let mut object = live.object.clone();
        crate::served::put(
            &mut object["spec"],
            "finalizers",
            body["spec"].get("finalizers"),
        );
        let expect = Expect::Revision(live.entry.revision());
        let done = if metadata::is_removable(&object) && is_finalized(request, &object) {
            write::remove(request, &object, expect)
        } else {
            write::put(request, request.name(), &object, expect)
        };
        match done {
            Ok(content) => return Ok(Answer::ok(content)),
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => return Err(Status::internal(error)),
        }
    }
    Err(Status::modified(&resource(), request.name()))
}
