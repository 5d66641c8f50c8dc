//! The rules of `metadata`, for every kind.

use crate::names::{self, NameRule};
use crate::status::FieldError;
use serde_json::Value;
use std::collections::BTreeSet;

/// All annotations together, keys and values, in bytes.
const ANNOTATIONS_MAX: u64 = 256 * 1024;

/// What a resource demands of its metadata.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// How names are formed.
    pub name: NameRule,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether a new finalizer must be a known one or have a domain: built-in kinds; custom
    /// resources are only warned, see [`finalizer_warnings`].
    pub strict_finalizers: bool,
}

/// Violations in the metadata of a new object; `at` is the path of the metadata.
pub fn validate(metadata: &Value, rules: Rules, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let base = text(metadata, "generateName");
    if !base.is_empty() {
        push(
            &mut errors,
            &format!("{at}.generateName"),
            base,
            rules.name.base_complaints(base),
        );
    }
    match text(metadata, "name") {
        "" => errors.push(FieldError::required(
            format!("{at}.name"),
            "name or generateName is required",
        )),
        name => push(
            &mut errors,
            &format!("{at}.name"),
            name,
            rules.name.complaints(name),
        ),
    }
    match (rules.namespaced, text(metadata, "namespace")) {
        (true, "") => errors.push(FieldError::required(format!("{at}.namespace"), "")),
        (true, namespace) => push(
            &mut errors,
            &format!("{at}.namespace"),
            namespace,
            names::dns_label(namespace),
        ),
        (false, "") => {}
        (false, _) => errors.push(FieldError::forbidden(
            format!("{at}.namespace"),
            "not allowed on this type",
        )),
    }
    if let Some(generation) = metadata["generation"]
        .as_i64()
        .filter(|generation| *generation < 0)
    {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(
            format!("{at}.generation"),
            generation,
            why,
        ));
    }
    errors.extend(common(metadata, at));
    errors.extend(finalizers(metadata, &format!("{at}.finalizers")));
    if rules.strict_finalizers {
        for (index, name) in list(metadata, "finalizers").into_iter().enumerate() {
            if !name.contains('/') && !is_standard(name) {
                let why = "name is neither a standard finalizer name nor is it fully qualified";
                errors.push(FieldError::invalid(
                    format!("{at}.finalizers[{index}]"),
                    name,
                    why,
                ));
            }
        }
    }
    errors
}

/// Violations in the metadata of a changed object; `at` is the path of the metadata.
pub fn validate_update(metadata: &Value, old: &Value, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !old["deletionTimestamp"].is_null() {
        errors.extend(new_finalizers(metadata, old, &format!("{at}.finalizers")));
    }
    if text(metadata, "resourceVersion").is_empty() {
        let why = "must be specified for an update";
        errors.push(FieldError::invalid(
            format!("{at}.resourceVersion"),
            "",
            why,
        ));
    }
    let generation = |metadata: &Value| metadata["generation"].as_i64().unwrap_or(0);
    if generation(metadata) < generation(old) {
        let why = "must not be decremented";
        errors.push(FieldError::invalid(
            format!("{at}.generation"),
            generation(metadata),
            why,
        ));
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let (new, old) = (&metadata[field], &old[field]);
        if new != old {
            let shown = if new.is_null() && matches!(field, "name" | "namespace" | "uid") {
                &Value::from("")
            } else {
                new
            };
            errors.push(FieldError::invalid(
                format!("{at}.{field}"),
                shown.clone(),
                "field is immutable",
            ));
        }
    }
    errors.extend(common(metadata, at));
    errors
}

/// Warnings for finalizers that are new in `metadata` and have no domain in their name.
pub fn finalizer_warnings(metadata: &Value, old: Option<&Value>) -> Vec<String> {
    let known: BTreeSet<&str> = old
        .map(|old| list(old, "finalizers"))
        .unwrap_or_default()
        .into_iter()
        .collect();
    let fresh: BTreeSet<&str> = list(metadata, "finalizers")
        .into_iter()
        .filter(|name| !known.contains(name))
        .collect();
    let mut warnings = Vec::new();
    for name in fresh {
        let at = format!("metadata.finalizers: {name:?}");
        warnings.extend(
            names::qualified_name(name)
                .into_iter()
                .map(|why| format!("{at}: {why}")),
        );
        if !name.contains('/') && !is_standard(name) {
            let path = if name.contains('.') {
                "including a path (/) "
            } else {
                ""
            };
            warnings.push(format!(
                "{at}: prefer a domain-qualified finalizer name {path}to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    warnings
}

fn is_standard(finalizer: &str) -> bool {
    matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes")
}

fn common(metadata: &Value, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let labels = format!("{at}.labels");
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        push(&mut errors, &labels, key, names::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        push(&mut errors, &labels, value, names::label_value(value));
    }
    let annotations = format!("{at}.annotations");
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        push(
            &mut errors,
            &annotations,
            key,
            names::qualified_name(&key.to_lowercase()),
        );
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if u64::try_from(size).unwrap_or(u64::MAX) > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(annotations, ANNOTATIONS_MAX));
    }
    errors.extend(owners(metadata, &format!("{at}.ownerReferences")));
    errors
}

fn owners(metadata: &Value, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    let references = metadata["ownerReferences"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for (index, owner) in references.iter().enumerate() {
        errors.extend(owner_errors(owner, &format!("{at}[{index}]")));
        if owner["controller"] != true {
            continue;
        }
        let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        match &controller {
            None => controller = Some(this),
            Some(first) => errors.push(FieldError::invalid(
                at,
                metadata["ownerReferences"].clone(),
                format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"),
            )),
        }
    }
    errors
}

fn owner_errors(owner: &Value, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let version = text(owner, "apiVersion");
    if !version.is_empty() && (version.matches('/').count() > 1 || version.ends_with('/')) {
        let why = "must be <group>/<version> or <version>";
        errors.push(FieldError::invalid(
            format!("{at}.apiVersion"),
            version,
            why,
        ));
    }
    if version == "v1" && text(owner, "kind") == "Event" {
        let why = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::invalid(at, owner.clone(), why));
    }
    for field in ["apiVersion", "kind", "name", "uid"] {
        if text(owner, field).is_empty() {
            errors.push(FieldError::required(
                format!("{at}.{field}"),
                "must not be empty",
            ));
        }
    }
    errors
}

fn finalizers(metadata: &Value, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let names = list(metadata, "finalizers");
    for name in &names {
        push(&mut errors, at, name, names::qualified_name(name));
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(at, metadata["finalizers"].clone(), why));
    }
    errors
}

fn new_finalizers(metadata: &Value, old: &Value, at: &str) -> Option<FieldError> {
    let old: BTreeSet<&str> = list(old, "finalizers").into_iter().collect();
    let fresh: BTreeSet<&str> = list(metadata, "finalizers")
        .into_iter()
        .filter(|name| !old.contains(name))
        .collect();
    let shown: Vec<String> = fresh.iter().map(|name| format!("{name:?}")).collect();
    (!fresh.is_empty()).then(|| {
        let shown = shown.join(", ");
        FieldError::forbidden(
            at,
            format!("no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"),
        )
    })
}

fn push(errors: &mut Vec<FieldError>, field: &str, value: &str, complaints: Vec<String>) {
    errors.extend(
        complaints
            .into_iter()
            .map(|why| FieldError::invalid(field, value, why)),
    );
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> Vec<&'a str> {
    value[field]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
