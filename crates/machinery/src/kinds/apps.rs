//! Workloads of the `apps` group, and budgets for disrupting them.

use super::check::{Errors, FieldValue};
use super::vocabulary::{count_or_share, share};
use crate::selector::LabelSelector;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const UNSELECTED: &str = "`selector` does not match template `labels`";

pub(super) fn deployment(deployment: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(deployment).at("spec");
    counts(
        &spec,
        &[
            "replicas",
            "minReadySeconds",
            "revisionHistoryLimit",
            "progressDeadlineSeconds",
        ],
        errors,
    );
    selects_its_template(&spec, "deployment", errors);
    keeps_pods_running(&spec, "ReplicaSet", errors);
    let strategy = spec.at("strategy");
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "Recreate" if rolling.is_set() => {
            rolling.forbid(
                errors,
                "may not be specified when strategy `type` is 'Recreate'",
            );
        }
        "Recreate" => {}
        "RollingUpdate" => rolling_deployment(&rolling, errors),
        _ => strategy.unsupported(errors, &["Recreate", "RollingUpdate"]),
    }
    let deadline = spec.at("progressDeadlineSeconds");
    if deadline.is_set() && deadline.number() <= spec.at("minReadySeconds").number() {
        deadline.invalid(errors, "must be greater than minReadySeconds");
    }
}

fn rolling_deployment(rolling: &FieldValue<'_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    unavailable.complain(errors, count_or_share(unavailable.value));
    surge.complain(errors, count_or_share(surge.value));
    if pods(&unavailable) == 0 && pods(&surge) == 0 {
        unavailable.invalid(errors, "may not be 0 when `maxSurge` is 0");
    }
    at_most_all(&unavailable, errors);
}

pub(super) fn replica_set(set: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(set).at("spec");
    counts(&spec, &["replicas", "minReadySeconds"], errors);
    selects_its_template(&spec, "deployment", errors);
    keeps_pods_running(&spec, "ReplicaSet", errors);
}

pub(super) fn daemon_set(set: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(set).at("spec");
    counts(&spec, &["minReadySeconds", "revisionHistoryLimit"], errors);
    selects_its_template(&spec, "daemonset", errors);
    keeps_pods_running(&spec, "DaemonSet", errors);
    let strategy = spec.at("updateStrategy");
    match strategy.at("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => rolling_daemon_set(&strategy.at("rollingUpdate"), errors),
        _ => strategy.unsupported(errors, &["RollingUpdate", "OnDelete"]),
    }
}

fn rolling_daemon_set(rolling: &FieldValue<'_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    for field in [&unavailable, &surge] {
        field.complain(errors, count_or_share(field.value));
        at_most_all(field, errors);
    }
    match (pods(&unavailable) > 0, pods(&surge) > 0) {
        (true, true) => surge.invalid(errors, "may not be set when maxUnavailable is non-zero"),
        (false, false) => unavailable.require(errors, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

pub(super) fn stateful_set(set: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(set).at("spec");
    counts(&spec, &["replicas", "minReadySeconds"], errors);
    let start = spec.at("ordinals").at("start");
    start.not_negative(errors);
    let policy = spec.at("podManagementPolicy");
    if policy.needed(errors) && !["OrderedReady", "Parallel"].contains(&policy.text()) {
        policy.invalid(errors, "must be 'OrderedReady' or 'Parallel'");
    }
    stateful_strategy(&spec.at("updateStrategy"), errors);
    for field in ["whenDeleted", "whenScaled"] {
        spec.at("persistentVolumeClaimRetentionPolicy")
            .at(field)
            .one_of(errors, &["Retain", "Delete"]);
    }
    selects_its_template(&spec, "statefulset", errors);
    keeps_pods_running(&spec, "StatefulSet", errors);
}

/// The set with its template as pods will be: volumes from claim templates instead of others of that
/// name, and the host name of the pod itself.
pub(super) fn with_claims_as_volumes(set: &Value) -> Value {
    let mut set = set.clone();
    let claims = set
        .pointer("/spec/volumeClaimTemplates")
        .and_then(Value::as_array);
    let name = |claim: &Value| {
        claim
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let names: BTreeSet<String> = claims
        .into_iter()
        .flatten()
        .map(|claim| name(claim).unwrap_or_default())
        .collect();
    let Some(pod) = set
        .pointer_mut("/spec/template/spec")
        .and_then(Value::as_object_mut)
    else {
        return set;
    };
    pod.remove("hostname");
    pod.remove("subdomain");
    if names.is_empty() {
        return set;
    }
    let others = pod
        .get("volumes")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let is_other = |volume: &Value| {
        volume["name"]
            .as_str()
            .is_none_or(|name| !names.contains(name))
    };
    let claimed = names
        .iter()
        .map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }));
    let volumes = claimed.chain(others.into_iter().filter(is_other)).collect();
    pod.insert("volumes".to_owned(), Value::Array(volumes));
    set
}

fn stateful_strategy(strategy: &FieldValue<'_>, errors: &mut Errors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "" => strategy.require(errors, ""),
        "OnDelete" if rolling.is_set() => {
            rolling.invalid(errors, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.at("partition").not_negative(errors);
            let unavailable = rolling.at("maxUnavailable");
            unavailable.complain(errors, count_or_share(unavailable.value));
            if unavailable.is_set() && pods(&unavailable) == 0 {
                unavailable.invalid(errors, "cannot be 0");
            }
            at_most_all(&unavailable, errors);
        }
        _ => strategy.invalid(errors, "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

/// A name that was accepted once is not validated again.
pub(super) fn stateful_set_create(set: &Value, errors: &mut Errors) {
    FieldValue::root(set)
        .at("spec")
        .at("serviceName")
        .dns_label(errors);
}

pub(super) fn stateful_set_update(set: &Value, old: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(set).at("spec");
    // Claims cannot change, so what is wrong with them was wrong before.
    errors.retain(|error| !error.field().starts_with("spec.volumeClaimTemplates["));
    for field in [
        "selector",
        "volumeClaimTemplates",
        "serviceName",
        "podManagementPolicy",
    ] {
        spec.at(field).fixed(errors, &old["spec"][field]);
    }
}

pub(super) fn selector_is_fixed(object: &Value, old: &Value, errors: &mut Errors) {
    FieldValue::root(object)
        .at("spec")
        .at("selector")
        .fixed(errors, &old["spec"]["selector"]);
}

pub(super) fn controller_revision(revision: &Value, errors: &mut Errors) {
    FieldValue::root(revision)
        .at("revision")
        .not_negative(errors);
}

pub(super) fn controller_revision_data(revision: &Value, errors: &mut Errors) {
    let data = FieldValue::root(revision).at("data");
    match data.value {
        Value::Null => data.require(errors, "data is mandatory"),
        Value::Object(_) => {}
        _ => data.require(errors, "data must be a valid JSON object"),
    }
}

pub(super) fn controller_revision_update(revision: &Value, old: &Value, errors: &mut Errors) {
    FieldValue::root(revision)
        .at("data")
        .fixed(errors, &old["data"]);
}

pub(super) fn disruption_budget(budget: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(budget).at("spec");
    let bounds = [spec.at("minAvailable"), spec.at("maxUnavailable")];
    if bounds.iter().all(FieldValue::is_set) {
        spec.invalid(errors, "minAvailable and maxUnavailable cannot be both set");
    }
    for bound in &bounds {
        bound.complain(errors, count_or_share(bound.value));
        at_most_all(bound, errors);
    }
    spec.at("selector").selector(errors);
    spec.at("unhealthyPodEvictionPolicy")
        .one_of(errors, &["AlwaysAllow", "IfHealthyBudget"]);
}

/// A selector selects something, and the pods of the template among it.
fn selects_its_template(spec: &FieldValue<'_>, owner: &str, errors: &mut Errors) {
    let selector = spec.at("selector");
    let labels = spec.at("template").at("metadata").at("labels");
    if !selector.is_set() {
        if owner != "daemonset" {
            selector.require(errors, "");
        }
        return labels.invalid(errors, UNSELECTED);
    }
    let parsed = selector.selector(errors);
    if selector.at("matchLabels").is_empty() && selector.at("matchExpressions").is_empty() {
        selector.invalid(errors, &format!("empty selector is invalid for {owner}"));
    }
    match (parsed, owner) {
        (Some(parsed), _)
            if parsed.matches_with(|key| labels.value.get(key).and_then(Value::as_str)) => {}
        (Some(_), _) => labels.invalid(errors, UNSELECTED),
        (None, "daemonset") => {}
        (None, owner) => {
            // Without knowing whom it selects, the template is not validated.
            errors.retain(|error| !error.field().starts_with("spec.template."));
            selector.invalid(
                errors,
                if owner == "statefulset" {
                    ""
                } else {
                    "invalid label selector"
                },
            );
        }
    }
}

/// Pods of a workload are restarted and have no deadline.
fn keeps_pods_running(spec: &FieldValue<'_>, owner: &str, errors: &mut Errors) {
    if owner == "ReplicaSet" && LabelSelector::from_json(spec.at("selector").value).is_err() {
        return;
    }
    let pod = spec.at("template").at("spec");
    if pod.at("restartPolicy").text() != "Always" {
        pod.at("restartPolicy").unsupported(errors, &["Always"]);
    }
    let deadline = pod.at("activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.forbid(
            errors,
            &format!("activeDeadlineSeconds in {owner} is not Supported"),
        );
    }
}

/// None of these is negative.
pub(super) fn counts(parent: &FieldValue<'_>, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        parent.at(field).not_negative(errors);
    }
}

/// The number before a percent sign, or the number.
fn pods(bound: &FieldValue<'_>) -> i64 {
    share(bound.text()).unwrap_or_else(|| bound.number())
}

fn at_most_all(bound: &FieldValue<'_>, errors: &mut Errors) {
    if share(bound.text()).is_some_and(|share| share > 100) {
        bound.invalid(errors, "must not be greater than 100%");
    }
}
