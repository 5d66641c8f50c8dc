//! A member's own grid, made as its mirror says. Needs nothing of the control cluster.
//!
//! | mirror | nodes with the key | the grid |
//! |---|---|---|
//! | there | some | exactly as the mirror; a hand edit is put back |
//! | there | none, their label was taken off | goes at once |
//! | there | none, their Node objects went | stays for the grace period, marked with the moment |
//! | says removal | any | goes |

use std::time::Duration;

use edgegrid_api::names::{annotation, label, reason};
use jiff::Timestamp;
use serde_json::json;

use super::{
    DesiredGrid, GridObject, annotation_of, carried_annotations, is_local, mirror, target,
};
use crate::failure::Problem;
use crate::ownership::name_taken;
use crate::packed::Packed;
use crate::step::{Apply, Claim, Manager, ObjectId, ObjectKind, Plan, RECHECK_INTERVAL, Step};

/// What is known when a member's grid is planned.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// The object at the mirror's target.
    pub local: Option<&'a GridObject>,
    /// Whether any node has the grid's key.
    pub has_units: bool,
    /// Whether the nodes that had it lost the label, rather than being deleted.
    pub lost_label: bool,
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
pub fn decide(mirror: &GridObject, world: &World<'_>, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let Some((namespace, name)) = target(&mirror.metadata) else {
        return decision;
    };
    let id = ObjectId::namespaced(mirror.kind, &namespace, &name);
    let ours = world.local.filter(|local| is_local(&local.metadata));
    if let Some(local) = world.local
        && ours.is_none()
    {
        let is_in_the_way = world.has_units && !mirror::is_removed(&mirror.metadata);
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
    if !world.has_units {
        if let Some(local) = ours {
            plan_leaving(local, world, now, &mut decision.plan);
        }
        return decision;
    }
    if ours.is_none() && !ensure_namespace(&namespace, world, &mut decision) {
        return decision;
    }
    if let Some(local) = ours
        && annotation_of(&local.metadata, annotation::UNIT_GONE_SINCE).is_some()
    {
        decision.plan.push(mark(local, None));
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
fn plan_leaving(local: &GridObject, world: &World<'_>, now: Timestamp, plan: &mut Plan) {
    let noted = annotation_of(&local.metadata, annotation::UNIT_GONE_SINCE)
        .and_then(|moment| moment.parse::<Timestamp>().ok());
    let since = noted.unwrap_or(now);
    let until = since.checked_add(world.grace).unwrap_or(Timestamp::MAX);
    if world.lost_label || until <= now {
        return delete(local, plan);
    }
    if noted.is_none() {
        plan.push(mark(local, Some(now)));
    }
    plan.recheck_at(until, now);
}

/// Notes since when the grid has no units, or that it has some again.
fn mark(local: &GridObject, moment: Option<Timestamp>) -> Step {
    let annotations = moment.map(|moment| {
        let second = Timestamp::from_second(moment.as_second()).unwrap_or(moment);
        json!({ annotation::UNIT_GONE_SINCE: second.to_string() })
    });
    let metadata = annotations.map_or(json!({}), |all| json!({ "annotations": all }));
    Step::Apply(Apply {
        id: local.id(),
        body: Packed::from(&json!({ "metadata": metadata })),
        claim: Claim::Ours {
            uid: local.metadata.uid.clone().unwrap_or_default(),
        },
        manager: Manager::Grace,
    })
}

fn delete(local: &GridObject, plan: &mut Plan) {
    if let Some(uid) = local.metadata.uid.clone() {
        let id = local.id();
        plan.push(Step::Delete { id, uid });
    }
}
