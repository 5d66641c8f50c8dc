//! The seam between a request and the rules: here more can be hung that changes or refuses writes.

use edgegrid_listwatch::Store;
use edgegrid_machinery::status::Status;
use serde_json::Value;

use crate::registry::Registry;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// POST, and an apply or update of an object that is not there.
    Create,
    /// PUT and PATCH of an object that is there, also through a subresource.
    Update,
    /// DELETE; `object` is null then.
    Delete,
}

/// What an admission sees beside the object.
pub struct Attributes<'a> {
    /// Whether the request creates, updates or deletes.
    pub operation: Operation,
    /// API group of the resource, empty for the core group.
    pub group: &'a str,
    /// Name of the resource in paths.
    pub resource: &'a str,
    /// Written through this subresource.
    pub subresource: Option<&'a str>,
    /// Namespace of the request; none for cluster-scoped resources.
    pub namespace: Option<&'a str>,
    /// The object before, for updates and deletes.
    pub old: Option<&'a Value>,
    pub(crate) store: &'a Store,
    pub(crate) registry: &'a Registry,
}

/// May change an object that is about to be stored, or refuse it.
pub trait Admission: Send + Sync {
    /// `object` is defaulted and not yet validated; for deletes it is null.
    fn admit(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status>;
}
