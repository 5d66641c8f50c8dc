//! What may change in a pod once it exists: very little.

use super::check::{Errors, FieldValue};
use super::pod::own_rules;
use super::pod_status;
use super::vocabulary::between;
use serde_json::Value;
use std::collections::BTreeSet;

const OPEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Broken rules of a changed pod. The reference server shows a diff below the last message; we do not.
pub(super) fn check(pod: &Value, old: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(pod).at("spec");
    let old = &old["spec"];
    own_rules(&spec, errors);
    for list in ["containers", "initContainers"] {
        if spec.at(list).items().len() != old[list].as_array().map_or(0, Vec::len) {
            return spec
                .at(list)
                .forbid(errors, "pod updates may not add or remove containers");
        }
    }
    if !deadline(
        &spec.at("activeDeadlineSeconds"),
        &old["activeDeadlineSeconds"],
        errors,
    ) {
        return;
    }
    tolerations(&spec.at("tolerations"), &old["tolerations"], errors);
    gates(&spec.at("schedulingGates"), &old["schedulingGates"], errors);
    if without_open_fields(spec.value, old) != *old {
        spec.forbid(errors, OPEN);
    }
}

/// Broken rules of a changed status.
pub(super) fn check_status(pod: &Value, old: &Value, errors: &mut Errors) {
    let status = FieldValue::root(pod).at("status");
    pod_status::check(pod, old, errors);
    status
        .at("qosClass")
        .fixed(errors, &old["status"]["qosClass"]);
    let nominated = status.at("nominatedNodeName");
    if nominated.value != &old["status"]["nominatedNodeName"] {
        nominated.dns_subdomain(errors);
    }
    if status.at("observedGeneration").number() < 0 {
        status
            .at("observedGeneration")
            .invalid(errors, "must be a non-negative integer");
    }
}

/// Whether it makes sense to look further.
fn deadline(new: &FieldValue<'_>, old: &Value, errors: &mut Errors) -> bool {
    let before = errors.len();
    match (new.value.as_i64(), old.as_i64()) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            new.complain(errors, between(seconds, 0, i64::from(i32::MAX)));
        }
        (Some(seconds), Some(old)) if old < seconds => {
            new.invalid(errors, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            new.invalid(
                errors,
                "must not update from a positive integer to nil value",
            );
            return true;
        }
        _ => {}
    }
    errors.len() == before
}

/// Tolerations may be added; of those that are there only the time may change.
fn tolerations(new: &FieldValue<'_>, old: &Value, errors: &mut Errors) {
    let plain = |toleration: &Value| {
        let mut plain = toleration.clone();
        if let Some(map) = plain.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        plain
    };
    let kept: Vec<Value> = new
        .items()
        .iter()
        .map(|toleration| plain(toleration.value))
        .collect();
    if !old
        .as_array()
        .into_iter()
        .flatten()
        .all(|toleration| kept.contains(&plain(toleration)))
    {
        new.forbid(
            errors,
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
}

/// Gates may only go.
fn gates(new: &FieldValue<'_>, old: &Value, errors: &mut Errors) {
    let old: BTreeSet<&str> = old
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|gate| gate["name"].as_str())
        .collect();
    for name in new
        .items()
        .iter()
        .map(|gate| gate.at("name"))
        .filter(|name| !old.contains(name.text()))
    {
        let why = format!(
            "only deletion is allowed, but found new scheduling gate '{}'",
            name.text()
        );
        name.forbid(errors, &why);
    }
}

/// The new spec with everything put back that may change.
fn without_open_fields(spec: &Value, old: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(map) = spec.as_object_mut() else {
        return spec;
    };
    let mut open = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    let was_negative = old["terminationGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds < 0);
    if was_negative && map.get("terminationGracePeriodSeconds") == Some(&Value::from(1)) {
        open.push("terminationGracePeriodSeconds");
    }
    if old["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        open.extend(["nodeSelector", "affinity"]);
    }
    for field in open {
        match old.get(field) {
            Some(value) => map.insert(field.to_owned(), value.clone()),
            None => map.remove(field),
        };
    }
    for list in ["containers", "initContainers"] {
        let containers = map
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for (container, old) in containers.zip(old[list].as_array().into_iter().flatten()) {
            if let Some(container) = container.as_object_mut() {
                container.insert("image".to_owned(), old["image"].clone());
            }
        }
    }
    spec
}
