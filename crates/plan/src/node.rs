//! What a Node should carry, over all units that have it.
//!
//! ```text
//! units, groups ─► Sites::intent(node) ─► one apply: labels, annotations, cordon
//!                                     └─► one patch: taints, and what passes from SuperEdge
//! ```
//!
//! An apply is all that we want of the node, so Kubernetes itself removes what we no longer name,
//! and leaves what others have set or changed since. Nothing has to be remembered but by the Node.

use std::collections::{BTreeMap, BTreeSet};

use edgegrid_api::names::{manager, reason};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::inheritance::{Heir, Inheritance, inheritance, is_site_managed};
use crate::notice::Notice;
use crate::observed::{SiteNode, applied_by};
use crate::packed::Packed;
use crate::site::Sites;
use crate::step::{Apply, Claim, Kind, Manager, ObjectId, Plan, Step};
use crate::taints;
use crate::wish::Wish;

/// Labels and annotations of SuperEdge that are no unit's: they belong to a unit's own k3s.
const NOT_INHERITED: &str = "site.superedge.io/";

/// What is to be written on a node.
pub fn plan(node: &SiteNode, sites: &Sites, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let (Some(name), Some(uid)) = (&node.metadata.name, &node.metadata.uid) else {
        return plan;
    };
    if node.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let inherited = inherited(node, now);
    if let Some(wait) = inherited.wait {
        plan.notices.push(superedge_runs(name));
        plan.recheck_after(wait);
        return plan;
    }
    let wish = sites.intent(node).wish;
    let id = ObjectId::cluster(Kind::Node, name);
    let mut operations = inherited.operations;
    // Whoever changed the list last holds all of it, so it does not show which taints were site-manager's.
    let passes_to_us = !operations.is_empty();
    operations.extend(taints::operations(node, &wish.taints, passes_to_us));
    if !operations.is_empty() {
        let resource_version = node.metadata.resource_version.clone().unwrap_or_default();
        let id = id.clone();
        plan.push(
            Plan::WHOLE,
            Step::Patch {
                id,
                resource_version,
                operations,
            },
        );
    }
    if !is_as_applied(node, &Held::of(&inherited.fields), &wish) {
        plan.push(
            Plan::WHOLE,
            Step::Apply(Apply {
                id,
                body: Packed::from(&body(&wish)),
                claim: Claim::Ours { uid: uid.clone() },
                manager: Manager::Edgegrid,
            }),
        );
    }
    plan
}

/// Whether a node still carries something of ours that no unit wants any more.
pub fn has_leftovers(node: &SiteNode, sites: &Sites) -> bool {
    let wish = sites.intent(node).wish;
    let held = Held::of(&inherited(node, Timestamp::MAX).fields);
    let is_left = |held: &BTreeSet<String>, wanted: &BTreeMap<String, String>| {
        held.iter().any(|key| !wanted.contains_key(key))
    };
    is_left(&held.labels, &wish.labels)
        || is_left(&held.annotations, &wish.annotations)
        || (held.unschedulable && !wish.unschedulable)
        || taints::has_leftovers(node, &wish.taints)
}

/// Whether our mark for a unit is on a node, wanted or not.
pub fn is_marked(node: &SiteNode, unit: &str) -> bool {
    let fields = applied_by(&node.metadata, manager::EDGEGRID);
    let key = format!("f:{unit}");
    fields.is_some_and(|fields| fields["f:metadata"]["f:labels"].get(key).is_some())
}

/// Whether nothing is written on a node for now, because SuperEdge's site-manager just did.
pub fn is_held(node: &SiteNode, now: Timestamp) -> bool {
    is_site_managed(&node.metadata) && inherited(node, now).wait.is_some()
}

/// How SuperEdge's site-manager is told of when it still runs.
pub fn superedge_runs(object: &str) -> Notice {
    Notice::warning(
        reason::SUPEREDGE_RUNNING,
        format!(
            "SuperEdge's site-manager has just written {object}: nothing is written until it stops, \
             so stop it (kubectl -n edge-system delete deployment site-manager)"
        ),
    )
}

/// What we hold of a node.
#[derive(Debug, Default)]
struct Held {
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
    unschedulable: bool,
}

impl Held {
    fn of(fields: &Value) -> Self {
        let keys = |of: &str| -> BTreeSet<String> {
            let map = fields["f:metadata"][of].as_object();
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

fn inherited(node: &SiteNode, now: Timestamp) -> Inheritance {
    inheritance(&node.metadata, "v1", now, |path| match path {
        ["metadata", "labels" | "annotations", key] if !key.starts_with(NOT_INHERITED) => Heir::Us,
        // Applied as a whole it would be everybody's: only the patch of taints touches it.
        ["spec", "taints"] => Heir::Nobody,
        _ => Heir::SiteManager,
    })
}

fn is_as_applied(node: &SiteNode, held: &Held, wish: &Wish) -> bool {
    let is_same = |held: &BTreeSet<String>,
                   live: Option<&BTreeMap<String, String>>,
                   wanted: &BTreeMap<String, String>| {
        held.iter().eq(wanted.keys())
            && wanted
                .iter()
                .all(|(key, value)| live.and_then(|live| live.get(key)) == Some(value))
    };
    let metadata = &node.metadata;
    is_same(&held.labels, metadata.labels.as_ref(), &wish.labels)
        && is_same(
            &held.annotations,
            metadata.annotations.as_ref(),
            &wish.annotations,
        )
        && held.unschedulable == wish.unschedulable
        && (node.spec.unschedulable || !wish.unschedulable)
}

fn body(wish: &Wish) -> Value {
    let mut body = json!({});
    if !wish.labels.is_empty() {
        body["metadata"]["labels"] = json!(wish.labels);
    }
    if !wish.annotations.is_empty() {
        body["metadata"]["annotations"] = json!(wish.annotations);
    }
    if wish.unschedulable {
        body["spec"]["unschedulable"] = true.into();
    }
    body
}
