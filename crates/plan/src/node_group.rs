//! Which NodeUnits a NodeGroup has, which of them it still has to make, and what it reports.
//!
//! The group's marks on its NodeUnits are written with each NodeUnit ([`crate::node_unit`]) and those on
//! nodes with each Node ([`crate::node`]); the group makes the NodeUnits that it finds, and is not removed
//! until no NodeUnit shows it any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use edgegrid_api::NodeUnit;
use edgegrid_api::names::{condition, finalizer, label, marker, reason};
use edgegrid_api::node_group::{NodeGroup, NodeGroupStatus};
use edgegrid_api::node_unit::UnitType;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::applied_fields;
use crate::auto_find;
use crate::conditions::{Conditions, listed};
use crate::membership::claims;
use crate::observed::{PrunedNode, applied_by};
use crate::packed::Packed;
use crate::site_manager::is_owned;
use crate::step::{Apply, Claim, Manager, ObjectId, ObjectKind, Plan, Step};

/// What is known when a NodeGroup is planned.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// All nodes of the cluster.
    pub nodes: &'a [Arc<PrunedNode>],
    /// All NodeUnits of the cluster.
    pub units: &'a [Arc<NodeUnit>],
}

/// What is to be written: the group's finalizer, and the NodeUnits that it finds.
pub fn plan(group: &NodeGroup, world: &World<'_>) -> Plan {
    let mut plan = Plan::default();
    let metadata = &group.metadata;
    let (Some(name), Some(uid)) = (&metadata.name, &metadata.uid) else {
        return plan;
    };
    let id = ObjectId::cluster(ObjectKind::NodeGroup, name);
    if metadata.deletion_timestamp.is_some() {
        if !world.units.iter().any(|unit| shows(unit, name)) {
            let step = Step::remove_finalizer(id, metadata, finalizer::NODE_GROUP);
            if let Some(step) = step {
                plan.push(step);
            }
        }
        return plan;
    }
    let body = json!({ "metadata": { "finalizers": [finalizer::NODE_GROUP] } });
    let fields = applied_by(metadata, Manager::Edgegrid.name());
    if !fields.is_some_and(|fields| applied_fields::covers(&fields, &body)) {
        let claim = Claim::Ours { uid: uid.clone() };
        let apply = Apply {
            id,
            body: Packed::from(&body),
            claim,
            manager: Manager::Edgegrid,
        };
        plan.push(Step::Apply(apply));
    }
    let nodes = world.nodes.iter().map(AsRef::as_ref);
    for (name, combination) in auto_find::missing(group, nodes, world.units) {
        // Only what stays as long as the unit: what a create sets, no later apply takes away.
        let body = json!({
            "metadata": { "labels": { label::AUTO_KEYS_HASH: auto_find::keys_hash(auto_find::keys(group)) } },
            "spec": { "type": UnitType::Edge, "selector": { "matchLabels": combination } },
        });
        let id = ObjectId::cluster(ObjectKind::NodeUnit, &name);
        plan.push_for(name, Step::Create { id, body });
    }
    plan
}

/// The status of a group.
pub fn status(group: &NodeGroup, world: &World<'_>, now: Timestamp) -> NodeGroupStatus {
    let before = group.status.clone().unwrap_or_default();
    let units: BTreeSet<String> = world
        .units
        .iter()
        .filter(|unit| unit.metadata.deletion_timestamp.is_none() && claims(group, unit))
        .filter_map(|unit| unit.metadata.name.clone())
        .collect();
    let mut conditions = Conditions::new(&before.conditions, group.metadata.generation, now);
    let wanted: BTreeSet<String> = group.spec.node_units.iter().cloned().collect();
    let missing: Vec<&str> = wanted.difference(&units).map(String::as_str).collect();
    let field_errors = auto_find::field_errors(group);
    let missing_text = format!("no such NodeUnits: {}", listed(missing.iter().copied()));
    match (missing.is_empty(), units.is_empty()) {
        (false, _) => conditions.set(
            condition::READY,
            false,
            condition::UNITS_MISSING,
            missing_text.clone(),
        ),
        (true, true) => conditions.set(
            condition::READY,
            false,
            reason::NO_UNITS,
            "the group has no units",
        ),
        (true, false) => conditions.set(
            condition::READY,
            true,
            reason::UNITS_FOUND,
            "every unit is there",
        ),
    }
    if !missing.is_empty() {
        conditions.set_true(
            condition::UNITS_MISSING,
            condition::UNITS_MISSING,
            missing_text.clone(),
        );
    }
    if field_errors.is_empty() && missing.is_empty() {
        conditions.set(
            condition::DEGRADED,
            false,
            reason::AS_WANTED,
            "units are as the group wants them",
        );
    } else if field_errors.is_empty() {
        conditions.set(
            condition::DEGRADED,
            true,
            condition::UNITS_MISSING,
            missing_text,
        );
    } else {
        let text = field_errors.join("; ");
        conditions.set(condition::DEGRADED, true, condition::INVALID, text.clone());
        conditions.set_true(condition::INVALID, condition::INVALID, text);
    }
    NodeGroupStatus {
        unit_number: i32::try_from(units.len()).unwrap_or(i32::MAX),
        node_units: units.into_iter().collect(),
        workload_status: before.workload_status,
        observed_generation: group.metadata.generation,
        conditions: conditions.finish(),
    }
}

/// The part of a status that is ours to apply.
pub fn status_body(status: &NodeGroupStatus) -> Value {
    let mut body = json!(status);
    body.as_object_mut()
        .map(|status| status.remove("workloadStatus"));
    body["nodeUnits"] = json!(status.node_units); // none, too: what site-manager counted last would stay
    json!({ "status": body })
}

/// Whether a NodeUnit still shows a group because of us. One that is deleted takes it along.
pub fn shows(unit: &NodeUnit, group: &str) -> bool {
    let metadata = &unit.metadata;
    let labels = metadata.labels.as_ref();
    let set_node = unit.spec.set_node.as_ref().map(|own| &own.labels);
    let label = labels.and_then(|labels| labels.get(group));
    let shown = set_node.and_then(|labels| labels.get(group));
    // A NodeUnit of the group's own name has its own marker there.
    let is_label = label.is_some_and(|value| value == marker::NODE_GROUP);
    let is_shown = shown.is_some_and(|value| value != marker::NODE_UNIT);
    metadata.deletion_timestamp.is_none()
        && ((is_label && is_owned(metadata, &["metadata", "labels", group]))
            || (is_shown && is_owned(metadata, &["spec", "setNode", "labels", group])))
}
