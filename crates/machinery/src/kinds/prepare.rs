//! Preparation that is the same for many kinds.

use crate::table::{Shape, zero};
use serde_json::{Map, Value};

/// Empties the status of a new object, if its kind has one.
pub(super) fn reset_status(object: &mut Value, shape: Option<Shape<'_>>) {
    let empty = shape.and_then(|shape| shape.child("status")).map(zero);
    let Some(object) = object.as_object_mut() else {
        return;
    };
    match empty {
        Some(status) => object.insert("status".to_owned(), status),
        None => object.remove("status"),
    };
}

/// Puts back a member as it was.
pub(super) fn restore(object: &mut Value, old: &Value, field: &str) {
    if let Some(object) = object.as_object_mut() {
        copy(object, old, field);
    }
}

/// Puts back a member of the metadata as it was.
pub(super) fn restore_metadata(object: &mut Value, old: &Value, field: &str) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        copy(metadata, &old["metadata"], field);
    }
}

/// Puts back everything a status update may not change; metadata is validated by the kind.
pub(super) fn keep_all_but_status(object: &mut Value, old: &Value) {
    const OPEN: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
    let Some(object) = object.as_object_mut() else {
        return;
    };
    object.retain(|field, _| OPEN.contains(&field.as_str()));
    for (field, value) in old.as_object().into_iter().flatten() {
        if !OPEN.contains(&field.as_str()) {
            object.insert(field.clone(), value.clone());
        }
    }
}

/// Puts back everything but the status; of the metadata only who manages the object may change.
pub(super) fn only_status(object: &mut Value, old: &Value) {
    let mut kept = old.clone();
    restore(&mut kept, object, "status");
    for field in ["managedFields", "resourceVersion"] {
        restore_metadata(&mut kept, object, field);
    }
    *object = kept;
}

fn copy(to: &mut Map<String, Value>, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}
