//! What a NodeUnit itself should carry, whether it should be, and what it reports.
//!
//! ```text
//! groups ─► markers as labels and in setNode ─► one apply, with the finalizer
//! nodes  ─► status; may the finalizer go?; does a found unit still have a node?
//! ```
//!
//! The nodes themselves are written by [`crate::node`]: each object has one writer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use edgegrid_api::names::{condition, finalizer, label, marker, reason};
use edgegrid_api::node_unit::{NodeUnit, NodeUnitStatus, UnitType};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Map, Value, json};

use crate::conditions::{Conditions, listed};
use crate::conflict::Conflict;
use crate::membership::{NodeUnits, ResolvedNodeUnit};
use crate::notice::Notice;
use crate::observed::PrunedNode;
use crate::packed::Packed;
use crate::site_manager::{Handover, NewOwner, handover};
use crate::step::{Apply, Claim, Manager, ObjectId, ObjectKind, Plan, Scope, Step};
use crate::{applied_fields, auto_find, node};

/// What is known when a NodeUnit is planned.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// All nodes of the cluster.
    pub nodes: &'a [Arc<PrunedNode>],
    /// All NodeUnits and their groups.
    pub node_units: &'a NodeUnits,
    /// Nodes whose last write failed, and why.
    pub failures: &'a BTreeMap<String, String>,
}

/// Plans one NodeUnit, from it and what of the world concerns it.
#[derive(Clone, Debug)]
pub struct Planner<'a> {
    unit: &'a ResolvedNodeUnit,
    world: World<'a>,
    members: Vec<&'a PrunedNode>,
    conflicts: Vec<Conflict>,
}

impl<'a> Planner<'a> {
    /// Gathers what concerns a NodeUnit; `None` if the world has none of this name.
    pub fn new(name: &str, world: World<'a>) -> Option<Self> {
        let unit = world.node_units.get(name)?;
        let nodes = world.nodes.iter().map(AsRef::as_ref);
        let members: Vec<&PrunedNode> = nodes.filter(|node| unit.has(node)).collect();
        let conflicts = members
            .iter()
            .flat_map(|node| world.node_units.intent(node).conflicts);
        let mut conflicts: Vec<Conflict> = conflicts
            .filter(|conflict| conflict.loser.0 == unit.name)
            .collect();
        conflicts.sort();
        Some(Self {
            unit,
            world,
            members,
            conflicts,
        })
    }

    /// What is to be written on the NodeUnit.
    pub fn plan(&self, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let object = &self.unit.object;
        let Some(uid) = &object.metadata.uid else {
            return plan;
        };
        let id = ObjectId::cluster(ObjectKind::NodeUnit, &self.unit.name);
        if self.unit.is_being_deleted() {
            let step = Step::remove_finalizer(id, &object.metadata, finalizer::NODE_UNIT);
            if let Some(step) = step.filter(|_| self.is_clean()) {
                plan.push(step);
            }
            return plan;
        }
        if self.is_obsolete() {
            let uid = uid.clone();
            plan.push(Step::Delete { id, uid });
            return plan;
        }
        let handover = handover_of(object, now);
        if let Some(wait) = handover.wait {
            plan.notices.push(node::superedge_runs(&id.to_string()));
            plan.recheck_after(wait);
            return plan;
        }
        write(self.unit, id, handover, &mut plan);
        plan.notices.extend(self.conflict_notice());
        plan
    }

    /// The status of the NodeUnit.
    pub fn status(&self, now: Timestamp) -> NodeUnitStatus {
        let object = &self.unit.object;
        let before = object.status.clone().unwrap_or_default();
        let names = |ready: bool| -> Vec<String> {
            let nodes = self.members.iter().filter(|node| node.is_ready() == ready);
            let names: BTreeSet<String> = nodes
                .filter_map(|node| node.metadata.name.clone())
                .collect();
            names.into_iter().collect()
        };
        let (ready_nodes, not_ready_nodes) = (names(true), names(false));
        NodeUnitStatus {
            ready_rate: Some(format!("{}/{}", ready_nodes.len(), self.members.len())),
            conditions: self.conditions(&before.conditions, &not_ready_nodes, now),
            ready_nodes,
            not_ready_nodes,
            observed_generation: object.metadata.generation,
            unit_cluster_status: before.unit_cluster_status,
        }
    }

    /// A conflict that the status does not show yet, so that a restart repeats no event.
    fn conflict_notice(&self) -> Option<Notice> {
        let text = conflict_text(&self.conflicts)?;
        let status = self.unit.object.status.as_ref();
        let mut shown = status.into_iter().flat_map(|status| &status.conditions);
        let is_shown = shown.any(|one| one.type_ == condition::CONFLICT && one.message == text);
        (!is_shown).then(|| Notice::warning(reason::CONFLICT, text))
    }

    /// Whether no node carries anything of a NodeUnit that is deleted. What somebody else put there is not
    /// waited for.
    fn is_clean(&self) -> bool {
        let nodes = self.world.nodes.iter().map(AsRef::as_ref);
        let staying = nodes.filter(|node| node.metadata.deletion_timestamp.is_none());
        let marked = staying.filter(|node| node::is_marked(node, &self.unit.name));
        let mut concerned = marked.chain(self.members.iter().copied());
        !concerned.any(|node| node::has_leftovers(node, self.world.node_units))
    }

    /// Whether a NodeUnit that we found has lost its last group or its last node.
    fn is_obsolete(&self) -> bool {
        let object = &self.unit.object;
        auto_find::found_for(object).is_some()
            && auto_find::is_ours(&object.metadata)
            && (self.unit.groups.is_empty() || self.members.is_empty())
    }

    fn conditions(
        &self,
        before: &[Condition],
        not_ready: &[String],
        now: Timestamp,
    ) -> Vec<Condition> {
        let mut conditions = Conditions::new(before, self.unit.object.metadata.generation, now);
        match not_ready {
            [] if self.members.is_empty() => {
                conditions.set(
                    condition::READY,
                    false,
                    reason::NO_NODES,
                    "the unit has no nodes",
                );
            }
            [] => conditions.set(
                condition::READY,
                true,
                reason::NODES_READY,
                "every node is ready",
            ),
            some => {
                let names = listed(some.iter().map(String::as_str));
                let message = format!("not ready: {names}");
                conditions.set(condition::READY, false, reason::NODES_NOT_READY, message);
            }
        }
        let problems = self.problems(now);
        match problems.first() {
            None => conditions.set(
                condition::DEGRADED,
                false,
                reason::AS_WANTED,
                "nodes are as the unit wants them",
            ),
            Some((reason, message)) => {
                conditions.set(condition::DEGRADED, true, reason, message.clone());
            }
        }
        let named = [
            condition::CONFLICT,
            condition::NODES_MISSING,
            condition::INVALID,
        ];
        for (reason, message) in problems.iter().filter(|(reason, _)| named.contains(reason)) {
            conditions.set_true(reason, reason, message.clone());
        }
        conditions.finish()
    }

    /// What keeps nodes from being as the unit wants them, worst first.
    fn problems(&self, now: Timestamp) -> Vec<(&'static str, String)> {
        let failing = self.failing();
        let is_paused = handover_of(&self.unit.object, now).wait.is_some()
            || self.members.iter().any(|node| node::is_paused(node, now));
        let paused = is_paused.then(|| node::superedge_runs("the unit or its nodes").message);
        let field_errors =
            (!self.unit.field_errors.is_empty()).then(|| self.unit.field_errors.join("; "));
        let missing = self.missing();
        [
            (reason::NODES_NOT_WRITTEN, failing),
            (reason::SUPEREDGE_RUNNING, paused),
            (condition::CONFLICT, conflict_text(&self.conflicts)),
            (condition::INVALID, field_errors),
            (condition::NODES_MISSING, missing),
        ]
        .into_iter()
        .filter_map(|(reason, message)| Some((reason, message?)))
        .collect()
    }

    fn failing(&self) -> Option<String> {
        let names = self
            .members
            .iter()
            .filter_map(|node| node.metadata.name.as_deref());
        let failing: Vec<String> = names
            .filter_map(|name| Some(format!("{name}: {}", self.world.failures.get(name)?)))
            .collect();
        (!failing.is_empty()).then(|| listed(failing.iter().map(String::as_str)))
    }

    fn missing(&self) -> Option<String> {
        let wanted: BTreeSet<&str> = self
            .unit
            .object
            .spec
            .nodes
            .iter()
            .map(String::as_str)
            .collect();
        let members = self
            .members
            .iter()
            .filter_map(|node| node.metadata.name.as_deref());
        let there: BTreeSet<&str> = members.collect();
        let missing: Vec<&str> = wanted.difference(&there).copied().collect();
        (!missing.is_empty()).then(|| format!("no such nodes: {}", listed(missing)))
    }
}

/// The part of a status that is ours to apply.
pub fn status_body(status: &NodeUnitStatus) -> Value {
    let mut body = json!(status);
    body.as_object_mut()
        .map(|status| status.remove("unitClusterStatus"));
    // Empty ones, too: what site-manager counted last would stay.
    body["readyNodes"] = json!(status.ready_nodes);
    body["notReadyNodes"] = json!(status.not_ready_nodes);
    json!({ "status": body })
}

fn write(unit: &ResolvedNodeUnit, id: ObjectId, handover: Handover, plan: &mut Plan) {
    let uid = unit.object.metadata.uid.clone().unwrap_or_default();
    let body = body(unit);
    if !is_as_applied(&unit.object, &handover.fields, &body) {
        let apply = Apply {
            id: id.clone(),
            body: Packed::from(&body),
            claim: Claim::Ours { uid },
            manager: Manager::Edgegrid,
        };
        plan.push(Step::Apply(apply));
    }
    if !handover.operations.is_empty() {
        let resource_version = unit.object.metadata.resource_version.clone();
        let patch = Step::Patch {
            id,
            resource_version: resource_version.unwrap_or_default(),
            operations: handover.operations,
        };
        // First, because it holds only at the revision that was looked at.
        plan.steps.entry(Scope::Grid).or_default().insert(0, patch);
    }
}

/// All that we want of a NodeUnit.
fn body(unit: &ResolvedNodeUnit) -> Value {
    let mut labels: BTreeMap<&str, String> = unit
        .groups
        .iter()
        .map(|group| (group.as_str(), marker::NODE_GROUP.to_owned()))
        .filter(|(group, _)| crate::legal::is_node_unit_name(group))
        .collect();
    let mut body = json!({
        "metadata": { "finalizers": [finalizer::NODE_UNIT] },
        "spec": { "setNode": { "labels": unit.markers() } },
    });
    if let Some(found) = auto_find::found_for(&unit.object).filter(|_| unit.is_found) {
        let hash = auto_find::keys_hash(found.keys().map(String::as_str));
        labels.insert(label::AUTO_KEYS_HASH, hash);
        body["spec"]["type"] = json!(UnitType::Edge);
        body["spec"]["selector"] = json!({ "matchLabels": found });
    }
    if !labels.is_empty() {
        body["metadata"]["labels"] = json!(labels);
    }
    body
}

/// Whether we own all of the body in a NodeUnit, with its values, and nothing that we no longer name.
fn is_as_applied(unit: &NodeUnit, fields: &Value, body: &Value) -> bool {
    let labels = unit.metadata.labels.clone().unwrap_or_default();
    let shown = unit
        .spec
        .set_node
        .as_ref()
        .map(|own| own.labels.clone())
        .unwrap_or_default();
    applied_fields::covers(fields, body)
        && is_same(
            &fields["f:metadata"]["f:labels"],
            &body["metadata"]["labels"],
            &labels,
        )
        && is_same(
            &fields["f:spec"]["f:setNode"]["f:labels"],
            &body["spec"]["setNode"]["labels"],
            &shown,
        )
        && body["spec"]
            .get("type")
            .is_none_or(|type_| *type_ == json!(unit.spec.type_))
}

/// Whether we own exactly what is wanted of a map, with its values.
fn is_same(owned: &Value, wanted: &Value, live: &BTreeMap<String, String>) -> bool {
    let owned = owned.as_object().into_iter().flat_map(Map::keys);
    let mut owned = owned.filter_map(|key| key.strip_prefix("f:"));
    owned.all(|key| wanted.get(key).is_some())
        && wanted
            .as_object()
            .into_iter()
            .flatten()
            .all(|(key, value)| live.get(key).map(String::as_str) == value.as_str())
}

/// What site-manager hands over of a NodeUnit: markers, its hash, its finalizer.
fn handover_of(unit: &NodeUnit, now: Timestamp) -> Handover {
    let name = unit.metadata.name.as_deref().unwrap_or_default();
    let labels = unit.metadata.labels.as_ref();
    let set_node = unit.spec.set_node.as_ref();
    let value = |map: Option<&BTreeMap<String, String>>, key: &str| {
        map.and_then(|map| map.get(key).cloned())
    };
    let resource = ObjectKind::NodeUnit.resource();
    let version = format!("{}/{}", resource.group, resource.version);
    let finalizer = format!("v:\"{}\"", finalizer::NODE_UNIT);
    handover(&unit.metadata, &version, now, |path| {
        let is_ours = match path {
            ["metadata", "labels", key] => {
                *key == label::AUTO_KEYS_HASH
                    || value(labels, key).as_deref() == Some(marker::NODE_GROUP)
            }
            ["spec", "setNode", "labels", key] => {
                let shown = value(set_node.map(|own| &own.labels), key);
                *key == name || shown.as_deref() == Some(name)
            }
            ["metadata", "finalizers", one] => *one == finalizer,
            _ => false,
        };
        if is_ours {
            NewOwner::Us
        } else {
            NewOwner::SiteManager
        }
    })
}

fn conflict_text(conflicts: &[Conflict]) -> Option<String> {
    let first = conflicts.first()?;
    let (winner, kept) = &first.winner;
    let (loser, wanted) = &first.loser;
    let text = format!(
        "{} on node {}: the older NodeUnit {winner} sets {kept:?}, so {wanted:?} of NodeUnit {loser} is \
         not set; take the node out of one of them, or let them agree",
        first.subject, first.node
    );
    match conflicts.len() - 1 {
        0 => Some(text),
        more => Some(format!("{text} (and {more} more like this)")),
    }
}
