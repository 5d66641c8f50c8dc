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
use crate::inheritance::{Heir, Inheritance, inheritance};
use crate::notice::Notice;
use crate::observed::SiteNode;
use crate::packed::Packed;
use crate::site::{Site, Sites};
use crate::step::{Apply, Claim, Kind, Manager, ObjectId, Plan, Step};
use crate::wish::Conflict;
use crate::{auto_find, node, ownership};

/// What a NodeUnit is judged by.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// All nodes.
    pub nodes: &'a [Arc<SiteNode>],
    /// All units and groups.
    pub sites: &'a Sites,
    /// Nodes whose last write failed, and why.
    pub failures: &'a BTreeMap<String, String>,
}

/// A unit and what of the world concerns it.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    site: &'a Site,
    world: World<'a>,
    members: Vec<&'a SiteNode>,
    conflicts: Vec<Conflict>,
}

impl<'a> Judged<'a> {
    /// Looks at a unit; `None` for one that is not among the sites.
    pub fn new(name: &str, world: World<'a>) -> Option<Self> {
        let site = world.sites.site(name)?;
        let nodes = world.nodes.iter().map(AsRef::as_ref);
        let members: Vec<&SiteNode> = nodes.filter(|node| site.has(node)).collect();
        let conflicts = members
            .iter()
            .flat_map(|node| world.sites.intent(node).conflicts);
        let mut conflicts: Vec<Conflict> = conflicts
            .filter(|conflict| conflict.loser.0 == site.name)
            .collect();
        conflicts.sort();
        Some(Self {
            site,
            world,
            members,
            conflicts,
        })
    }

    /// What is to be written on the unit.
    pub fn plan(&self, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let unit = &self.site.unit;
        let Some(uid) = &unit.metadata.uid else {
            return plan;
        };
        let id = ObjectId::cluster(Kind::NodeUnit, &self.site.name);
        if self.site.is_leaving() {
            if let Some(step) = let_go(unit, id).filter(|_| self.is_clean()) {
                plan.push(Plan::WHOLE, step);
            }
            return plan;
        }
        if self.is_forsaken() {
            let uid = uid.clone();
            plan.push(Plan::WHOLE, Step::Delete { id, uid });
            return plan;
        }
        let inherited = inherited(unit, now);
        if let Some(wait) = inherited.wait {
            plan.notices.push(node::superedge_runs(&id.to_string()));
            plan.recheck_after(wait);
            return plan;
        }
        write(self.site, id, inherited, &mut plan);
        plan.notices.extend(self.conflict_notice());
        plan
    }

    /// What the unit reports.
    pub fn status(&self, now: Timestamp) -> NodeUnitStatus {
        let unit = &self.site.unit;
        let before = unit.status.clone().unwrap_or_default();
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
            observed_generation: unit.metadata.generation,
            unit_cluster_status: before.unit_cluster_status,
        }
    }

    /// A conflict that the status does not tell of yet, so that a restart says nothing twice.
    fn conflict_notice(&self) -> Option<Notice> {
        let text = conflict_text(&self.conflicts)?;
        let status = self.site.unit.status.as_ref();
        let mut told = status.into_iter().flat_map(|status| &status.conditions);
        let is_told = told.any(|one| one.type_ == condition::CONFLICT && one.message == text);
        (!is_told).then(|| Notice::warning(reason::CONFLICT, text))
    }

    /// Whether no node carries anything of a unit that goes. What somebody else put is not ours
    /// to wait for.
    fn is_clean(&self) -> bool {
        let nodes = self.world.nodes.iter().map(AsRef::as_ref);
        let staying = nodes.filter(|node| node.metadata.deletion_timestamp.is_none());
        let marked = staying.filter(|node| node::is_marked(node, &self.site.name));
        let mut concerned = marked.chain(self.members.iter().copied());
        !concerned.any(|node| node::has_leftovers(node, self.world.sites))
    }

    /// Whether a unit that we found has lost its last group or its last node.
    fn is_forsaken(&self) -> bool {
        let unit = &self.site.unit;
        auto_find::found_for(unit).is_some()
            && auto_find::is_ours(&unit.metadata)
            && (self.site.groups.is_empty() || self.members.is_empty())
    }

    fn conditions(
        &self,
        before: &[Condition],
        not_ready: &[String],
        now: Timestamp,
    ) -> Vec<Condition> {
        let mut said = Conditions::new(before, self.site.unit.metadata.generation, now);
        match not_ready {
            [] if self.members.is_empty() => {
                said.say(
                    condition::READY,
                    false,
                    reason::NO_NODES,
                    "the unit has no nodes",
                );
            }
            [] => said.say(
                condition::READY,
                true,
                reason::NODES_READY,
                "every node is ready",
            ),
            some => {
                let names = listed(some.iter().map(String::as_str));
                let message = format!("not ready: {names}");
                said.say(condition::READY, false, reason::NODES_NOT_READY, message);
            }
        }
        let problems = self.problems(now);
        match problems.first() {
            None => said.say(
                condition::DEGRADED,
                false,
                reason::AS_WANTED,
                "nodes are as the unit wants them",
            ),
            Some((reason, message)) => said.say(condition::DEGRADED, true, reason, message.clone()),
        }
        let named = [
            condition::CONFLICT,
            condition::NODES_MISSING,
            condition::INVALID,
        ];
        for (reason, message) in problems.iter().filter(|(reason, _)| named.contains(reason)) {
            said.note(reason, reason, message.clone());
        }
        said.finish()
    }

    /// What keeps nodes from being as the unit wants them, worst first.
    fn problems(&self, now: Timestamp) -> Vec<(&'static str, String)> {
        let failing = self.failing();
        let is_held = inherited(&self.site.unit, now).wait.is_some()
            || self.members.iter().any(|node| node::is_held(node, now));
        let held = is_held.then(|| node::superedge_runs("the unit or its nodes").message);
        let complaints =
            (!self.site.complaints.is_empty()).then(|| self.site.complaints.join("; "));
        let missing = self.missing();
        [
            (reason::NODES_NOT_WRITTEN, failing),
            (reason::SUPEREDGE_RUNNING, held),
            (condition::CONFLICT, conflict_text(&self.conflicts)),
            (condition::INVALID, complaints),
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
            .site
            .unit
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

fn let_go(unit: &NodeUnit, id: ObjectId) -> Option<Step> {
    let finalizers = unit.metadata.finalizers.as_ref()?;
    let place = finalizers
        .iter()
        .position(|one| one == finalizer::NODE_UNIT)?;
    Some(Step::Patch {
        id,
        resource_version: unit.metadata.resource_version.clone().unwrap_or_default(),
        operations: vec![
            json!({ "op": "remove", "path": format!("/metadata/finalizers/{place}") }),
        ],
    })
}

fn write(site: &Site, id: ObjectId, inherited: Inheritance, plan: &mut Plan) {
    let uid = site.unit.metadata.uid.clone().unwrap_or_default();
    let body = body(site);
    if !is_as_applied(&site.unit, &inherited.fields, &body) {
        let apply = Apply {
            id: id.clone(),
            body: Packed::from(&body),
            claim: Claim::Ours { uid },
            manager: Manager::Edgegrid,
        };
        plan.push(Plan::WHOLE, Step::Apply(apply));
    }
    if !inherited.operations.is_empty() {
        let resource_version = site.unit.metadata.resource_version.clone();
        let patch = Step::Patch {
            id,
            resource_version: resource_version.unwrap_or_default(),
            operations: inherited.operations,
        };
        // First, because it holds only at the revision that was looked at.
        plan.units
            .entry(Plan::WHOLE.into())
            .or_default()
            .insert(0, patch);
    }
}

/// All that we want of a unit.
fn body(site: &Site) -> Value {
    let mut labels: BTreeMap<&str, String> = site
        .groups
        .iter()
        .map(|group| (group.as_str(), marker::NODE_GROUP.to_owned()))
        .filter(|(group, _)| crate::legal::is_site_name(group))
        .collect();
    let mut body = json!({
        "metadata": { "finalizers": [finalizer::NODE_UNIT] },
        "spec": { "setNode": { "labels": site.markers() } },
    });
    if let Some(found) = auto_find::found_for(&site.unit).filter(|_| site.is_found) {
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

/// Whether a unit holds all of the body, has its values, and nothing that we no longer name.
fn is_as_applied(unit: &NodeUnit, fields: &Value, body: &Value) -> bool {
    let labels = unit.metadata.labels.clone().unwrap_or_default();
    let shown = unit
        .spec
        .set_node
        .as_ref()
        .map(|own| own.labels.clone())
        .unwrap_or_default();
    ownership::covers(fields, body)
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

/// Whether a map holds for us exactly what is wanted, with its values.
fn is_same(held: &Value, wanted: &Value, live: &BTreeMap<String, String>) -> bool {
    let held = held.as_object().into_iter().flat_map(Map::keys);
    let mut held = held.filter_map(|key| key.strip_prefix("f:"));
    held.all(|key| wanted.get(key).is_some())
        && wanted
            .as_object()
            .into_iter()
            .flatten()
            .all(|(key, value)| live.get(key).map(String::as_str) == value.as_str())
}

/// What site-manager wrote on a unit: markers, its hash, its finalizer.
fn inherited(unit: &NodeUnit, now: Timestamp) -> Inheritance {
    let name = unit.metadata.name.as_deref().unwrap_or_default();
    let labels = unit.metadata.labels.as_ref();
    let set_node = unit.spec.set_node.as_ref();
    let value =
        |of: Option<&BTreeMap<String, String>>, key: &str| of.and_then(|map| map.get(key).cloned());
    let version = format!("{}/{}", Kind::NodeUnit.facts().0, Kind::NodeUnit.facts().1);
    let finalizer = format!("v:\"{}\"", finalizer::NODE_UNIT);
    inheritance(&unit.metadata, &version, now, |path| {
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
        if is_ours { Heir::Us } else { Heir::SiteManager }
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
