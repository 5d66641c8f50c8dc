//! What a grid of workloads reports: a line for people, an entry per unit for programs.
//!
//! Failing units come first wherever room is short. An object in etcd has a limit, and every write
//! of a status sends all of it to everybody who watches, so a big one is written less often.

use std::collections::BTreeMap;
use std::time::Duration;

use edgegrid_api::names::{condition, reason};
use edgegrid_api::status::{FAILING_UNITS_MAX, FailingUnit, GridStatus, LeavingUnit};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::conditions::{Conditions, listed};
use crate::failure::{Failures, Problem};
use crate::grace_period::removal_held;
use crate::grid::Grid;
use crate::grid_state::{Decision, State, Unit};
use crate::observed::Child;
use crate::rollout::WaitReason;
use crate::step::Scope;
use crate::unreachable;
use crate::workload_kind::WorkloadKind;

/// Most bytes of a grid with its status: half of what etcd takes, so that the user's next edit fits.
pub const OBJECT_MAX: usize = 768 * 1024;
/// A status is written at most once in this time.
const PAUSE: Duration = Duration::from_secs(1);
/// A status of more bytes than this is written less often, in proportion.
const BYTES_PER_PAUSE: usize = 50 * 1024;

/// A status whose entries are as the server will show them.
pub type Status = GridStatus<Map<String, Value>>;

/// How long to wait after a status of this size before the next one.
pub fn status_pause(bytes: usize) -> Duration {
    let pauses = u32::try_from(bytes.div_ceil(BYTES_PER_PAUSE)).unwrap_or(u32::MAX);
    PAUSE.saturating_mul(pauses.max(1))
}

/// The grid as it was written last.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// Bytes of the grid without a status.
    pub size: usize,
    /// Conditions of its last status.
    pub conditions: &'a [Condition],
}

/// The status after a pass.
pub fn status(
    grid: &Grid,
    decision: &Decision,
    failures: &Failures,
    written: Written<'_>,
    now: Timestamp,
) -> Status {
    let make = Conditions::new(written.conditions, grid.metadata.generation, now);
    let problems = problems(decision, failures, now);
    let ready = decision
        .units
        .values()
        .filter(|unit| is_ready(unit))
        .count();
    let total = decision.units.len();
    let mut status = Status {
        observed_generation: grid.metadata.generation,
        units: Some(count(total)),
        ready_units: Some(count(ready)),
        ready: Some(format!("{ready}/{total}")),
        failing_units: failing_units(&problems),
        leaving_units: leaving_units(decision),
        ..Status::default()
    };
    status.conditions = vec![
        ready_condition(&make, grid, decision, (ready, total)),
        progressing(&make, decision),
        degraded(&make, &problems),
    ];
    status
        .conditions
        .extend(way_out_conditions(&make, &problems));
    let unreachable = unreachable::describe(&decision.unreachable);
    status.conditions.extend(unreachable.map(|message| {
        let (type_, reason) = (condition::NODE_UNREACHABLE, reason::NODE_UNREACHABLE);
        make.make(type_, true, reason, message)
    }));
    let held = removal_held(grid.namespace(), &decision.held);
    status.conditions.extend(held.map(|problem| {
        make.make(
            condition::REMOVAL_HELD,
            true,
            problem.reason,
            problem.message,
        )
    }));
    let left_out = fill_states(
        grid.workload,
        decision,
        &problems,
        written.size,
        &mut status,
    );
    if left_out > 0 {
        status.conditions.push(make.make(
            condition::STATES_TRUNCATED,
            true,
            reason::STATES_TRUNCATED,
            format!("states leaves out {left_out} of {total} units, failing ones are listed first: the object would grow beyond {OBJECT_MAX} bytes"),
        ));
    }
    status
}

/// What is wrong with each unit, in words for people.
pub fn problems(
    decision: &Decision,
    failures: &Failures,
    now: Timestamp,
) -> BTreeMap<String, Problem> {
    let mut problems = BTreeMap::new();
    for (name, unit) in &decision.units {
        let failure = failures.get(&Scope::from(name.as_str()));
        let failure = failure.filter(|failure| failure.is_reportable());
        let problem = match &unit.state {
            State::Blocked(problem) => Some(problem.clone()),
            State::Settled => late(unit, now).or_else(|| own_problem(unit)),
            _ => failure.map(|failure| failure.problem.clone()),
        };
        problems.extend(problem.map(|problem| (name.clone(), problem)));
    }
    // A unit that is to be removed is no longer among the grid's, but its failure matters.
    for (scope, failure) in failures {
        if let Some(name) = scope.unit()
            && !decision.units.contains_key(name)
            && failure.is_reportable()
        {
            problems.insert(name.to_owned(), failure.problem.clone());
        }
    }
    problems
}

/// Whether a unit runs what the grid asks for.
fn is_ready(unit: &Unit) -> bool {
    let is_written = matches!(unit.state, State::Settled | State::Repair | State::Pending);
    is_written && unit.is_current && unit.is_available
}

/// A changed unit that did not become Available in time.
fn late(unit: &Unit, now: Timestamp) -> Option<Problem> {
    let is_late = unit.deadline.is_some_and(|deadline| deadline <= now);
    (is_late && unit.is_current && !unit.is_available).then(|| {
        Problem::new(
            reason::NOT_AVAILABLE,
            format!("{} got another template and is not Available since its progress deadline: look at its pods", unit.name),
        )
    })
}

/// What a workload's own controller reports: pods that cannot be made, or that do not come up.
fn own_problem(unit: &Unit) -> Option<Problem> {
    let child = unit.child.as_deref().filter(|_| !unit.is_available)?;
    let cannot_make = child
        .condition("ReplicaFailure")
        .filter(|condition| condition.status == "True");
    let stuck = || {
        let progressing = child.condition("Progressing")?;
        (progressing.reason == "ProgressDeadlineExceeded").then_some(progressing)
    };
    let condition = cannot_make.or_else(stuck)?;
    let message = format!("{}: {}", unit.name, condition.message);
    Some(Problem::new(reason::NOT_AVAILABLE, message))
}

fn failing_units(problems: &BTreeMap<String, Problem>) -> Vec<FailingUnit> {
    let mut failing: Vec<_> = problems.iter().collect();
    failing.sort_by_key(|(unit, problem)| (severity(problem), *unit));
    failing
        .into_iter()
        .take(FAILING_UNITS_MAX)
        .map(|(unit, problem)| FailingUnit {
            unit: unit.clone(),
            reason: problem.reason.into(),
            message: problem.message.clone(),
        })
        .collect()
}

/// The lower, the worse: first what only people can repair.
fn severity(problem: &Problem) -> usize {
    const WORST_FIRST: [&str; 7] = [
        reason::SUPEREDGE_RUNNING,
        reason::NAME_TAKEN,
        reason::IMMUTABLE,
        reason::NOT_APPLICABLE,
        reason::TEMPLATE_MISSING,
        reason::REFUSED,
        reason::NOT_AVAILABLE,
    ];
    let index = WORST_FIRST
        .iter()
        .position(|reason| *reason == problem.reason);
    index.unwrap_or(WORST_FIRST.len())
}

fn leaving_units(decision: &Decision) -> Vec<LeavingUnit> {
    let mut leaving: Vec<_> = decision
        .units
        .iter()
        .filter_map(|(unit, state)| Some((unit, state.leaving.as_ref()?)))
        .collect();
    leaving.sort_by_key(|(unit, leaving)| (leaving.until.is_none(), leaving.until, *unit));
    leaving
        .into_iter()
        .take(FAILING_UNITS_MAX)
        .map(|(unit, leaving)| LeavingUnit {
            unit: unit.clone(),
            gone_since: Some(Time(leaving.since)),
            removed_at: leaving.until.map(Time),
        })
        .collect()
}

fn ready_condition(
    make: &Conditions<'_>,
    grid: &Grid,
    decision: &Decision,
    (ready, total): (usize, usize),
) -> Condition {
    let (is_so, reason, message) = match (grid.key.as_deref(), total) {
        (None, _) => (
            false,
            reason::EMPTY,
            "spec.gridUniqKey is missing: set it to the node label key that names the units"
                .to_owned(),
        ),
        (Some(key), 0) => (
            false,
            reason::NO_UNITS,
            format!("no node has the label {key}: label nodes, or correct spec.gridUniqKey"),
        ),
        (Some(_), _) if ready == total => (
            true,
            reason::AS_WANTED,
            format!("all {total} units run what the grid asks for"),
        ),
        (Some(_), _) => {
            let others = decision.units.iter().filter(|(_, unit)| !is_ready(unit));
            let others = listed(others.map(|(unit, _)| unit.as_str()));
            (
                false,
                reason::NOT_AVAILABLE,
                format!("{ready} of {total} units run what the grid asks for; not: {others}"),
            )
        }
    };
    make.make(condition::READY, is_so, reason, message)
}

fn progressing(make: &Conditions<'_>, decision: &Decision) -> Condition {
    let batch = &decision.batch;
    let waiting = listed(batch.waiting.iter().map(String::as_str));
    let is_written =
        |unit: &Unit| matches!(unit.state, State::New | State::Change | State::Pending);
    let moving = decision
        .units
        .values()
        .filter(|unit| is_written(unit))
        .count()
        + batch.in_flight.len();
    let (is_so, reason, message) = match &batch.wait_reason {
        Some(WaitReason::Stopped(late)) => (
            false,
            reason::ROLLOUT_STOPPED,
            format!(
                "{} got the new template and did not become Available in time; kept as they are: {waiting}. \
                 Repair the unit or the template",
                listed(late.iter().map(String::as_str))
            ),
        ),
        Some(WaitReason::Paused) => (
            false,
            reason::PAUSED,
            format!("spec.rollout.paused keeps as they are: {waiting}"),
        ),
        Some(WaitReason::LimitReached) => (
            true,
            reason::ROLLING_OUT,
            format!(
                "{} changed and not yet Available: {}; waiting: {waiting}",
                batch.in_flight.len(),
                listed(batch.in_flight.iter().map(String::as_str))
            ),
        ),
        None if moving > 0 => (
            true,
            reason::ROLLING_OUT,
            "units are brought to what the grid asks for".to_owned(),
        ),
        None => (
            false,
            reason::AS_WANTED,
            "nothing is to be changed".to_owned(),
        ),
    };
    make.make(condition::PROGRESSING, is_so, reason, message)
}

fn degraded(make: &Conditions<'_>, problems: &BTreeMap<String, Problem>) -> Condition {
    let worst = problems.values().min_by_key(|problem| severity(problem));
    match worst {
        None => make.make(
            condition::DEGRADED,
            false,
            reason::AS_WANTED,
            "no unit fails",
        ),
        Some(worst) => make.make(
            condition::DEGRADED,
            true,
            worst.reason,
            describe(worst.reason, problems),
        ),
    }
}

/// Conditions of their own for what has a way out of its own; there only while it is so.
fn way_out_conditions(
    make: &Conditions<'_>,
    problems: &BTreeMap<String, Problem>,
) -> Vec<Condition> {
    [
        (condition::NAME_TAKEN, reason::NAME_TAKEN),
        (condition::IMMUTABLE, reason::IMMUTABLE),
        (condition::NOT_APPLICABLE, reason::NOT_APPLICABLE),
        (condition::SUPEREDGE_RUNNING, reason::SUPEREDGE_RUNNING),
    ]
    .into_iter()
    .filter(|(_, reason)| problems.values().any(|problem| problem.reason == *reason))
    .map(|(type_, reason)| make.make(type_, true, reason, describe(reason, problems)))
    .collect()
}

/// The units with a problem, and what the first of them says.
pub(crate) fn describe(reason: &str, problems: &BTreeMap<String, Problem>) -> String {
    let mut with = problems
        .iter()
        .filter(|(_, problem)| problem.reason == reason);
    let units = listed(with.clone().map(|(unit, _)| unit.as_str()));
    let message = with.next().map_or("", |(_, problem)| &problem.message);
    format!("units {units}: {message}")
}

/// Fills in as many units as fit, those that are not ready first, and says how many do not.
fn fill_states(
    workload: WorkloadKind,
    decision: &Decision,
    problems: &BTreeMap<String, Problem>,
    size: usize,
    status: &mut Status,
) -> usize {
    let mut units: Vec<_> = decision
        .units
        .iter()
        .filter_map(|(name, unit)| Some((name, unit, unit.child.as_deref()?)))
        .collect();
    units.sort_by_key(|(name, unit, _)| (!problems.contains_key(*name), is_ready(unit), *name));
    let mut room = OBJECT_MAX.saturating_sub(size + bytes(status));
    let mut left_out = 0;
    for (name, _, child) in units {
        let entry = state_of(workload, child);
        let needed = bytes(&entry) + bytes(name) + ":,".len();
        match room.checked_sub(needed) {
            Some(rest) if left_out == 0 => {
                room = rest;
                status.states.insert(name.clone(), entry);
            }
            _ => left_out += 1,
        }
    }
    left_out
}

/// What the status shows of a unit: a Deployment's counts and whether it is Available; of a
/// StatefulSet all counts and revisions.
fn state_of(workload: WorkloadKind, child: &Child) -> Map<String, Value> {
    let mut state = Map::new();
    let mut copy = |field: &str| {
        if let Some(value) = child.status.get(field) {
            state.insert(field.to_owned(), value.clone());
        }
    };
    match workload {
        WorkloadKind::Deployment => {
            ["replicas", "readyReplicas"]
                .into_iter()
                .for_each(&mut copy);
            let conditions = child.status.get("conditions").and_then(Value::as_array);
            let available = conditions.and_then(|all| {
                all.iter()
                    .find(|condition| condition["type"] == "Available")
            });
            if let Some(available) = available {
                state.insert("conditions".into(), json!([available]));
            }
        }
        WorkloadKind::StatefulSet => {
            [
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "currentRevision",
                "updateRevision",
                "collisionCount",
                "observedGeneration",
            ]
            .into_iter()
            .for_each(&mut copy);
            // Required by Kubernetes' own type, and left out by the server when it is 0.
            state.entry("replicas").or_insert_with(|| json!(0));
        }
    }
    state
}

/// Size of a value as JSON.
pub fn bytes(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.len())
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
