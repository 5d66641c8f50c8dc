//! Defaults and preparation of workloads.

use super::default::{complete, fill, inner};
use serde_json::{Map, Value};

pub(super) fn default_deployment(spec: &mut Map<String, Value>) {
    let strategy = inner(spec, "strategy");
    fill(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = inner(strategy, "rollingUpdate");
        complete(rolling, "maxUnavailable", "25%");
        complete(rolling, "maxSurge", "25%");
    }
}

pub(super) fn default_daemon_set(spec: &mut Map<String, Value>) {
    let strategy = inner(spec, "updateStrategy");
    fill(strategy, "type", "RollingUpdate");
    let rolls = strategy["type"] == "RollingUpdate";
    if rolls || strategy.get("rollingUpdate").is_some_and(Value::is_object) {
        let rolling = inner(strategy, "rollingUpdate");
        complete(rolling, "maxUnavailable", i32::from(rolls));
        complete(rolling, "maxSurge", 0);
    }
}

pub(super) fn default_stateful_set(spec: &mut Map<String, Value>) {
    let strategy = inner(spec, "updateStrategy");
    if strategy
        .get("type")
        .and_then(Value::as_str)
        .is_none_or(str::is_empty)
    {
        fill(strategy, "type", "RollingUpdate");
        inner(strategy, "rollingUpdate");
    }
    if strategy["type"] == "RollingUpdate"
        && let Some(rolling) = strategy
            .get_mut("rollingUpdate")
            .and_then(Value::as_object_mut)
    {
        fill(rolling, "partition", 0);
        complete(rolling, "maxUnavailable", 1);
    }
    for claim in spec
        .get_mut("volumeClaimTemplates")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(claim) = claim.as_object_mut() {
            claim.insert("apiVersion".to_owned(), "v1".into());
            claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        }
    }
}

pub(super) fn default_replication_controller(controller: &mut Map<String, Value>) {
    let labels = controller
        .get("spec")
        .and_then(|spec| spec.pointer("/template/metadata/labels"))
        .cloned();
    let Some(labels) = labels.filter(Value::is_object) else {
        return;
    };
    let empty = |value: Option<&Value>| value.and_then(Value::as_object).is_none_or(Map::is_empty);
    let spec = inner(controller, "spec");
    if empty(spec.get("selector")) {
        spec.insert("selector".to_owned(), labels.clone());
    }
    let metadata = inner(controller, "metadata");
    if empty(metadata.get("labels")) {
        metadata.insert("labels".to_owned(), labels);
    }
}

/// Where a `DaemonSet` counts the versions of its template, for clients of old.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn prepare_daemon_set(set: &mut Value) {
    let version = set["metadata"]["annotations"][TEMPLATE_GENERATION]
        .as_str()
        .and_then(|text| text.parse().ok());
    count_template(set, version.unwrap_or(0_i64).max(1));
}

pub(super) fn prepare_daemon_set_update(set: &mut Value, old: &Value) {
    let version = old["metadata"]["annotations"][TEMPLATE_GENERATION]
        .as_str()
        .and_then(|text| text.parse().ok());
    let changed = set["spec"]["template"] != old["spec"]["template"];
    count_template(set, version.unwrap_or(0_i64) + i64::from(changed));
}

fn count_template(set: &mut Value, version: i64) {
    let Some(set) = set.as_object_mut() else {
        return;
    };
    let annotations = inner(inner(set, "metadata"), "annotations");
    annotations.insert(TEMPLATE_GENERATION.to_owned(), version.to_string().into());
}
