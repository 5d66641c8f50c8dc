//! `metadata`: what the server fills in, what nobody may change, and when an object may go.
//!
//! ```text
//! create: namespace ─► stamp ─► (defaults, admission) ─► validate
//! update: namespace ─► carry over from the old object ─► validate against it ─► next generation
//! delete: mark (finalizers, grace) … until no finalizer and no grace is left
//! ```
//!
//! Time, uid and the random suffix of a generated name are arguments: the same call gives the
//! same object.

mod deletion;
mod validate;

pub use deletion::{
    Preconditions, Propagation, is_removable, mark_deleted, propagation_finalizers, shorten_grace,
};
pub use validate::{Rules, finalizer_warnings, validate, validate_update};

use crate::names;
use crate::status::{FieldError, GroupResource, Status};
use serde_json::{Map, Value};

/// What makes a new object itself.
#[derive(Debug, Clone, Copy)]
pub struct CreateStamp<'a> {
    /// Unique in space and time.
    pub uid: &'a str,
    /// The time, RFC 3339 in whole seconds.
    pub now: &'a str,
    /// Appended to a `generateName` when there is no name.
    pub suffix: &'a str,
}

/// When `metadata.generation` goes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Generation {
    /// The kind has none.
    #[default]
    Untracked,
    /// When the spec changes.
    Spec,
    /// When the spec or the annotations change: Deployments.
    SpecAndAnnotations,
    /// When anything outside of metadata changes: kinds without a spec, custom resources without the
    /// status subresource.
    Content,
    /// When anything outside of metadata and status changes: custom resources with it.
    ContentButStatus,
    /// When the kind says so as it prepares an update.
    Prepared,
}

/// Puts the object into the namespace of the request, or refuses it if it says otherwise.
///
/// `namespace` is empty for requests on cluster-scoped resources.
pub fn ensure_namespace(object: &mut Value, namespace: &str) -> Result<(), Status> {
    let metadata = metadata_mut(object);
    let own = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if own == namespace {
        return Ok(());
    }
    if namespace.is_empty() {
        metadata.remove("namespace");
    } else if own.is_empty() {
        metadata.insert("namespace".to_owned(), namespace.into());
    } else {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Fills in what only the server may set on a new object; what a client wrote there is dropped, but
/// for the generation of a kind that does not track it.
pub fn stamp(object: &mut Value, create: CreateStamp<'_>, generation: Generation) {
    let metadata = metadata_mut(object);
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), create.uid.into());
    metadata.insert("creationTimestamp".to_owned(), create.now.into());
    let base = metadata
        .get("generateName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let name = metadata
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !base.is_empty() && name.is_empty() {
        let name = names::generated_name(base, create.suffix);
        metadata.insert("name".to_owned(), name.into());
    }
    if generation != Generation::Untracked {
        metadata.insert("generation".to_owned(), 1.into());
    }
}

/// Restores what an update may not change silently, from the stored object.
pub fn carry_over(object: &mut Value, old: &Value) {
    let old = old.get("metadata").and_then(Value::as_object);
    let metadata = metadata_mut(object);
    let mut restore = |field: &str, only_if_absent: bool| match old.and_then(|old| old.get(field)) {
        Some(value) if !only_if_absent || !is_present(metadata.get(field)) => {
            metadata.insert(field.to_owned(), value.clone());
        }
        None if !only_if_absent => {
            metadata.remove(field);
        }
        _ => {}
    };
    restore("generation", false);
    restore("uid", true);
    restore("creationTimestamp", false);
    if is_present(old.and_then(|old| old.get("deletionTimestamp"))) {
        restore("deletionTimestamp", false);
    }
    restore("deletionGracePeriodSeconds", true);
    metadata.remove("selfLink");
}

/// Sets the generation of a changed object from the old one; call after [`carry_over`].
pub fn advance_generation(object: &mut Value, old: &Value, rule: Generation) {
    let differs = |field: &str| object.get(field) != old.get(field);
    let annotations = |object: &Value| object.pointer("/metadata/annotations").cloned();
    let changed = match rule {
        Generation::Untracked | Generation::Prepared => return,
        Generation::Spec => differs("spec"),
        Generation::SpecAndAnnotations => {
            differs("spec") || annotations(object) != annotations(old)
        }
        Generation::Content => content_differs(object, old, &["apiVersion", "kind", "metadata"]),
        Generation::ContentButStatus => {
            content_differs(object, old, &["apiVersion", "kind", "metadata", "status"])
        }
    };
    let generation = old
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0)
        + i64::from(changed);
    if generation > 0 {
        metadata_mut(object).insert("generation".to_owned(), generation.into());
    }
}

/// Whether an update was made from the stored revision.
///
/// Without a `resourceVersion` it counts as made from any, if the kind allows that.
pub fn check_revision(
    object: &Value,
    old: &Value,
    resource: &GroupResource,
    unconditional: bool,
) -> Result<(), Status> {
    let wanted = revision(object);
    if !wanted.is_empty() && wanted.parse::<u64>().is_err() {
        return Err(Status::malformed_revision(wanted));
    }
    let name = name(old);
    match wanted {
        "" if unconditional => Ok(()),
        "" => Err(Status::invalid(
            resource,
            name,
            &[FieldError::invalid(
                "metadata.resourceVersion",
                0,
                "must be specified for an update",
            )],
        )),
        wanted if wanted == revision(old) => Ok(()),
        _ => Err(Status::modified(resource, name)),
    }
}

/// Whether an update names the stored object and not one that had its name before.
pub fn check_uid(object: &Value, old: &Value, resource: &GroupResource) -> Result<(), Status> {
    let (wanted, stored) = (text(object, "/metadata/uid"), text(old, "/metadata/uid"));
    if wanted.is_empty() || wanted == stored {
        return Ok(());
    }
    let name = name(old);
    let namespace = old
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .map(|ns| format!("{ns}/"));
    let key = format!(
        "/registry/{}/{}{name}",
        resource.resource,
        namespace.unwrap_or_default()
    );
    Err(Status::conflict(
        resource,
        name,
        format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {stored}"
        ),
    ))
}

/// The name of an object, empty when it has none.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The revision an object says it has, empty when it says none.
pub fn revision(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let value = object.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_default()
}

/// Whether an object may be created as it is: it must not claim a revision.
pub fn check_new(object: &Value) -> Result<(), Status> {
    if matches!(revision(object), "" | "0") {
        Ok(())
    } else {
        Err(Status::revision_on_create())
    }
}

/// Whether the object bears the name its URL says.
pub fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    let own = self::name(object);
    if own == name {
        return Ok(());
    }
    Err(Status::bad_request(if own.is_empty() {
        format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    } else {
        format!("the name of the object ({own}) does not match the name on the URL ({name})")
    }))
}

fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let object = object
        .as_object_mut()
        .expect("invariant: made an object just above");
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata
        .as_object_mut()
        .expect("invariant: made an object just above")
}

fn content_differs(object: &Value, old: &Value, but: &[&str]) -> bool {
    let content = |value: &Value| {
        let members = value.as_object().into_iter().flatten();
        let members = members.filter(|(key, _)| !but.contains(&key.as_str()));
        members
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<Map<_, _>>()
    };
    content(object) != content(old)
}

fn is_present(value: Option<&Value>) -> bool {
    value.is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
}

#[cfg(test)]
mod tests;
