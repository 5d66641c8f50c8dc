//! What is known of a grid of workloads, and what is decided about each of its units.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::failure::{Failure, Failures, Problem, REMOVAL_ATTEMPT};
use crate::observed::Child;
use crate::rollout::Batch;
use crate::step::{Plan, Scope};
use crate::unreachable::UnreachableNode;

/// What is known when a grid is planned.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// The distinct values that nodes have for the grid's key.
    pub units: BTreeSet<String>,
    /// Units of workloads that have no nodes, as this process saw them go.
    pub vanished: BTreeMap<String, VanishedUnit>,
    /// Workloads that carry the grid's label or are controlled by it.
    pub children: Vec<Arc<Child>>,
    /// Whether names were scanned in this pass, so that one not known to be taken is free.
    pub names_scanned: bool,
    /// Names that somebody else has, and who.
    pub foreign: BTreeMap<String, String>,
    /// Names whose last write of ours the caches do not show yet.
    pub pending: BTreeSet<String>,
    /// Names of workloads that were the grid's and that no cache shows any more: gone, or without our
    /// label.
    pub missed: BTreeSet<String>,
    /// How earlier writes failed, by unit.
    pub failures: &'a Failures,
    /// Workloads that earlier passes found settled, by name.
    pub settled: &'a BTreeMap<String, SettledAt>,
    /// How long a unit's workload stays after its Node objects were deleted.
    pub unit_grace: Duration,
    /// Nodes of the units that the cluster no longer reaches.
    pub unreachable: Vec<UnreachableNode>,
}

/// A unit without nodes, as this process saw it since it leads. What another process noted counts for nothing here: the
/// nodes may have been back since, and its clock may have been another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VanishedUnit {
    /// Whether the last node lost the label; otherwise its Node object was deleted, or nobody knows.
    pub lost_label: bool,
    /// When this process first saw it so, by its wall clock: only for people.
    pub since: Timestamp,
    /// How long ago that was, by a clock that does not jump.
    pub elapsed: Duration,
}

impl World<'_> {
    /// How a unit without nodes went.
    pub(crate) fn vanished(&self, unit: &str, now: Timestamp) -> VanishedUnit {
        let seen = self.vanished.get(unit).copied();
        seen.unwrap_or_else(|| VanishedUnit::seen_now(now))
    }
}

impl VanishedUnit {
    /// One that was not seen before.
    pub fn seen_now(now: Timestamp) -> Self {
        Self {
            lost_label: false,
            since: Timestamp::from_second(now.as_second()).unwrap_or(now),
            elapsed: Duration::ZERO,
        }
    }

    /// How long its workload still stays; `None` if it need not.
    pub(crate) fn grace_left(&self, grace: Duration) -> Option<Duration> {
        let left = grace.saturating_sub(self.elapsed);
        (!self.lost_label && !left.is_zero()).then_some(left)
    }
}

/// What was decided about a grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What to write, and when to look again.
    pub plan: Plan,
    /// How each unit stands.
    pub units: BTreeMap<String, Unit>,
    /// Some wanted names are not known to be ours or free: scan all names, then decide again.
    pub needs_name_scan: bool,
    /// Workloads that are settled, by name, for the next pass.
    pub settled: BTreeMap<String, SettledAt>,
    /// Which units the rollout changes now, and which wait.
    pub batch: Batch,
    /// Nodes that keep pods though the cluster has not reached them for long.
    pub unreachable: BTreeSet<UnreachableNode>,
    /// Names of StatefulSets without nodes that would take their claims with them.
    pub held: BTreeSet<String>,
}

/// How a unit stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Name of the unit's workload, whether it exists or not.
    pub name: String,
    /// The workload that exists.
    pub child: Option<Arc<Child>>,
    /// What is to be done about the workload.
    pub state: State,
    /// Hash of what a write would try: compared with what failed.
    pub attempt_hash: String,
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
    /// Nothing: it is as wanted.
    Settled,
    /// The unit has no workload yet: it is created.
    New,
    /// It gets another template.
    Change,
    /// What somebody changed is put back, or something beside the template is changed.
    Repair,
    /// It gets another template once the rollout allows it.
    Waiting,
    /// Our last write is not in the caches yet, or the object is going away.
    Pending,
    /// Whether the name is free is not known yet.
    Unknown,
    /// An earlier write failed; it is tried again later.
    Retrying,
    /// Nothing can be written until somebody solves the problem.
    Blocked(Problem),
    /// It has no nodes and is neither deleted nor changed until a person decides.
    Held,
}

/// A workload that was found as wanted: nothing has to be compared again until it or the grid changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledAt {
    /// [`crate::grid::Grid::digest`] at that time.
    pub grid: String,
    /// Revision of the workload at that time.
    pub resource_version: String,
}

/// A unit without nodes, whose workload is kept for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// When it was seen that the last node is gone.
    pub since: Timestamp,
    /// When the workload is deleted; `None` if a person has to do it.
    pub until: Option<Timestamp>,
}

impl Decision {
    /// Whether an earlier failure is still of interest: its unit is tried now or later. What others
    /// have repaired, or what is gone, is forgotten.
    pub fn still_fails(&self, scope: &Scope, failure: &Failure, now: Timestamp) -> bool {
        let unit = scope.unit().and_then(|unit| self.units.get(unit));
        match unit {
            _ if self.plan.steps.contains_key(scope) => true,
            Some(unit) => unit.state == State::Retrying,
            None => failure.is_backing_off(REMOVAL_ATTEMPT, now),
        }
    }
}
