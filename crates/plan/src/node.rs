//! What a Node should carry, over all NodeUnits that have it.
//!
//! ```text
//! NodeUnits, NodeGroups ─► NodeUnits::intent(node) ─► one apply: labels, annotations, cordon
//!                                             └─► one patch: taints, and what passes from SuperEdge
//! ```
//!
//! An apply is all that we want of the node, so Kubernetes itself removes what we no longer name,
//! and leaves what others have set or changed since. Nothing has to be remembered outside the Node.

use std::collections::{BTreeMap, BTreeSet};

use edgegrid_api::names::{manager, reason};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::conflict::NodeSettings;
use crate::membership::NodeUnits;
use crate::notice::Notice;
use crate::observed::{PrunedNode, applied_by};
use crate::packed::Packed;
use crate::site_manager::{Handover, NewOwner, handover, is_site_managed};
use crate::step::{Apply, Claim, Manager, ObjectId, ObjectKind, Plan, Step};
use crate::taints;

/// Labels and annotations of SuperEdge that no NodeUnit sets: they belong to a site's own k3s.
const NOT_HANDED_OVER: &str = "site.superedge.io/";

/// What is to be written on a node.
pub fn plan(node: &PrunedNode, node_units: &NodeUnits, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let (Some(name), Some(uid)) = (&node.metadata.name, &node.metadata.uid) else {
        return plan;
    };
    if node.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let handover = handover_of(node, now);
    if let Some(wait) = handover.wait {
        plan.notices.push(superedge_runs(name));
        plan.recheck_after(wait);
        return plan;
    }
    let settings = node_units.intent(node).settings;
    let id = ObjectId::cluster(ObjectKind::Node, name);
    let mut operations = handover.operations;
    // Whoever changed the list last owns all of it, so it does not show which taints were site-manager's.
    let passes_to_us = !operations.is_empty();
    operations.extend(taints::operations(node, &settings.taints, passes_to_us));
    if !operations.is_empty() {
        let resource_version = node.metadata.resource_version.clone().unwrap_or_default();
        let id = id.clone();
        plan.push(Step::Patch {
            id,
            resource_version,
            operations,
        });
    }
    if !is_as_applied(node, &OwnedFields::from_fields(&handover.fields), &settings) {
        plan.push(Step::Apply(Apply {
            id,
            body: Packed::from(&body(&settings)),
            claim: Claim::Ours { uid: uid.clone() },
            manager: Manager::Edgegrid,
        }));
    }
    plan
}

/// Whether a node still carries something of ours that no NodeUnit wants any more.
pub fn has_leftovers(node: &PrunedNode, node_units: &NodeUnits) -> bool {
    let settings = node_units.intent(node).settings;
    let owned = OwnedFields::from_fields(&handover_of(node, Timestamp::MAX).fields);
    let is_left = |owned: &BTreeSet<String>, wanted: &BTreeMap<String, String>| {
        owned.iter().any(|key| !wanted.contains_key(key))
    };
    is_left(&owned.labels, &settings.labels)
        || is_left(&owned.annotations, &settings.annotations)
        || (owned.unschedulable && !settings.unschedulable)
        || taints::has_leftovers(node, &settings.taints)
}

/// Whether our mark for a NodeUnit is on a node, wanted or not.
pub fn is_marked(node: &PrunedNode, node_unit: &str) -> bool {
    let fields = applied_by(&node.metadata, manager::EDGEGRID);
    let key = format!("f:{node_unit}");
    fields.is_some_and(|fields| fields["f:metadata"]["f:labels"].get(key).is_some())
}

/// Whether nothing is written on a node for now, because SuperEdge's site-manager just did.
pub fn is_paused(node: &PrunedNode, now: Timestamp) -> bool {
    is_site_managed(&node.metadata) && handover_of(node, now).wait.is_some()
}

/// The warning that SuperEdge's site-manager still writes to an object.
pub fn superedge_runs(object: &str) -> Notice {
    Notice::warning(
        reason::SUPEREDGE_RUNNING,
        format!(
            "SuperEdge's site-manager has just written {object}: nothing is written until it stops, \
             so stop it (kubectl -n edge-system delete deployment site-manager)"
        ),
    )
}

/// The fields of a node that we own.
#[derive(Debug, Default)]
struct OwnedFields {
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
    unschedulable: bool,
}

impl OwnedFields {
    fn from_fields(fields: &Value) -> Self {
        let keys = |map: &str| -> BTreeSet<String> {
            let map = fields["f:metadata"][map].as_object();
            let keys = map.into_iter().flat_map(Map::keys);
            keys.filter_map(|key| key.strip_prefix("f:").map(str::to_owned))
                .collect()
        };
        Self {
            labels: keys("f:labels"),
            annotations: keys("f:annotations"),
            unschedulable: fields["f:spec"].get("f:unschedulable").is_some(),
        }
    }
}

fn handover_of(node: &PrunedNode, now: Timestamp) -> Handover {
    handover(&node.metadata, "v1", now, |path| match path {
        ["metadata", "labels" | "annotations", key] if !key.starts_with(NOT_HANDED_OVER) => {
            NewOwner::Us
        }
        // Applied as a whole it would be everybody's: only the patch of taints touches it.
        ["spec", "taints"] => NewOwner::Nobody,
        _ => NewOwner::SiteManager,
    })
}

fn is_as_applied(node: &PrunedNode, owned: &OwnedFields, settings: &NodeSettings) -> bool {
    let is_same = |owned: &BTreeSet<String>,
                   live: Option<&BTreeMap<String, String>>,
                   wanted: &BTreeMap<String, String>| {
        owned.iter().eq(wanted.keys())
            && wanted
                .iter()
                .all(|(key, value)| live.and_then(|live| live.get(key)) == Some(value))
    };
    let metadata = &node.metadata;
    is_same(&owned.labels, metadata.labels.as_ref(), &settings.labels)
        && is_same(
            &owned.annotations,
            metadata.annotations.as_ref(),
            &settings.annotations,
        )
        && owned.unschedulable == settings.unschedulable
        && (node.spec.unschedulable || !settings.unschedulable)
}

fn body(settings: &NodeSettings) -> Value {
    let mut body = json!({});
    if !settings.labels.is_empty() {
        body["metadata"]["labels"] = json!(settings.labels);
    }
    if !settings.annotations.is_empty() {
        body["metadata"]["annotations"] = json!(settings.annotations);
    }
    if settings.unschedulable {
        body["spec"]["unschedulable"] = true.into();
    }
    body
}
