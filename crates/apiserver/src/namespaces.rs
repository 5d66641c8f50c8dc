//! Namespaces: they are full of others' objects, so they go in two steps.
//!
//! A deleted namespace is Terminating until its `spec.finalizers` are empty; the one that every
//! namespace has is removed, through `finalize`, by whoever emptied it.

use edgegrid_machinery::metadata;
use edgegrid_machinery::status::{Cause, GroupResource, Status};
use serde_json::Value;

use crate::admission::{Admission, Attributes, Operation};
use crate::request::{Request, live};

/// Nothing is made in a namespace that does not exist or is going, and some namespaces stay.
pub(crate) struct NamespaceLifecycle;

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Admission for NamespaceLifecycle {
    fn admit(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let of_namespaces = attributes.group.is_empty() && attributes.resource == "namespaces";
        if of_namespaces && attributes.operation == Operation::Delete {
            return refuse_immortal(attributes);
        }
        let (Operation::Create, Some(namespace)) = (attributes.operation, attributes.namespace)
        else {
            return Ok(());
        };
        let namespaces = attributes.registry.resource("", "v1", "namespaces");
        let found = namespaces.and_then(|served| {
            let entry = attributes.store.get(&served.read.key(None, namespace))?;
            live(&served, entry).ok()
        });
        let Some(found) = found else {
            return Err(Status::not_found(&resource(), namespace));
        };
        if found.object["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        let name = metadata::name(object);
        let resource = GroupResource::new(attributes.group, attributes.resource);
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        };
        Err(Status::forbidden(&resource, name, why).with_cause(cause))
    }
}

fn refuse_immortal(attributes: &Attributes<'_>) -> Result<(), Status> {
    let name = attributes
        .old
        .and_then(|old| old["metadata"]["name"].as_str())
        .unwrap_or_default();
    if IMMORTAL.contains(&name) {
        return Err(Status::forbidden(
            &resource(),
            name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

fn resource() -> GroupResource {
    GroupResource::new("", "namespaces")
}

fn is_namespaces(request: &Request<'_>) -> bool {
    request.served.read.group.is_empty() && request.served.read.plural == "namespaces"
}

/// Sets the phase of a namespace that is being deleted.
pub(crate) fn prepare_delete(request: &Request<'_>, object: &mut Value) {
    if is_namespaces(request) && !is_finalized(request, object) {
        // It goes when it is empty, not after a time.
        crate::served::remove_field(&mut object["metadata"], "deletionGracePeriodSeconds");
        object["status"]["phase"] = "Terminating".into();
    }
}

/// Whether it was asked to go and still is cleaned up: then another delete changes nothing.
pub(crate) fn is_ending(request: &Request<'_>, object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null() && !is_finalized(request, object)
}

/// Whether nobody has anything left to clean up in it; true for everything but namespaces.
pub(crate) fn is_finalized(request: &Request<'_>, object: &Value) -> bool {
    let finalizers = object["spec"]["finalizers"].as_array();
    !is_namespaces(request) || finalizers.is_none_or(Vec::is_empty)
}
