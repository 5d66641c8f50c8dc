//! A member's own grid, made as its mirror says. Needs nothing of the control cluster.
//!
//! | mirror | nodes with the key | the grid |
//! |---|---|---|
//! | there | some | exactly as the mirror; a hand edit is put back |
//! | there | none, their label was taken off | goes at once |
//! | there | none, their Node objects went | stays for the grace period, marked with the moment |
//! | there | none, and a StatefulSet would take its claims along | stays until a person deletes that |
//! | says removal | any | goes |

use std::collections::BTreeSet;
use std::time::Duration;

use edgegrid_api::names::{annotation, label, reason};
use jiff::Timestamp;
use serde_json::json;

use super::{
    DesiredGrid, GridObject, annotation_of, carried_annotations, is_local, mirror, target,
};
use crate::failure::Problem;
use crate::grace_period::removal_held;
use crate::grid_state::VanishedUnit;
use crate::ownership::name_taken;
use crate::packed::Packed;
use crate::step::{Apply, Claim, Manager, ObjectId, ObjectKind, Plan, RECHECK_INTERVAL, Step};

/// What is known when a member's grid is planned.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// The object at the mirror's target.
    pub local: Option<&'a GridObject>,
    /// How the last node with the grid's key went; `None` while some node has it.
    pub vanished: Option<VanishedUnit>,
    /// Names of the grid's StatefulSets that would take their claims with them.
    pub sets_with_claims: BTreeSet<String>,
    /// Whether the target namespace exists; `None` if that was not checked.
    pub namespace_exists: Option<bool>,
    /// Whether missing namespaces may be made.
    pub creates_namespaces: bool,
    /// How long the grid stays after its last node was deleted.
    pub grace: Duration,
}

/// What was decided about a member's grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What to write, and when to look again.
    pub plan: Plan,
    /// What keeps the grid from being as wanted.
    pub problem: Option<Problem>,
    /// Check whether the target namespace exists, then decide again.
    pub needs_namespace_check: bool,
}

/// Decides about the grid of a mirror.
pub fn decide(mirror: &GridObject, world: &World<'_>) -> Decision {
    let mut decision = Decision::default();
    let Some((namespace, name)) = target(&mirror.metadata) else {
        return decision;
    };
    let id = ObjectId::namespaced(mirror.kind, &namespace, &name);
    let ours = world.local.filter(|local| is_local(&local.metadata));
    if let Some(local) = world.local
        && ours.is_none()
    {
        let is_in_the_way = world.vanished.is_none() && !mirror::is_removed(&mirror.metadata);
        if is_in_the_way {
            decision.problem = Some(name_taken(&local.id(), "it was not made by federation"));
            decision.plan.recheck_after(RECHECK_INTERVAL);
        }
        return decision;
    }
    let is_going = ours.is_some_and(|local| local.metadata.deletion_timestamp.is_some());
    if is_going {
        return decision; // made again once it has gone
    }
    if mirror::is_removed(&mirror.metadata) {
        if let Some(local) = ours {
            delete(local, &mut decision.plan);
        }
        return decision;
    }
    if let Some(vanished) = &world.vanished {
        if let Some(local) = ours {
            plan_leaving(local, vanished, world, &mut decision);
        }
        return decision;
    }
    if ours.is_none() && !ensure_namespace(&namespace, world, &mut decision) {
        return decision;
    }
    if let Some(local) = ours {
        plan_mark(local, None, &mut decision.plan);
    }
    for step in render_grid(mirror).writes(ours, &id, Manager::Member) {
        decision.plan.push(step);
    }
    decision
}

/// The grid as the member should have it.
pub fn render_grid(mirror: &GridObject) -> DesiredGrid {
    let mut labels = mirror.metadata.labels.clone().unwrap_or_default();
    labels.remove(label::DISTRIBUTED);
    DesiredGrid::new(json!({
        "metadata": { "labels": labels, "annotations": carried_annotations(&mirror.metadata) },
        "spec": mirror.spec,
    }))
}

/// Plans a missing namespace where that is allowed, and returns whether the grid will have one.
fn ensure_namespace(namespace: &str, world: &World<'_>, decision: &mut Decision) -> bool {
    match world.namespace_exists {
        Some(true) => true,
        None => {
            decision.needs_namespace_check = true;
            false
        }
        Some(false) if world.creates_namespaces => {
            let id = ObjectId::cluster(ObjectKind::Namespace, namespace);
            let body = json!({});
            decision.plan.push(Step::Create { id, body });
            true
        }
        Some(false) => {
            decision.problem = Some(Problem::new(
                reason::NAMESPACE_MISSING,
                format!(
                    "namespace {namespace} does not exist here: create it, or let the controller do so (--create-namespaces)"
                ),
            ));
            decision.plan.recheck_after(RECHECK_INTERVAL);
            false
        }
    }
}

/// Keeps or deletes the grid of a cluster that has no node with the key any more.
fn plan_leaving(
    local: &GridObject,
    vanished: &VanishedUnit,
    world: &World<'_>,
    decision: &mut Decision,
) {
    let namespace = local.metadata.namespace.as_deref().unwrap_or_default();
    match vanished.grace_left(world.grace) {
        Some(left) => decision.plan.recheck_after(left),
        None if world.sets_with_claims.is_empty() => return delete(local, &mut decision.plan),
        None => decision.problem = removal_held(namespace, &world.sets_with_claims),
    }
    plan_mark(local, Some(vanished.since), &mut decision.plan);
}

/// Notes for people since when the grid has no units, or that it has some again.
fn plan_mark(local: &GridObject, moment: Option<Timestamp>, plan: &mut Plan) {
    let moment = moment.map(|moment| moment.to_string());
    if annotation_of(&local.metadata, annotation::UNIT_GONE_SINCE) == moment.as_deref() {
        return;
    }
    let annotations = moment.map(|moment| json!({ annotation::UNIT_GONE_SINCE: moment }));
    let metadata = annotations.map_or(json!({}), |all| json!({ "annotations": all }));
    plan.push(Step::Apply(Apply {
        id: local.id(),
        body: Packed::from(&json!({ "metadata": metadata })),
        claim: Claim::Ours {
            uid: local.metadata.uid.clone().unwrap_or_default(),
        },
        manager: Manager::Grace,
    }));
}

fn delete(local: &GridObject, plan: &mut Plan) {
    if let Some(uid) = local.metadata.uid.clone() {
        let id = local.id();
        plan.push(Step::Delete { id, uid });
    }
}
