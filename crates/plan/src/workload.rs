//! The one workload of a unit: what we apply to it, rendered from the unit's template.
//!
//! A new workload is told apart from its siblings by the label [`label::UNIT`] in selector and
//! pod labels. One that exists keeps the selector it has, which may not change, and the pod
//! labels that go with it, so that nothing restarts when it is taken over.

use std::collections::BTreeMap;

use edgegrid_api::names::{annotation, label, manager};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::digest::digest;
use crate::failure::{Problem, immutable_problem};
use crate::grid::{Grid, Template};
use crate::observed::Child;
use crate::ownership::owner_reference;
use crate::unit_names::{Belongs, label_value};
use crate::workload_kind::WorkloadKind;

/// Part of every template hash: to be raised when the same template is rendered into other pods.
const RENDERING: &str = "1";

/// The node label of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitLabel<'a> {
    /// Key that names the grid's units.
    pub key: &'a str,
    /// Name of the unit.
    pub value: &'a str,
}

/// What we want a unit's workload to be.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredWorkload {
    /// The fields to apply.
    pub body: Value,
    /// Hash of it, but for the moment of the last change.
    pub applied: String,
    /// Hash of the template in this unit.
    pub template_hash: String,
}

/// Hash of a template in a unit: a unit whose workload has another one is to be changed.
pub fn template_hash(template: &Template, key: &str, unit: &str) -> String {
    digest(&json!([RENDERING, template.digest, key, unit]).to_string())
}

/// Renders the workload of a unit; `child` is the one that exists.
pub fn render(
    grid: &Grid,
    unit_label: UnitLabel<'_>,
    template: &Template,
    child: Option<&Child>,
    now: Timestamp,
) -> Result<DesiredWorkload, Problem> {
    let UnitLabel { key, value: unit } = unit_label;
    let spec = spec(unit_label, template, child)?;
    if grid.workload == WorkloadKind::StatefulSet {
        check_stateful_set(&spec, child)?;
    }
    let template_hash = template_hash(template, key, unit);
    let mut body = json!({
        "metadata": {
            "labels": labels(grid, key, unit),
            "annotations": annotations(grid, key, unit, &template_hash),
            "ownerReferences": [owner_reference(grid.workload.grid_kind(), &grid.metadata)],
        },
        "spec": spec,
    });
    let applied = digest(&body.to_string());
    let notes = &mut body["metadata"]["annotations"];
    notes[annotation::APPLIED] = json!(applied);
    if let Some(moment) = changed_at(child, &template_hash, now) {
        notes[annotation::CHANGED_AT] = json!(moment);
    }
    Ok(DesiredWorkload {
        body,
        applied,
        template_hash,
    })
}

/// Before `replicas` is dropped from what we apply: the live number under a manager of its own.
/// Dropping an owned field resets it, and ten pods would become one.
pub fn replicas_to_hand_over(template: &Template, child: &Child) -> Option<Value> {
    let owned = child
        .applied_by(manager::EDGEGRID)
        .is_some_and(|fields| fields.pointer("/f:spec/f:replicas").is_some());
    let live = child.spec.replicas?;
    (owned && template.replicas().is_none()).then(|| json!({ "spec": { "replicas": live } }))
}

/// The labels of a grid's objects: the grid's own and ours.
pub(crate) fn grid_labels(
    own: Option<&BTreeMap<String, String>>,
    name: &str,
    key: &str,
) -> BTreeMap<String, String> {
    let mut labels = own.cloned().unwrap_or_default();
    labels.insert(label::GRID_SELECTOR.into(), label_value(name));
    labels.insert(label::GRID_UNIQ_KEY.into(), label_value(key));
    labels
}

fn labels(grid: &Grid, key: &str, unit: &str) -> BTreeMap<String, String> {
    let mut labels = grid_labels(grid.metadata.labels.as_ref(), grid.name(), key);
    labels.insert(label::UNIT.into(), label_value(unit));
    labels
}

fn annotations(grid: &Grid, key: &str, unit: &str, template_hash: &str) -> Value {
    let belongs = Belongs {
        grid: grid.name().to_owned(),
        unit: unit.to_owned(),
    };
    let mut annotations = json!({
        annotation::GRID: serde_json::to_string(&belongs).unwrap_or_default(),
        annotation::TEMPLATE_HASH: template_hash,
    });
    if label_value(key) != key {
        annotations[annotation::GRID_UNIQ_KEY] = json!(key);
    }
    annotations
}

/// When the workload got another template than the one it was made with.
fn changed_at(child: Option<&Child>, template_hash: &str, now: Timestamp) -> Option<String> {
    let child = child?;
    if child.annotation(annotation::TEMPLATE_HASH) == Some(template_hash) {
        return child.annotation(annotation::CHANGED_AT).map(str::to_owned);
    }
    let whole_seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Some(whole_seconds.to_string())
}

fn spec(
    unit_label: UnitLabel<'_>,
    template: &Template,
    child: Option<&Child>,
) -> Result<Value, Problem> {
    let UnitLabel { key, value: unit } = unit_label;
    let mut spec = template.spec.clone();
    let tells_units_apart = match child.and_then(|child| child.spec.selector.as_ref()) {
        None => true,
        Some(live) => keeps_selector(&spec["selector"], &live.value(), unit)?,
    };
    if tells_units_apart && spec.get("selector").is_some() {
        member(&mut spec, &["selector", "matchLabels"])
            .insert(label::UNIT.into(), json!(label_value(unit)));
        pod_labels(&mut spec).insert(label::UNIT.into(), json!(label_value(unit)));
    }
    // By this label SuperEdge's rollouts are recognised, on the pods that exist.
    if let Some(hash) = child.and_then(|child| child.spec.superedge_hash.as_ref()) {
        pod_labels(&mut spec).insert(label::TEMPLATE_HASH_KEY.into(), json!(hash));
    }
    member(&mut spec, &["template", "spec", "nodeSelector"]).insert(key.into(), json!(unit));
    Ok(spec)
}

/// Whether a live selector has our label besides the template's; a problem if it is another one.
fn keeps_selector(template: &Value, live: &Value, unit: &str) -> Result<bool, Problem> {
    let plain = normal_selector(template);
    let live = normal_selector(live);
    if live == plain {
        return Ok(false);
    }
    let mut ours = plain;
    member(&mut ours, &["matchLabels"]).insert(label::UNIT.into(), json!(label_value(unit)));
    if live == ours {
        return Ok(true);
    }
    Err(immutable_problem("spec.selector"))
}

/// A selector without what is empty.
fn normal_selector(selector: &Value) -> Value {
    let is_empty = |value: &Value| {
        value.is_null()
            || value.as_object().is_some_and(Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
    };
    let fields = selector.as_object().into_iter().flatten();
    fields
        .filter(|(_, value)| !is_empty(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect::<Map<_, _>>()
        .into()
}

/// What a StatefulSet may not change, as far as it can be told without comparing what the
/// server may write differently. The rest is the server's to refuse.
fn check_stateful_set(wanted: &Value, child: Option<&Child>) -> Result<(), Problem> {
    let Some(live) = child.map(|child| &child.spec) else {
        return Ok(());
    };
    let service = wanted["serviceName"].as_str().unwrap_or_default();
    if service != live.service_name.as_deref().unwrap_or_default() {
        return Err(immutable_problem("spec.serviceName"));
    }
    let claims = wanted["volumeClaimTemplates"].as_array().into_iter();
    let claims = claims.flatten().map(|claim| &claim["metadata"]["name"]);
    if !claims.eq(&live.volume_claim_templates) {
        return Err(immutable_problem("spec.volumeClaimTemplates"));
    }
    Ok(())
}

fn pod_labels(spec: &mut Value) -> &mut Map<String, Value> {
    member(spec, &["template", "metadata", "labels"])
}

/// The object at a path, made where it is not there.
fn member<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let object = path.iter().fold(value, |value, name| {
        if !value.is_object() {
            *value = json!({});
        }
        &mut value[*name]
    });
    if !object.is_object() {
        *object = json!({});
    }
    object
        .as_object_mut()
        .expect("invariant: made an object just above")
}

#[cfg(test)]
mod tests;
