//! One status for all clusters: the control cluster's own units and those of every member.
//!
//! A unit is called by its name, and where several clusters have one of that name by `<cluster>/<unit>`.
//! Failing units and members come first wherever room is short.

use std::collections::BTreeMap;

use edgegrid_api::ServiceGridStatus;
use edgegrid_api::names::{CONTROL_CLUSTER, condition, reason};
use edgegrid_api::status::{
    FAILING_UNITS_MAX, FailingUnit, GridStatus, MemberBehind, MembersStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::core::ObjectMeta;
use serde_json::{Map, Value};

use crate::conditions::{Conditions, listed};
use crate::failure::Problem;
use crate::grid_status::{OBJECT_MAX, Status, bytes};

/// How a member stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Name of the member.
    pub cluster: String,
    /// Generation of its copy; `None` if it has none.
    pub generation: Option<i64>,
    /// Status of its copy, as the member wrote it.
    pub status: Status,
    /// Since when it is out of contact.
    pub away_since: Option<Timestamp>,
    /// What keeps it from getting its copy.
    pub problem: Option<Problem>,
}

/// The conditions and the name of the grid that a status is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Metadata of the grid.
    pub metadata: &'a ObjectMeta,
    /// The conditions of its last status.
    pub earlier: &'a [Condition],
    /// The time of day.
    pub now: Timestamp,
}

impl About<'_> {
    fn is_removing(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn conditions(&self) -> Conditions<'_> {
        Conditions::new(self.earlier, self.metadata.generation, self.now)
    }
}

/// How the members stand, and what conditions say so; for grids of every kind.
pub fn members(about: About<'_>, reports: &[Report]) -> (MembersStatus, Vec<Condition>) {
    let is_removing = about.is_removing();
    let mut behind: Vec<MemberBehind> = reports
        .iter()
        .filter_map(|report| report.behind(is_removing))
        .collect();
    behind.sort_by(|one, other| {
        let rank = |member: &MemberBehind| (member.since.is_none(), member.cluster.clone());
        rank(one).cmp(&rank(other))
    });
    let (total, late) = (reports.len(), behind.len());
    let names = listed(behind.iter().map(|member| member.cluster.as_str()));
    let make = about.conditions();
    let found = match behind.first() {
        None => make.make(
            condition::IN_STEP,
            true,
            reason::AS_WANTED,
            format!("all {total} members have the grid as it is"),
        ),
        Some(first) => {
            let reason = if is_removing {
                reason::REMOVING
            } else {
                &first.reason
            };
            let message = format!(
                "{late} of {total} members: {names}. {}: {}",
                first.cluster, first.message
            );
            make.make(condition::IN_STEP, false, reason, message)
        }
    };
    behind.truncate(FAILING_UNITS_MAX);
    let status = MembersStatus {
        total: count(total),
        in_step: count(total - late),
        behind,
    };
    (status, vec![found])
}

/// Whether a member's own grid follows the control cluster, and what keeps it from that.
pub fn follows(about: About<'_>, problem: Option<&Problem>) -> Condition {
    let make = about.conditions();
    match problem {
        None => make.make(
            condition::IN_STEP,
            true,
            reason::AS_WANTED,
            "the control cluster is in reach and shows this grid",
        ),
        Some(problem) => make.make(
            condition::IN_STEP,
            false,
            problem.reason,
            problem.message.clone(),
        ),
    }
}

/// Puts what the members report into the status of a grid of workloads. `size` is that of the grid without
/// a status.
pub fn merge(status: &mut Status, about: About<'_>, reports: &[Report], size: usize) {
    let (members, conditions) = members(about, reports);
    replace(&mut status.conditions, conditions);
    let is_shared = shared_names(status, reports);
    let own_name = |unit: String| name(&is_shared, CONTROL_CLUSTER, unit);
    status.states = std::mem::take(&mut status.states)
        .into_iter()
        .map(|(unit, state)| (own_name(unit), state))
        .collect();
    let total = |field: fn(&Status) -> Option<i32>, own: Option<i32>| {
        let all = reports.iter().filter_map(|report| field(&report.status));
        all.chain(own).fold(0_i32, i32::saturating_add)
    };
    let units = total(|status| status.units, status.units);
    let ready = total(|status| status.ready_units, status.ready_units);
    status.units = Some(units);
    status.ready_units = Some(ready);
    status.ready = Some(format!("{ready}/{units}"));
    for report in reports {
        let failing = report.status.failing_units.iter().cloned();
        status
            .failing_units
            .extend(failing.map(|failing| FailingUnit {
                unit: name(&is_shared, &report.cluster, failing.unit),
                ..failing
            }));
    }
    status.failing_units.truncate(FAILING_UNITS_MAX);
    let make = about.conditions();
    let overall = overall(&make, about, (ready, units), (&members, status));
    replace(&mut status.conditions, overall);
    let unreachable = unreachable(&make, status, reports);
    replace(&mut status.conditions, unreachable.into_iter().collect());
    if !is_shared.is_empty() {
        let units = listed(is_shared.keys().map(String::as_str));
        let message = format!(
            "several clusters have a unit of the same name, shown as <cluster>/<unit>: {units}"
        );
        let shared = make.make(
            condition::UNIT_NAMES_SHARED,
            true,
            reason::UNIT_NAMES_SHARED,
            message,
        );
        status.conditions.push(shared);
    }
    status.members = Some(members);
    fill(status, &make, &is_shared, (reports, size));
}

impl Report {
    fn behind(&self, is_removing: bool) -> Option<MemberBehind> {
        let (reason, message) = self.lack(is_removing)?;
        Some(MemberBehind {
            cluster: self.cluster.clone(),
            reason: reason.to_owned(),
            message,
            since: self.away_since.map(Time),
        })
    }

    /// What is missing for the member to be in step.
    fn lack(&self, is_removing: bool) -> Option<(&str, String)> {
        if is_removing && self.generation.is_some() {
            return Some((
                reason::REMOVING,
                match self.away_since {
                    Some(since) => format!(
                        "still has the grid and is out of contact since {since}: it removes it when it is back; `edgegrid leave --force` if it never will be"
                    ),
                    None => "still has the grid".into(),
                },
            ));
        }
        if is_removing {
            return None;
        }
        if let Some(since) = self.away_since {
            return Some((
                reason::OUT_OF_CONTACT,
                format!("out of contact since {since}; it keeps running what it has"),
            ));
        }
        if let Some(problem) = &self.problem {
            return Some((problem.reason, problem.message.clone()));
        }
        if self.generation.is_none() || self.status.observed_generation != self.generation {
            return Some((
                reason::NOT_REPORTED,
                "has not yet reported that it has the grid as it is now".into(),
            ));
        }
        let refusal = refusal(&self.status);
        refusal.map(|found| (found.reason.as_str(), found.message.clone()))
    }
}

/// Whether a member reports that it has the grid as its copy is.
pub fn is_in_step(generation: Option<i64>, status: &Status) -> bool {
    generation.is_some() && status.observed_generation == generation && refusal(status).is_none()
}

/// What keeps a member from having the grid, as it reports itself.
fn refusal(status: &Status) -> Option<&Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|found| found.type_ == condition::IN_STEP && found.status != "True")
}

/// Units that more than one cluster has.
fn shared_names(own: &Status, reports: &[Report]) -> BTreeMap<String, usize> {
    let all = reports.iter().map(|report| &report.status).chain([own]);
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for unit in all.flat_map(|status| status.states.keys()) {
        *count.entry(unit.clone()).or_default() += 1;
    }
    count.retain(|_, clusters| *clusters > 1);
    count
}

fn name(shared: &BTreeMap<String, usize>, cluster: &str, unit: String) -> String {
    if shared.contains_key(&unit) {
        return format!("{cluster}/{unit}");
    }
    unit
}

/// Whether all clusters run what the grid asks for, and whether something fails anywhere.
fn overall(
    make: &Conditions<'_>,
    about: About<'_>,
    (ready, units): (i32, i32),
    (members, status): (&MembersStatus, &Status),
) -> Vec<Condition> {
    let key = "no node of any cluster has the grid's label";
    let (is_ready, why, message) = if about.is_removing() {
        let left = members.total - members.in_step;
        (
            false,
            reason::REMOVING,
            format!("being removed; {left} members still have it"),
        )
    } else if units == 0 {
        (false, reason::NO_UNITS, key.to_owned())
    } else if ready == units && members.in_step == members.total {
        (
            true,
            reason::AS_WANTED,
            format!("all {units} units of all clusters run what the grid asks for"),
        )
    } else {
        let message = format!(
            "{ready} of {units} units run what the grid asks for; {} of {} members are in step",
            members.in_step, members.total
        );
        (false, reason::NOT_AVAILABLE, message)
    };
    let mut conditions = vec![make.make(condition::READY, is_ready, why, message)];
    if let Some(worst) = status.failing_units.first() {
        let units = listed(
            status
                .failing_units
                .iter()
                .map(|failing| failing.unit.as_str()),
        );
        let message = format!("units {units}: {}", worst.message);
        conditions.push(make.make(condition::DEGRADED, true, &worst.reason, message));
    }
    conditions
}

/// Nodes that keep pods though a cluster has not reached them for long: by cluster, and what the first one says.
fn unreachable(make: &Conditions<'_>, own: &Status, reports: &[Report]) -> Option<Condition> {
    let own = (CONTROL_CLUSTER, own);
    let members = reports.iter();
    let members = members.map(|report| (report.cluster.as_str(), &report.status));
    let told: Vec<(&str, &Condition)> = std::iter::once(own)
        .chain(members)
        .filter_map(|(cluster, status)| {
            let mut conditions = status.conditions.iter();
            let found = conditions.find(|found| found.type_ == condition::NODE_UNREACHABLE)?;
            Some((cluster, found))
        })
        .collect();
    let (first, says) = told.first()?;
    let clusters = listed(told.iter().map(|(cluster, _)| *cluster));
    let message = format!("in clusters {clusters}; {first}: {}", says.message);
    let (type_, reason) = (condition::NODE_UNREACHABLE, reason::NODE_UNREACHABLE);
    Some(make.make(type_, true, reason, message))
}

/// Fills in as many units of members as fit, failing ones first.
fn fill(
    status: &mut Status,
    make: &Conditions<'_>,
    shared: &BTreeMap<String, usize>,
    (reports, size): (&[Report], usize),
) {
    let mut entries: Vec<(bool, String, &Map<String, Value>)> = Vec::new();
    for report in reports {
        let failing = &report.status.failing_units;
        for (unit, state) in &report.status.states {
            let is_well = !failing.iter().any(|failing| failing.unit == *unit);
            entries.push((is_well, name(shared, &report.cluster, unit.clone()), state));
        }
    }
    entries.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    let mut room = OBJECT_MAX.saturating_sub(size + bytes(status));
    let mut left_out = 0;
    for (_, unit, state) in entries {
        let needed = bytes(state) + bytes(&unit) + ":,".len();
        match room.checked_sub(needed) {
            Some(rest) if left_out == 0 => {
                room = rest;
                status.states.insert(unit, state.clone());
            }
            _ => left_out += 1,
        }
    }
    if left_out > 0 {
        let message = format!(
            "states leaves out {left_out} units of members, failing ones are listed first: the object would grow beyond {OBJECT_MAX} bytes"
        );
        let truncated = make.make(
            condition::STATES_TRUNCATED,
            true,
            reason::STATES_TRUNCATED,
            message,
        );
        replace(&mut status.conditions, vec![truncated]);
    }
}

/// Replaces conditions by those of the same type.
fn replace(conditions: &mut Vec<Condition>, new: Vec<Condition>) {
    for condition in new {
        match conditions
            .iter_mut()
            .find(|old| old.type_ == condition.type_)
        {
            Some(old) => *old = condition,
            None => conditions.push(condition),
        }
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Puts how the members stand into the status of a ServiceGrid.
pub fn merge_service(status: &mut ServiceGridStatus, about: About<'_>, reports: &[Report]) {
    let (members, conditions) = members(about, reports);
    replace(&mut status.conditions, conditions);
    status.members = Some(members);
}

/// A status as a copy shows it.
pub fn read(status: &Value) -> Status {
    serde_json::from_value(status.clone()).unwrap_or_else(|_| GridStatus::default())
}
