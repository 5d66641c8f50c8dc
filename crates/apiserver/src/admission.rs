//! The seam between a request and the rules: here more can be hung that changes or refuses writes.

use edgegrid_machinery::metadata;
use edgegrid_machinery::status::{Cause, Status};
use serde_json::Value;

use crate::request::Request;
use crate::server::Shared;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Makes an object.
    Create,
    /// Changes one.
    Update,
    /// Removes one.
    Delete,
}

/// What an admission sees beside the object.
pub struct Attributes<'a> {
    /// What is done.
    pub operation: Operation,
    /// API group.
    pub group: &'a str,
    /// Name of the resource in paths.
    pub resource: &'a str,
    /// Written through this subresource.
    pub subresource: Option<&'a str>,
    /// Namespace of the request; none for cluster-scoped resources.
    pub namespace: Option<&'a str>,
    /// The object before, for updates and deletes.
    pub old: Option<&'a Value>,
    pub(crate) server: &'a Shared,
}

/// May change an object that is about to be stored, or refuse it.
pub trait Admission: Send + Sync {
    /// `object` is defaulted and not yet validated; for deletes it is null.
    fn admit(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status>;
}

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
        let namespaces = attributes.server.registry.resource("", "v1", "namespaces");
        let found = namespaces.and_then(|served| {
            let entry = attributes
                .server
                .reader
                .store()
                .get(&served.read.key(None, namespace))?;
            crate::request::live(&served, entry).ok()
        });
        let Some(found) = found else {
            return Err(Status::not_found(&crate::namespaces::resource(), namespace));
        };
        if found.object["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        let name = metadata::name(object);
        let resource =
            edgegrid_machinery::status::GroupResource::new(attributes.group, attributes.resource);
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
            &crate::namespaces::resource(),
            name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

/// Asks everybody in turn; the first refusal counts.
pub(crate) fn admit(
    request: &Request<'_>,
    operation: Operation,
    old: Option<&Value>,
    object: &mut Value,
) -> Result<(), Status> {
    let attributes = Attributes {
        operation,
        group: &request.served.read.group,
        resource: &request.served.read.plural,
        subresource: request.subresource(),
        namespace: request.namespace(),
        old,
        server: request.server,
    };
    for admission in &request.server.admission {
        admission.admit(&attributes, object)?;
    }
    Ok(())
}
