//! How long the workload of a unit without nodes is kept.
//!
//! | what happened to a unit's last node | its workload |
//! |---|---|
//! | it lost the label, or got another value | goes at once: somebody wanted it so |
//! | its Node object was deleted, or nobody knows | stays for the grace period, marked with the moment |
//! | either, and its claims would go with it | is held: it stays as it is until a person deletes it |
//!
//! An outage that makes Node objects vanish and come back must not take a site's application with it, and
//! nothing that happens to Node objects may take its data.
//!
//! The grace is counted by the process that leads, from when it saw the unit without nodes. The mark is for
//! people only: whoever left it may have had a wrong clock, and the nodes may have been back since.

use std::collections::{BTreeMap, BTreeSet};

use edgegrid_api::names::{annotation, label, reason};
use jiff::Timestamp;
use serde_json::json;

use crate::conditions::listed;
use crate::failure::{Problem, REMOVAL_ATTEMPT};
use crate::grid::Grid;
use crate::grid_state::{Leaving, VanishedUnit, World};
use crate::observed::Child;
use crate::ownership::{Owner, Ownership};
use crate::packed::Packed;
use crate::step::{Apply, Claim, Manager, Plan, Scope, Step};
use crate::unit_names::{label_value, object_name, unit_of};

/// What becomes of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Retention {
    /// Its unit has nodes.
    Wanted,
    /// Its unit has none, but may come back.
    Kept(VanishedUnit),
    /// It is deleted now.
    Unwanted,
}

/// What is kept though it has no nodes.
#[derive(Debug, Default)]
pub(crate) struct KeptWorkloads {
    /// The units.
    pub(crate) leaving: BTreeMap<String, Leaving>,
    /// Names of the workloads that only a person may delete.
    pub(crate) held: BTreeSet<String>,
}

/// Plans deletions and marks of the grid's own workloads, and gives what is kept though it has no nodes.
pub(crate) fn plan_removals(
    grid: &Grid,
    key: &str,
    world: &World<'_>,
    now: Timestamp,
    plan: &mut Plan,
) -> KeptWorkloads {
    let selector = grid.selector_value();
    let owner = Owner {
        uid: grid.uid(),
        selector: &selector,
    };
    let mut kept = KeptWorkloads::default();
    for child in &world.children {
        let is_ours = owner.ownership(&child.metadata) == Ownership::Ours;
        let (Some(name), Some(uid)) = (&child.metadata.name, &child.metadata.uid) else {
            continue;
        };
        if !is_ours || child.metadata.deletion_timestamp.is_some() || world.pending.contains(name) {
            continue;
        }
        let unit = unit_of(grid.name(), &child.metadata).unwrap_or_else(|| name.clone());
        let retention = retention(grid, key, world, child, now);
        if child.spec.deletes_claims && retention != Retention::Wanted {
            kept.held.insert(name.clone());
            if object_name(grid.workload, grid.name(), &unit) == *name {
                let since = world.vanished(&unit, now).since;
                plan_mark(grid, &unit, child, Some(since), plan);
                kept.leaving.insert(unit, Leaving { since, until: None });
            }
            continue;
        }
        match retention {
            Retention::Wanted => plan_mark(grid, &unit, child, None, plan),
            Retention::Unwanted => {
                let id = grid.child(name);
                let uid = uid.clone();
                plan_deletion(world, unit, Step::Delete { id, uid }, now, plan);
            }
            Retention::Kept(vanished) => {
                let since = vanished.since;
                let until = since.checked_add(world.unit_grace);
                let until = Some(until.unwrap_or(Timestamp::MAX));
                plan_mark(grid, &unit, child, Some(since), plan);
                plan.recheck_after(vanished.grace_left(world.unit_grace).unwrap_or_default());
                kept.leaving.insert(unit, Leaving { since, until });
            }
        }
    }
    kept
}

/// Why workloads without nodes are not deleted, and how a person deletes them.
pub(crate) fn removal_held(namespace: &str, sets: &BTreeSet<String>) -> Option<Problem> {
    if sets.is_empty() {
        return None;
    }
    let names = listed(sets.iter().map(String::as_str));
    let message = format!(
        "without nodes, and kept as they are because their whenDeleted: Delete would delete their claims: StatefulSets {names}. \
         If the data may go: kubectl delete statefulset -n {namespace} NAME. If it must stay: the same with --cascade=orphan, then \
         delete the pods. Or label nodes again"
    );
    Some(Problem::new(reason::CLAIMS_WOULD_GO, message))
}

fn retention(
    grid: &Grid,
    key: &str,
    world: &World<'_>,
    child: &Child,
    now: Timestamp,
) -> Retention {
    let name = child.metadata.name.as_deref().unwrap_or_default();
    let name_of = |unit: &str| object_name(grid.workload, grid.name(), unit);
    let noted = unit_of(grid.name(), &child.metadata);
    let is_named_as_wanted = match &noted {
        Some(unit) if world.units.contains(unit) && name_of(unit) == name => true,
        _ => world.units.iter().any(|unit| name_of(unit) == name),
    };
    if is_named_as_wanted {
        return Retention::Wanted;
    }
    let Some(unit) = noted.filter(|unit| name_of(unit) == name) else {
        return Retention::Unwanted; // no unit's workload would be called so
    };
    let labels = child.metadata.labels.as_ref();
    let has_other_key = labels
        .and_then(|all| all.get(label::GRID_UNIQ_KEY))
        .is_some_and(|value| *value != label_value(key));
    let vanished = world.vanished(&unit, now);
    if has_other_key || vanished.grace_left(world.unit_grace).is_none() {
        return Retention::Unwanted;
    }
    Retention::Kept(vanished)
}

/// Deletes a workload, unless that failed a short while ago.
fn plan_deletion(world: &World<'_>, unit: String, deletion: Step, now: Timestamp, plan: &mut Plan) {
    let failure = world.failures.get(&Scope::Unit(unit.clone()));
    match failure.filter(|failure| failure.is_backing_off(REMOVAL_ATTEMPT, now)) {
        None => plan.push_for(unit, deletion),
        Some(failure) => {
            if let Some(left) = failure.remaining(now) {
                plan.recheck_after(left);
            }
        }
    }
}

/// Puts the moment on a workload, or takes it away, if another is there. It has a manager of its own, so
/// that it can be written while the rest waits for the rollout.
fn plan_mark(grid: &Grid, unit: &str, child: &Child, moment: Option<Timestamp>, plan: &mut Plan) {
    let moment = moment.map(|moment| moment.to_string());
    let marked = child.annotation(annotation::UNIT_GONE_SINCE);
    let (Some(name), Some(uid)) = (&child.metadata.name, &child.metadata.uid) else {
        return;
    };
    if marked == moment.as_deref() {
        return;
    }
    let body = match moment {
        Some(moment) => {
            json!({ "metadata": { "annotations": { annotation::UNIT_GONE_SINCE: moment } } })
        }
        None => json!({ "metadata": {} }),
    };
    let mark = Apply {
        id: grid.child(name),
        body: Packed::from(&body),
        claim: Claim::Ours { uid: uid.clone() },
        manager: Manager::Grace,
    };
    plan.push_for(unit, Step::Apply(mark));
}
