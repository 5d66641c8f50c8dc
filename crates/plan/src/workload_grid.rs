//! A grid of workloads: which unit's workload is made, changed, kept or removed.
//!
//! ```text
//! nodes' label values ─► units ─┐
//! workloads (by label, by owner)─┴─► judge each unit ─► rollout: who now ─► steps
//! ```
//!
//! Each unit stands alone: what goes wrong in one (a missing template, a taken name, a refused
//! write) is noted there and stops no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::names::reason;
use jiff::Timestamp;

use crate::departure::{self, Leaving, REMOVAL};
use crate::failure::{Failure, Failures, Trouble};
use crate::grid::Grid;
use crate::judge::{Judge, Judged, Verdict};
use crate::notice::Notice;
use crate::observed::Child;
use crate::rollout::{self, InFlight, Wave};
use crate::step::Plan;
use crate::templates::drop_unused;
use crate::units::object_name;

/// How often a name that somebody else has is looked at again: nothing tells us when it becomes free.
pub const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// What is known when a grid is planned.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// The distinct values that nodes have for the grid's key.
    pub units: BTreeSet<String>,
    /// Units whose last node lost the label; of all others that are gone, Node objects were deleted.
    pub lost_label: BTreeSet<String>,
    /// Workloads that carry the grid's label or are controlled by it.
    pub children: Vec<Arc<Child>>,
    /// Whether names were looked at in this pass, so that one not known to be taken is free.
    pub looked: bool,
    /// Names that somebody else has, and who.
    pub foreign: BTreeMap<String, String>,
    /// Names whose last write of ours the caches do not show yet.
    pub pending: BTreeSet<String>,
    /// Names of workloads that were the grid's and that no cache shows any more: gone, or without our
    /// label.
    pub missed: BTreeSet<String>,
    /// How earlier writes failed, by unit.
    pub failures: &'a Failures,
    /// What earlier passes found settled, by name.
    pub judged: &'a BTreeMap<String, Judged>,
    /// How long a unit's workload stays after its Node objects were deleted.
    pub unit_grace: Duration,
}

/// What was decided about a grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What to write.
    pub plan: Plan,
    /// How each unit stands.
    pub units: BTreeMap<String, Unit>,
    /// Some wanted names are not known to be ours or free: look at all names, then decide again.
    pub needs_look: bool,
    /// What is settled, for the next pass.
    pub judged: BTreeMap<String, Judged>,
    /// How the rollout stands.
    pub wave: Wave,
    /// The grid names no key, so nothing can be decided.
    pub is_empty_key: bool,
}

/// How a unit stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Name of its workload.
    pub name: String,
    /// Its workload.
    pub child: Option<Arc<Child>>,
    /// What is to be done.
    pub state: State,
    /// What a write would try: compared with what failed.
    pub of: String,
    /// Whether the workload has the template that the unit should have.
    pub is_current: bool,
    /// Whether the workload runs all that its spec says.
    pub is_available: bool,
    /// When a changed workload should be Available.
    pub deadline: Option<Timestamp>,
    /// Set while the unit has no nodes any more.
    pub leaving: Option<Leaving>,
}

/// What is to be done about a unit's workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Settled,
    /// It is made.
    New,
    /// It gets another template.
    Change,
    /// What somebody changed is put back, or something beside the template is changed.
    Repair,
    /// It gets another template when its turn comes.
    Waiting,
    /// Our last write is not in the caches yet, or the object is going away.
    Pending,
    /// Whether the name is free is not known yet.
    Unknown,
    /// An earlier write failed; it is tried again later.
    Retrying,
    /// Nothing can be written.
    Held(Trouble),
}

impl Decision {
    /// Whether an earlier failure still says something: its unit is tried now or later. What
    /// was mended by others or is gone is forgotten.
    pub fn still_fails(&self, unit: &str, failure: &Failure, now: Timestamp) -> bool {
        match self.units.get(unit) {
            _ if self.plan.units.contains_key(unit) => true,
            Some(unit) => unit.state == State::Retrying,
            None => failure.holds_back(REMOVAL, now),
        }
    }
}

/// Decides what a grid's workloads should become.
pub fn decide(grid: &Grid, world: &World<'_>, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    if grid.metadata.deletion_timestamp.is_some() {
        return decision; // its workloads go by ownership
    }
    let Some(key) = grid.key.as_deref() else {
        decision.is_empty_key = true;
        decision.plan.notices.push(Notice::warning(
            reason::EMPTY,
            "spec.gridUniqKey is missing: set it to the node label key that names the units",
        ));
        return decision;
    };
    if let Some(step) = drop_unused(grid) {
        decision.plan.push(Plan::WHOLE, step);
    }
    let leaving = departure::departures(grid, key, world, now, &mut decision.plan);
    let judge = Judge {
        grid,
        key,
        world,
        now,
    };
    let verdicts = verdicts(&judge, &leaving);
    conclude(grid, verdicts, &leaving, now, &mut decision);
    decision.needs_look |= !world.looked && !world.missed.is_empty();
    look_again(world, now, &mut decision);
    decision
}

/// The verdict on every unit that should have a workload, the first of a name winning.
fn verdicts(judge: &Judge<'_>, leaving: &BTreeMap<String, Leaving>) -> BTreeMap<String, Verdict> {
    let by_name: BTreeMap<&str, &Arc<Child>> = judge
        .world
        .children
        .iter()
        .filter_map(|child| Some((child.metadata.name.as_deref()?, child)))
        .collect();
    let mut taken = BTreeSet::new();
    let units = judge.world.units.iter().chain(leaving.keys());
    units
        .map(|unit| {
            let name = object_name(judge.grid.workload, judge.grid.name(), unit);
            let child = by_name.get(name.as_str()).copied();
            let is_first = taken.insert(name.clone());
            let mut verdict = judge.unit(unit, name, child);
            if !is_first {
                verdict.unit.state = State::Held(judge.taken_by_sister(&verdict.unit.name));
                verdict.steps.clear();
            }
            (unit.clone(), verdict)
        })
        .collect()
}

/// Lets the rollout choose, and gathers the steps.
fn conclude(
    grid: &Grid,
    mut verdicts: BTreeMap<String, Verdict>,
    leaving: &BTreeMap<String, Leaving>,
    now: Timestamp,
    decision: &mut Decision,
) {
    let outdated = verdicts
        .iter()
        .filter(|(_, verdict)| verdict.unit.state == State::Change)
        .map(|(unit, _)| unit.clone())
        .collect();
    let in_flight = verdicts
        .iter()
        .filter(|(_, verdict)| verdict.is_in_flight)
        .map(|(unit, verdict)| InFlight {
            unit: unit.clone(),
            deadline: verdict.unit.deadline.filter(|_| verdict.unit.is_current),
        })
        .collect();
    decision.wave = rollout::wave(&grid.rollout, &outdated, in_flight, now);
    for (unit, verdict) in &mut verdicts {
        verdict.unit.leaving = leaving.get(unit).cloned();
        if decision.wave.waiting.contains(unit) {
            verdict.unit.state = State::Waiting;
            verdict.steps.clear();
        }
    }
    for (unit, verdict) in verdicts {
        decision.needs_look |= verdict.unit.state == State::Unknown;
        for step in verdict.steps {
            decision.plan.push(unit.clone(), step);
        }
        if let Some(judged) = verdict.judged {
            decision.judged.insert(verdict.unit.name.clone(), judged);
        }
        if let Some(moment) = verdict.recheck {
            recheck_at(&mut decision.plan, moment, now);
        }
        decision.units.insert(unit, verdict.unit);
    }
}

/// Everything that time alone changes.
fn look_again(world: &World<'_>, now: Timestamp, decision: &mut Decision) {
    if let Some(deadline) = decision.wave.next_deadline {
        recheck_at(&mut decision.plan, deadline, now);
    }
    let has_taken = decision.units.values().any(
        |unit| matches!(&unit.state, State::Held(trouble) if trouble.reason == reason::NAME_TAKEN),
    );
    if has_taken {
        decision.plan.recheck_after(LOOK_AGAIN);
    }
    for (unit, failure) in world.failures {
        let is_waiting = decision
            .units
            .get(unit)
            .is_some_and(|unit| unit.state == State::Retrying);
        if is_waiting && let Some(left) = failure.remaining(now) {
            decision.plan.recheck_after(left);
        }
    }
}

/// Looks again at a moment.
pub(crate) fn recheck_at(plan: &mut Plan, moment: Timestamp, now: Timestamp) {
    let left = now.duration_until(moment).try_into().unwrap_or_default();
    plan.recheck_after(left);
}

#[cfg(test)]
mod tests;
