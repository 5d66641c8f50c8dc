//! How long the workload of a unit without nodes is kept.
//!
//! | what happened to a unit's last node | its workload |
//! |---|---|
//! | it lost the label, or got another value | goes at once: somebody wanted it so |
//! | its Node object was deleted, or nobody knows | stays for the grace period, marked with the moment |
//!
//! An outage that makes Node objects vanish and come back must not take a site's application with it.

use std::collections::BTreeMap;
use std::time::Duration;

use edgegrid_api::names::{annotation, label};
use jiff::Timestamp;
use serde_json::json;

use crate::failure::{Failure, REMOVAL_ATTEMPT};
use crate::grid::Grid;
use crate::grid_state::{Leaving, World};
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
    Kept(String, Leaving),
    /// It is deleted now.
    Unwanted,
}

/// Plans deletions and marks of the grid's own workloads, and gives the units that are kept though they
/// have no nodes.
pub(crate) fn plan_removals(
    grid: &Grid,
    key: &str,
    world: &World<'_>,
    now: Timestamp,
    plan: &mut Plan,
) -> BTreeMap<String, Leaving> {
    let selector = grid.selector_value();
    let owner = Owner {
        uid: grid.uid(),
        selector: &selector,
    };
    let mut kept = BTreeMap::new();
    for child in &world.children {
        let is_ours = owner.ownership(&child.metadata) == Ownership::Ours;
        let (Some(name), Some(uid)) = (&child.metadata.name, &child.metadata.uid) else {
            continue;
        };
        if !is_ours || child.metadata.deletion_timestamp.is_some() || world.pending.contains(name) {
            continue;
        }
        let unit = unit_of(grid.name(), &child.metadata).unwrap_or_else(|| name.clone());
        let failure = world.failures.get(&Scope::Unit(unit.clone()));
        let is_backing_off =
            failure.is_some_and(|failure| failure.is_backing_off(REMOVAL_ATTEMPT, now));
        let mark = |moment: Option<Timestamp>| mark(grid, name, uid, moment);
        match retention(grid, key, world, child, now) {
            Retention::Wanted if child.annotation(annotation::UNIT_GONE_SINCE).is_some() => {
                plan.push_for(unit, mark(None));
            }
            Retention::Wanted => {}
            Retention::Unwanted if is_backing_off => recheck_after_failure(plan, failure, now),
            Retention::Unwanted => plan.push_for(
                unit,
                Step::Delete {
                    id: grid.child(name),
                    uid: uid.clone(),
                },
            ),
            Retention::Kept(unit, leaving) => {
                if gone_since(child).is_none() {
                    plan.push_for(unit.clone(), mark(Some(leaving.since)));
                }
                plan.recheck_at(leaving.until, now);
                kept.insert(unit, leaving);
            }
        }
    }
    kept
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
    if has_other_key || world.lost_label.contains(&unit) {
        return Retention::Unwanted;
    }
    let since = gone_since(child).unwrap_or(whole_second(now));
    let until = since
        .checked_add(world.unit_grace)
        .unwrap_or(Timestamp::MAX);
    if until <= now || world.unit_grace == Duration::ZERO {
        return Retention::Unwanted;
    }
    Retention::Kept(unit, Leaving { since, until })
}

fn recheck_after_failure(plan: &mut Plan, failure: Option<&Failure>, now: Timestamp) {
    if let Some(left) = failure.and_then(|failure| failure.remaining(now)) {
        plan.recheck_after(left);
    }
}

fn gone_since(child: &Child) -> Option<Timestamp> {
    child.annotation(annotation::UNIT_GONE_SINCE)?.parse().ok()
}

/// Puts the moment on a workload, or takes it away. It has a manager of its own, so that it can
/// be written while the rest waits for the rollout.
fn mark(grid: &Grid, name: &str, uid: &str, moment: Option<Timestamp>) -> Step {
    let body = match moment {
        Some(moment) => {
            json!({ "metadata": { "annotations": { annotation::UNIT_GONE_SINCE: moment.to_string() } } })
        }
        None => json!({ "metadata": {} }),
    };
    Step::Apply(Apply {
        id: grid.child(name),
        body: Packed::from(&body),
        claim: Claim::Ours { uid: uid.into() },
        manager: Manager::Grace,
    })
}

fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
