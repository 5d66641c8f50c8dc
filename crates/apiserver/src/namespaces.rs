//! Namespaces: they are full of others' objects, so they go in two steps.
//!
//! A deleted namespace is Terminating until its `spec.finalizers` are empty; the one that every
//! namespace has is removed, through `finalize`, by whoever emptied it.

use edgegrid_machinery::status::{GroupResource, Status};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::request::Request;
use crate::update::TRIES;
use crate::write::Ownership;
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

/// PUT of `finalize`: an update that may also take finalizers out of the spec.
pub(crate) fn finalize(request: &Request<'_>) -> Result<Answer, Status> {
    let read = body::object(&request.body, &request.media_type)?;
    write::check_type(request, &read.value)?;
    let (object, _) = write::decode(request, read.value, &read.duplicates)?;
    for _ in 0..TRIES {
        let live = request.live(request.name())?;
        if let Some(answer) = write::change(request, &live, object.clone(), Ownership::Track)? {
            return Ok(answer);
        }
    }
    Err(Status::modified(&resource(), request.name()))
}
