//! The three patch formats that carry no ownership: JSON patch, merge patch, strategic merge patch.
//!
//! Each takes the object as JSON in the version of the request and gives the patched JSON, or an
//! [`Error`] that knows its HTTP code. Nothing is ever half done: the object is not changed in place.
//!
//! ```
//! use edgegrid_machinery::patch::merge_patch;
//! use serde_json::json;
//!
//! let patched = merge_patch(&json!({"a": 1, "b": 2}), &json!({"a": null})).unwrap();
//! assert_eq!(patched, json!({"b": 2}));
//! ```

mod json;
mod lists;
mod strategic;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use json::json_patch;
pub use strategic::strategic_merge_patch;

use crate::apply::{MAX_DEPTH, within_depth};
use crate::table::kind_of;

/// A JSON patch may hold this many operations.
pub const MAX_OPERATIONS: usize = 10_000;
/// The `copy` operations of one JSON patch may copy this many bytes.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Why a patch is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch is JSON of the wrong type.
    #[error("error decoding patch: expected {expected}, got {got}")]
    Decode {
        /// What the format asks for.
        expected: &'static str,
        /// The JSON type that was sent.
        got: &'static str,
    },
    /// A merge patch that is null.
    #[error("Invalid JSON Patch")]
    Null,
    /// Too many operations in a JSON patch.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// An operation of a JSON patch could not be carried out. The reference server does not say
    /// which one.
    #[error("the server rejected our request due to an error in our request")]
    Operation,
    /// A directive whose form is wrong.
    #[error("invalid patch format of {0}")]
    Format(&'static str),
    /// An item of a merged list lacks the field by which items are matched.
    #[error("map: {item} does not contain declared merge key: {key}")]
    MergeKey {
        /// The item of the patch, as Go prints it.
        item: String,
        /// The merge key that the item lacks.
        key: String,
    },
    /// A list item with `$patch: merge`.
    #[error("merging lists cannot yet be specified in the patch")]
    MergingLists,
    /// A `$patch` directive with another value.
    #[error("unknown patch type: {directive} in map: {map}")]
    Directive {
        /// The value of `$patch`.
        directive: String,
        /// The map it stands in.
        map: String,
    },
    /// A list directive that is not a list.
    #[error("expected a []interface{{}}, but received {0}")]
    List(String),
    /// Items of different types in one list.
    #[error("list element types are not identical: {0}")]
    ElementTypes(String),
    /// A list of maps is to be merged, but nothing says by which field.
    #[error("cannot merge lists without merge key for {0}")]
    NoMergeKey(String),
    /// Something is to be merged below a field that may hold anything.
    #[error("unable to find api field in struct RawExtension for the json field {0:?}")]
    Opaque(String),
    /// The order list lacks items of the patch, or has them in another order.
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    Order {
        /// The items of the patch.
        patch: String,
        /// The list under `$setElementOrder`.
        order: String,
    },
    /// Values are nested deeper than we follow.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl Error {
    /// The HTTP code the reference server answers with.
    pub fn code(&self) -> u16 {
        match self {
            Self::Decode { .. } | Self::Null | Self::Format(_) | Self::TooDeep => 400,
            Self::TooManyOperations(_) => 413,
            Self::Operation => 422,
            _ => 500,
        }
    }
}

/// Applies a merge patch (RFC 7386): null deletes, maps merge, everything else replaces.
pub fn merge_patch(object: &Value, patch: &Value) -> Result<Value, Error> {
    bounded(object, patch)?;
    match patch {
        Value::Object(map) => Ok(Value::Object(merged(object, map))),
        Value::Null => Err(Error::Null),
        other => Err(Error::Decode {
            expected: "an object",
            got: kind_of(other),
        }),
    }
}

fn merged(target: &Value, patch: &Map<String, Value>) -> Map<String, Value> {
    let mut result = target.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        match value {
            Value::Null => {
                result.remove(key);
            }
            Value::Object(map) => {
                let old = result.get(key).unwrap_or(&Value::Null);
                let new = merged(old, map);
                result.insert(key.clone(), Value::Object(new));
            }
            other => {
                result.insert(key.clone(), other.clone());
            }
        }
    }
    result
}

fn bounded(object: &Value, patch: &Value) -> Result<(), Error> {
    if within_depth(object) && within_depth(patch) {
        Ok(())
    } else {
        Err(Error::TooDeep)
    }
}
