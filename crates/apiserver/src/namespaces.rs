//! Namespaces: they are full of others' objects, so they go in two steps.
//!
//! A deleted namespace is Terminating until its `spec.finalizers` are empty; the one that every
//! namespace has is removed, through `finalize`, by whoever emptied it.

use edgegrid_machinery::status::GroupResource;
use serde_json::Value;

use crate::request::Request;

pub(crate) fn resource() -> GroupResource {
    GroupResource::new("", "namespaces")
}

fn is_namespaces(request: &Request<'_>) -> bool {
    request.served.read.group.is_empty() && request.served.read.plural == "namespaces"
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
