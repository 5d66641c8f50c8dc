//! A grid of workloads: which unit's workload is made, changed, kept or removed.
//!
//! ```text
//! nodes' label values ─► units ─┐
//! workloads (by label, by owner)─┴─► plan each unit ─► rollout: which now ─► steps
//! ```
//!
//! Each unit stands alone: what goes wrong in one (a missing template, a taken name, a refused
//! write) is noted there and stops no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use edgegrid_api::names::reason;
use jiff::Timestamp;

use crate::grace_period::{plan_removals, removal_held};
use crate::grid::Grid;
use crate::grid_state::{Decision, Leaving, State, World};
use crate::notice::Notice;
use crate::observed::Child;
use crate::rollout::{self, InFlight};
use crate::step::RECHECK_INTERVAL;
use crate::templates::drop_unused;
use crate::unit_names::object_name;
use crate::unit_plan::{UnitPlan, UnitPlanner};
use crate::unreachable::long_unreachable;

/// Decides what a grid's workloads should become.
pub fn decide(grid: &Grid, world: &World<'_>, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    if grid.metadata.deletion_timestamp.is_some() {
        return decision; // its workloads go by ownership
    }
    let Some(key) = grid.key.as_deref() else {
        decision.plan.notices.push(Notice::warning(
            reason::EMPTY,
            "spec.gridUniqKey is missing: set it to the node label key that names the units",
        ));
        return decision;
    };
    if let Some(step) = drop_unused(grid) {
        decision.plan.push(step);
    }
    let kept = plan_removals(grid, key, world, now, &mut decision.plan);
    if let Some(problem) = removal_held(grid.namespace(), &kept.held) {
        let notice = Notice::warning(problem.reason, problem.message);
        decision.plan.notices.push(notice);
    }
    decision.held = kept.held;
    let planner = UnitPlanner {
        grid,
        key,
        world,
        now,
    };
    let plans = plan_units(&planner, &kept.leaving);
    conclude(grid, plans, &kept.leaving, now, &mut decision);
    decision.unreachable = long_unreachable(grid, &world.unreachable, now, &mut decision.plan);
    decision.needs_name_scan |= !world.names_scanned && !world.missed.is_empty();
    set_recheck(world, now, &mut decision);
    decision
}

/// The plan for every unit that should have a workload; of several with one name, the first has it.
fn plan_units(
    planner: &UnitPlanner<'_>,
    leaving: &BTreeMap<String, Leaving>,
) -> BTreeMap<String, UnitPlan> {
    let by_name: BTreeMap<&str, &Arc<Child>> = planner
        .world
        .children
        .iter()
        .filter_map(|child| Some((child.metadata.name.as_deref()?, child)))
        .collect();
    let mut taken = BTreeSet::new();
    let units = planner.world.units.iter().chain(leaving.keys());
    units
        .map(|unit| {
            let name = object_name(planner.grid.workload, planner.grid.name(), unit);
            let child = by_name.get(name.as_str()).copied();
            let is_first = taken.insert(name.clone());
            let is_held = leaving.get(unit).is_some_and(|unit| unit.until.is_none());
            let mut plan = if is_held {
                planner.plan_held(unit, name, child)
            } else {
                planner.plan(unit, name, child)
            };
            if !is_first {
                plan.unit.state = State::Blocked(planner.taken_by_sibling(&plan.unit.name));
                plan.steps.clear();
            }
            (unit.clone(), plan)
        })
        .collect()
}

/// Lets the rollout choose which units are changed now, and gathers the steps of all units.
fn conclude(
    grid: &Grid,
    mut plans: BTreeMap<String, UnitPlan>,
    leaving: &BTreeMap<String, Leaving>,
    now: Timestamp,
    decision: &mut Decision,
) {
    let outdated = plans
        .iter()
        .filter(|(_, plan)| plan.unit.state == State::Change)
        .map(|(unit, _)| unit.clone())
        .collect();
    let in_flight = plans
        .iter()
        .filter(|(_, plan)| plan.is_in_flight)
        .map(|(unit, plan)| InFlight {
            unit: unit.clone(),
            deadline: plan.unit.deadline.filter(|_| plan.unit.is_current),
        })
        .collect();
    decision.batch = rollout::next_batch(&grid.rollout, &outdated, in_flight, now);
    for (unit, plan) in &mut plans {
        plan.unit.leaving = leaving.get(unit).cloned();
        if decision.batch.waiting.contains(unit) {
            plan.unit.state = State::Waiting;
            plan.steps.clear();
        }
    }
    for (unit, plan) in plans {
        decision.needs_name_scan |= plan.unit.state == State::Unknown;
        for step in plan.steps {
            decision.plan.push_for(unit.clone(), step);
        }
        if let Some(settled) = plan.settled {
            decision.settled.insert(plan.unit.name.clone(), settled);
        }
        if let Some(moment) = plan.recheck {
            decision.plan.recheck_at(moment, now);
        }
        decision.units.insert(unit, plan.unit);
    }
}

/// Looks again when time alone changes something.
fn set_recheck(world: &World<'_>, now: Timestamp, decision: &mut Decision) {
    if let Some(deadline) = decision.batch.next_deadline {
        decision.plan.recheck_at(deadline, now);
    }
    let has_taken = decision.units.values().any(
        |unit| matches!(&unit.state, State::Blocked(problem) if problem.reason == reason::NAME_TAKEN),
    );
    if has_taken {
        decision.plan.recheck_after(RECHECK_INTERVAL);
    }
    for (scope, failure) in world.failures {
        let unit = scope.unit().and_then(|unit| decision.units.get(unit));
        let is_waiting = unit.is_some_and(|unit| unit.state == State::Retrying);
        if is_waiting && let Some(left) = failure.remaining(now) {
            decision.plan.recheck_after(left);
        }
    }
}

#[cfg(test)]
mod tests;
