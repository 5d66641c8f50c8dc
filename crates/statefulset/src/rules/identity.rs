//! Who a pod is: its name, labels, host name and claims follow from the set and its ordinal.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::claim::{claim_name, template_name};
use super::pod::Pod;
use super::revision::Template;
use super::set::Set;
use crate::names;

/// Ordinal of a name that belongs to a set but whose number is out of range.
pub(super) const NO_ORDINAL: i64 = -1;

/// Name of the pod with an ordinal.
pub fn pod_name(set: &str, ordinal: i64) -> String {
    format!("{set}-{ordinal}")
}

/// The ordinal in a pod's name, if the name is one that the set could give.
///
/// Stricter than Kubernetes in one point: `web-01` is nobody's, because it would be a second pod of
/// ordinal 1.
pub fn ordinal(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = digits == "0" || !digits.starts_with('0');
    if !is_number || !is_canonical {
        return None;
    }
    Some(digits.parse::<i32>().map_or(NO_ORDINAL, i64::from))
}

/// A reference by which the set controls an object.
pub fn set_reference(set: &Set) -> Value {
    json!({
        "apiVersion": names::SET_API_VERSION, "kind": names::SET_KIND, "name": set.name, "uid": set.uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Whether a pod has the labels that name it. Its index is written with them but never looked at.
pub(super) fn has_identity(pod: &Pod) -> bool {
    pod.labels.get(names::POD_NAME_LABEL) == Some(&pod.name)
}

/// Whether every claim of the ordinal is mounted.
pub(super) fn has_storage(set: &Set, pod: &Pod, ordinal: i64) -> bool {
    set.claim_templates.iter().all(|template| {
        let wanted = claim_name(template, &set.name, ordinal);
        pod.claims.get(template_name(template)) == Some(&wanted)
    })
}

/// The labels that make a pod this one.
pub(super) fn identity_labels(pod: &str, ordinal: i64) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (names::POD_NAME_LABEL, pod.to_owned()),
        (names::POD_INDEX_LABEL, ordinal.to_string()),
    ])
}

/// Volumes of the claims of an ordinal.
pub(super) fn claim_volumes(set: &Set, ordinal: i64) -> Vec<Value> {
    let volume = |template: &Value| {
        let claim = claim_name(template, &set.name, ordinal);
        json!({ "name": template_name(template), "persistentVolumeClaim": { "claimName": claim } })
    };
    set.claim_templates.iter().map(volume).collect()
}

/// The pod of an ordinal, made from a revision's template.
pub(super) fn new_pod(set: &Set, template: &Template, ordinal: i64) -> Value {
    let name = pod_name(&set.name, ordinal);
    let written = &template.template["metadata"];
    let mut labels = written["labels"].as_object().cloned().unwrap_or_default();
    for (key, value) in identity_labels(&name, ordinal) {
        labels.insert(key.into(), value.into());
    }
    labels.insert(names::REVISION_LABEL.into(), template.name.clone().into());
    let mut metadata = Map::from_iter([
        ("generateName".into(), format!("{}-", set.name).into()),
        ("namespace".into(), set.namespace.clone().into()),
        ("labels".into(), labels.into()),
        ("ownerReferences".into(), json!([set_reference(set)])),
    ]);
    for field in ["annotations", "finalizers"] {
        if let Some(value) = written.get(field).filter(|value| !value.is_null()) {
            metadata.insert(field.into(), value.clone());
        }
    }
    metadata.insert("name".into(), name.clone().into());
    json!({
        "apiVersion": names::CORE_API_VERSION,
        "kind": names::POD_KIND,
        "metadata": metadata,
        "spec": new_spec(set, &template.template["spec"], &name, ordinal),
    })
}

fn new_spec(set: &Set, template: &Value, name: &str, ordinal: i64) -> Map<String, Value> {
    let mut spec = template.as_object().cloned().unwrap_or_default();
    spec.insert("hostname".into(), name.into());
    if set.service.is_empty() {
        spec.remove("subdomain");
    } else {
        spec.insert("subdomain".into(), set.service.clone().into());
    }
    let mut volumes = claim_volumes(set, ordinal);
    let names: Vec<String> = set
        .claim_templates
        .iter()
        .map(|t| template_name(t).to_owned())
        .collect();
    let written = template["volumes"].as_array().cloned().unwrap_or_default();
    let is_free = |volume: &Value| !names.iter().any(|name| volume["name"] == name.as_str());
    volumes.extend(written.into_iter().filter(is_free));
    if !volumes.is_empty() {
        spec.insert("volumes".into(), volumes.into());
    }
    spec
}
