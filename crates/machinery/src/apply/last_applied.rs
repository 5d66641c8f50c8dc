//! The upgrade from client-side apply.
//!
//! `kubectl apply` used to keep what it applied in an annotation. When `kubectl` turns to server-side
//! apply, fields that still have the value of the annotation are its own, whoever the list of
//! managers credits; and the annotation is kept up to date for those who go back.

use serde_json::Value;

use super::compare::compare;
use super::path::PathSet;
use super::typed::{field_set, mistakes};
use super::within_depth;
use crate::table::Shape;

/// The only manager these rules hold for.
pub(super) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations of an object together may not be larger.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The paths of the annotation whose values still hold; nothing if it cannot be used.
pub(super) fn unchanged(live: &Value, api_version: &str, shape: Shape<'_>) -> Option<PathSet> {
    let text = live["metadata"]["annotations"][ANNOTATION].as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    let usable = last["apiVersion"] == api_version
        && within_depth(&last)
        && mistakes(&last, shape).is_empty();
    if !usable {
        return None;
    }
    let changes = compare(&last, live, shape);
    let set = field_set(&last, shape)
        .difference(&changes.modified)
        .difference(&changes.added)
        .difference(&changes.removed);
    Some(set)
}

/// Writes what was applied into the annotation, if the live object has one.
pub(super) fn refresh(live: &Value, applied: &Value, object: &mut Value) {
    let old = live["metadata"]["annotations"][ANNOTATION].as_str();
    if old.is_none_or(str::is_empty) {
        return;
    }
    let mut body = applied.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        let annotations = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut);
        if let Some(annotations) = annotations {
            annotations.remove(ANNOTATION);
        }
    }
    body.sort_all_objects();
    let text = format!("{body}\n");
    let Some(annotations) = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let others = annotations.iter().filter(|(key, _)| *key != ANNOTATION);
    let size: usize = others
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size + ANNOTATION.len() + text.len() > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    } else {
        annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    }
}
