//! Claims on storage.

use super::check::{Errors, FieldValue};
use super::default::{fill, inner};
use super::vocabulary::{self, nanos};
use crate::names;
use crate::status::FieldError;
use serde_json::{Map, Value, json};

const MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

pub(super) fn default(claim: &mut Map<String, Value>) {
    fill(inner(claim, "status"), "phase", "Pending");
}

pub(super) fn prepare_create(claim: &mut Value) {
    claim["status"] = json!({ "phase": "Pending" });
    prepare_sources(claim, &Value::Null);
}

pub(super) fn prepare_update(claim: &mut Value, old: &Value) {
    prepare_sources(claim, &old["spec"]);
}

/// The health of a volume cannot be set yet.
pub(super) fn prepare_status_update(claim: &mut Value, _: &Value) {
    if let Some(status) = claim.get_mut("status") {
        remove(status, "healthStatus");
    }
}

/// The two ways to name a source say the same; one in another namespace is dropped.
fn prepare_sources(claim: &mut Value, old: &Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let is_foreign = |source: &Value| {
        source["namespace"]
            .as_str()
            .is_some_and(|ns| !ns.is_empty())
    };
    if old["dataSourceRef"].is_null() && spec.get("dataSourceRef").is_some_and(is_foreign) {
        spec.remove("dataSourceRef");
    }
    if old["dataSource"].is_null()
        && old["dataSourceRef"].is_null()
        && spec
            .get("dataSource")
            .is_some_and(|source| !is_known_source(source))
        && !spec.contains_key("dataSourceRef")
    {
        spec.remove("dataSource");
    }
    let given = |field: &str| spec.get(field).filter(|source| source.is_object()).cloned();
    match (given("dataSource"), given("dataSourceRef")) {
        (Some(source), None) => {
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (None, Some(source)) if source["namespace"].as_str().is_none_or(str::is_empty) => {
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

/// The older way only takes other claims and snapshots; anything else was ignored, and still is.
fn is_known_source(source: &Value) -> bool {
    match source["apiGroup"].as_str().unwrap_or_default() {
        "" => source["kind"] == "PersistentVolumeClaim",
        "snapshot.storage.k8s.io" => source["kind"] == "VolumeSnapshot",
        _ => false,
    }
}

/// Rules of the spec of a claim, which also stands in other kinds.
pub(super) fn spec(spec: &FieldValue<'_>, errors: &mut Errors) {
    let modes = spec.at("accessModes");
    if modes.is_empty() {
        modes.require(errors, "at least 1 access mode is required");
    }
    let items = modes.items();
    for mode in items.iter().filter(|mode| !MODES.contains(&mode.text())) {
        FieldValue {
            path: modes.path.clone(),
            ..mode.clone()
        }
        .unsupported(errors, MODES);
    }
    let alone = |mode: &FieldValue<'_>| mode.text() == "ReadWriteOncePod";
    if items.iter().any(alone)
        && items
            .iter()
            .any(|mode| !alone(mode) && MODES.contains(&mode.text()))
    {
        modes.forbid(
            errors,
            "may not use ReadWriteOncePod with other access modes",
        );
    }
    size(spec, errors);
    spec.at("storageClassName").dns_subdomain(errors);
    spec.at("volumeAttributesClassName").dns_subdomain(errors);
    spec.at("volumeMode")
        .one_of(errors, &["Block", "Filesystem"]);
    for source in [spec.at("dataSource"), spec.at("dataSourceRef")] {
        source_is_named(&source, errors);
    }
    sources_match(spec, errors);
}

fn sources_match(spec: &FieldValue<'_>, errors: &mut Errors) {
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    let own = |source: &FieldValue<'_>| {
        ["apiGroup", "kind", "name"].map(|field| source.at(field).value.clone())
    };
    if !source.is_set() || !reference.is_set() {
        return;
    }
    if !reference.at("namespace").is_empty() || own(&source) != own(&reference) {
        spec.invalid(errors, "must have a dataSource that matches dataSourceRef");
    }
}

/// What controllers may say of a claim; some complaints name the map and not the key.
pub(super) fn check_status(claim: &Value, _: &Value, errors: &mut Errors) {
    const RESIZE: &[&str] = &[
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizePending",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
    ];
    let status = FieldValue::root(claim).at("status");
    let capacity = status.at("capacity");
    for name in capacity.keys() {
        capacity.key(name).not_below_zero(errors);
    }
    let resizing = status.at("allocatedResourceStatuses");
    for name in resizing.keys() {
        resource_key(&resizing, name, errors);
        if !RESIZE.contains(&resizing.key(name).text()) {
            resizing.unsupported(errors, RESIZE);
        }
    }
    let allocated = status.at("allocatedResources");
    for name in allocated.keys() {
        if resource_key(&allocated, name, errors) {
            allocated.key(name).not_below_zero(errors);
        }
    }
}

/// Only storage, or something with a domain of its own.
fn resource_key(map: &FieldValue<'_>, name: &str, errors: &mut Errors) -> bool {
    let before = errors.len();
    map.complain(errors, names::qualified_name(name));
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    if errors.len() == before && is_native && name != "storage" {
        map.unsupported(errors, &["storage"]);
    }
    errors.len() == before
}

fn size(spec: &FieldValue<'_>, errors: &mut Errors) {
    let size = spec.at("resources").at("requests").at("storage");
    let size = FieldValue {
        path: spec.at("resources").key("storage").path,
        ..size
    };
    if !size.is_set() {
        size.require(errors, "");
    } else if nanos(size.value) <= 0 {
        size.invalid(errors, "must be greater than zero");
    }
}

fn source_is_named(source: &FieldValue<'_>, errors: &mut Errors) {
    if !source.is_set() {
        return;
    }
    source.at("name").needed(errors);
    source.at("kind").needed(errors);
    let kind = source.at("kind").text();
    if source.at("apiGroup").is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(&*source.path, kind, why));
    }
}

/// A claim is fixed, but a bound one may grow. The reference server shows a diff below the message; we do not.
pub(super) fn check_update(claim: &Value, old: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(claim).at("spec");
    let (mut new, mut before) = (spec.value.clone(), old["spec"].clone());
    if before["volumeName"].as_str().is_none_or(str::is_empty) {
        remove(&mut new, "volumeName");
        remove(&mut before, "volumeName");
    }
    if before["storageClassName"].is_null() && !new["storageClassName"].is_null() {
        remove(&mut new, "storageClassName");
        remove(&mut before, "storageClassName");
    }
    if claim["status"]["phase"] == "Bound" {
        for spec in [&mut new, &mut before] {
            remove(spec, "volumeAttributesClassName");
            if let Some(requests) = spec.pointer_mut("/resources/requests") {
                remove(requests, "storage");
            }
        }
    }
    if new != before {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        spec.forbid(errors, why);
    }
    let size = |claim: &Value| nanos(&claim["spec"]["resources"]["requests"]["storage"]);
    let wanted = spec.at("resources").at("requests").at("storage");
    if size(claim) < size(old) && size(claim) <= nanos(&old["status"]["capacity"]["storage"]) {
        wanted.forbid(errors, "field can not be less than status.capacity");
    }
    if spec.at("volumeMode").value != &old["spec"]["volumeMode"] {
        let mode = spec.at("volumeMode").value.clone();
        errors.push(FieldError::invalid(
            "volumeMode",
            mode,
            vocabulary::IMMUTABLE,
        ));
    }
}

fn remove(value: &mut Value, field: &str) {
    if let Some(map) = value.as_object_mut() {
        map.remove(field);
    }
}
