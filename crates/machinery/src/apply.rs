//! Server-side apply and the ownership of fields.
//!
//! Every field of an object has managers. [`apply`] merges what one manager wants into the live
//! object, removes what it wanted before and nobody else does, and refuses to change what others own.
//! [`track_update`] credits every other write to its writer.
//!
//! ```text
//! live ──┐
//! body ──┴─► merge ─► prune ─► conflicts? ─► object + metadata.managedFields
//! ```
//!
//! Both work on one kind at one version; [`Versions`] gives the shapes of the others, because each
//! manager's paths are valid in the version it wrote.

mod compare;
mod conflict;
mod fields;
mod last_applied;
mod managed;
mod merge;
mod names;
mod order;
mod path;
mod prune;
mod reset;
mod scale;
#[cfg(test)]
mod tests;
mod track;
mod typed;
mod update;

use std::collections::BTreeMap;

use serde_json::Value;

pub use compare::{Comparison, compare};
pub use conflict::{Conflict, Conflicts};
pub use fields::FieldsError;
pub use managed::{Identity, ManagedError, Managers, Operation, Owned};
pub use names::{NameError, check_manager, manager_from_user_agent};
pub use path::{Element, PathSet, path_text};
pub use reset::{builtin_reset_fields, custom_reset_fields};
pub use scale::{ReplicasPaths, parent_managers, scale_managers};
pub use track::{restore_times, track_update};

use crate::table::Shape;

/// The versions in which a kind is served.
pub trait Versions {
    /// The shape of the kind in a version, or nothing if it is not served in it.
    fn shape(&self, api_version: &str) -> Option<Shape<'_>>;

    /// An object of the kind before anything is set, if it is more than its type: what a create
    /// is compared with. Built-in kinds have [`zero`](crate::table::zero), custom resources nothing.
    fn blank(&self, _api_version: &str) -> Option<Value> {
        None
    }

    /// The object in another version.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError>;
}

/// A conversion that is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConvertError(pub String);

/// Versions that differ in nothing but their name and shape, as those of custom resources without
/// a conversion webhook.
#[derive(Debug, Clone, Default)]
pub struct PlainVersions<'a>(pub BTreeMap<String, Shape<'a>>);

impl Versions for PlainVersions<'_> {
    fn shape(&self, api_version: &str) -> Option<Shape<'_>> {
        self.0.get(api_version).copied()
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let mut object = object.clone();
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), Value::from(api_version));
        }
        Ok(object)
    }
}

/// Who writes what kind of object, where and when.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// Shapes of the kind in all its versions, and how to convert.
    pub versions: &'a dyn Versions,
    /// The version of the request, and of the objects passed beside it.
    pub api_version: &'a str,
    /// The subresource written through.
    pub subresource: Option<&'a str>,
    /// The field manager that the write is credited to.
    pub manager: &'a str,
    /// What the endpoint resets.
    pub reset: &'a PathSet,
    /// The time, as objects show it: RFC 3339, whole seconds, UTC.
    pub now: &'a str,
}

/// What an apply leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The object with its managers; not yet defaulted, pruned or validated.
    pub object: Value,
    /// Whether anything but ownership differs from the live object.
    pub changed: bool,
}

/// Why an apply is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Other managers own what would change (409).
    #[error("{0}")]
    Conflict(Conflicts),
    /// The body says who manages the object (400).
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
    /// The body does not fit the kind's shape (500, as in the reference server).
    #[error("failed to create typed patch object ({object}): {}", list(.mistakes))]
    Shape {
        /// Namespace, name, version and kind.
        object: String,
        /// One text per mistake.
        mistakes: Vec<String>,
    },
    /// The kind is not served in the version of the request (400).
    #[error("{0} is not a served version")]
    Version(String),
    /// The result cannot be expressed in the version of another manager (500).
    #[error("failed to convert {object} to {api_version}")]
    Convert {
        /// Namespace, name, version and kind.
        object: String,
        /// The version of the other manager.
        api_version: String,
        /// What the conversion could not express.
        #[source]
        source: ConvertError,
    },
    /// The live object's list of managers cannot be read (500).
    #[error("decode the managers of the live object")]
    Managers(#[from] ManagedError),
    /// Values are nested deeper than we follow (400).
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl Error {
    /// The HTTP code the reference server answers with.
    pub fn code(&self) -> u16 {
        match self {
            Self::Conflict(_) => 409,
            Self::ManagedFields | Self::Version(_) | Self::TooDeep => 400,
            Self::Shape { .. } | Self::Convert { .. } | Self::Managers(_) => 500,
        }
    }
}

/// Objects may be nested this deep.
pub const MAX_DEPTH: usize = 200;

/// Applies `body` to `live` (nothing if the object is to be created).
///
/// `body` has the type and name of the object; the caller has checked them.
pub fn apply(
    writer: &Writer<'_>,
    live: Option<&Value>,
    body: &Value,
    force: bool,
) -> Result<Outcome, Error> {
    if !within_depth(body) || !live.is_none_or(within_depth) {
        return Err(Error::TooDeep);
    }
    if !body["metadata"]["managedFields"].is_null() {
        return Err(Error::ManagedFields);
    }
    update::apply(writer, live, body, force)
}

fn list(mistakes: &[String]) -> String {
    match mistakes {
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    }
}

/// Whether a value is nested no deeper than [`MAX_DEPTH`]; does not recurse itself.
pub fn within_depth(value: &Value) -> bool {
    let mut left = vec![(value, 0)];
    while let Some((value, depth)) = left.pop() {
        if depth > MAX_DEPTH {
            return false;
        }
        match value {
            Value::Array(items) => left.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => left.extend(map.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    true
}
