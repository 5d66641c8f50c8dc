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

use super::{GridObject, Wanted, annotation_of, carried, is_local, mirror, target};
use crate::claims::name_taken;
use crate::failure::Trouble;
use crate::packed::Packed;
use crate::step::{Apply, Claim, Kind, Manager, ObjectId, Plan, Step};
use crate::workload_grid::{LOOK_AGAIN, recheck_at};

/// What is known when a member's grid is planned.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// The object at the mirror's target.
    pub local: Option<&'a GridObject>,
    /// Whether any node has the grid's key.
    pub has_units: bool,
    /// Whether the nodes that had it lost the label, rather than being deleted.
    pub lost_label: bool,
    /// Whether the target namespace exists; `None` if nobody looked.
    pub namespace_exists: Option<bool>,
    /// Whether missing namespaces may be made.
    pub creates_namespaces: bool,
    /// How long the grid stays after its last node was deleted.
    pub grace: Duration,
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What to write.
    pub plan: Plan,
    /// What keeps the grid from being as wanted.
    pub trouble: Option<Trouble>,
    /// Look whether the target namespace exists, then decide again.
    pub needs_look: bool,
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
        let is_foreign_in_the_way = world.has_units && !mirror::is_removed(&mirror.metadata);
        if is_foreign_in_the_way {
            decision.trouble = Some(name_taken(&local.id(), "it was not made by federation"));
            decision.plan.recheck_after(LOOK_AGAIN);
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
            leave(local, world, now, &mut decision.plan);
        }
        return decision;
    }
    if ours.is_none() && !has_room(&namespace, world, &mut decision) {
        return decision;
    }
    if let Some(local) = ours
        && annotation_of(&local.metadata, annotation::UNIT_GONE_SINCE).is_some()
    {
        decision.plan.push(Plan::WHOLE, mark(local, None));
    }
    for step in wanted(mirror).writes(ours, &id, Manager::Member) {
        decision.plan.push(Plan::WHOLE, step);
    }
    decision
}

/// The grid as the member should have it.
pub fn wanted(mirror: &GridObject) -> Wanted {
    let mut labels = mirror.metadata.labels.clone().unwrap_or_default();
    labels.remove(label::DISTRIBUTED);
    Wanted::new(json!({
        "metadata": { "labels": labels, "annotations": carried(&mirror.metadata) },
        "spec": mirror.spec,
    }))
}

/// Whether there is a namespace for the grid; makes it where that is allowed.
fn has_room(namespace: &str, world: &World<'_>, decision: &mut Decision) -> bool {
    match world.namespace_exists {
        Some(true) => true,
        None => {
            decision.needs_look = true;
            false
        }
        Some(false) if world.creates_namespaces => {
            let id = ObjectId::cluster(Kind::Namespace, namespace);
            let body = json!({});
            decision.plan.push(Plan::WHOLE, Step::Create { id, body });
            true
        }
        Some(false) => {
            decision.trouble = Some(Trouble::new(
                reason::NAMESPACE_MISSING,
                format!(
                    "namespace {namespace} does not exist here: create it, or let the controller do so (--create-namespaces)"
                ),
            ));
            decision.plan.recheck_after(LOOK_AGAIN);
            false
        }
    }
}

/// What becomes of the grid of a cluster that has no node with the key any more.
fn leave(local: &GridObject, world: &World<'_>, now: Timestamp, plan: &mut Plan) {
    let noted = annotation_of(&local.metadata, annotation::UNIT_GONE_SINCE)
        .and_then(|moment| moment.parse::<Timestamp>().ok());
    let since = noted.unwrap_or(now);
    let until = since.checked_add(world.grace).unwrap_or(Timestamp::MAX);
    if world.lost_label || until <= now {
        return delete(local, plan);
    }
    if noted.is_none() {
        plan.push(Plan::WHOLE, mark(local, Some(now)));
    }
    recheck_at(plan, until, now);
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
        plan.push(Plan::WHOLE, Step::Delete { id, uid });
    }
}
