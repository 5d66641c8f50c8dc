//! Unit by unit: which of the units that should get another template get it now.
//!
//! ```text
//! outdated ──(below the limit)──► changed, in flight ──► Available: no longer in flight
//!                                        └─(not Available after its progress deadline)─► the rollout stops
//! ```
//!
//! Nothing is remembered: a changed workload carries the moment of its change, and the rest
//! follows from its status. New units are no part of it: they are stamped at once.

use std::collections::BTreeSet;
use std::time::Duration;

use edgegrid_api::Rollout;
use edgegrid_api::names::annotation;
use jiff::Timestamp;
use serde_json::Value;

use crate::grid::Template;
use crate::observed::Child;
use crate::workload_kind::WorkloadKind;

/// Time that a changed workload has to become Available unless its template says otherwise.
const PROGRESS_DEADLINE: Duration = Duration::from_mins(10);

/// A unit that was changed and is not yet Available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Name of the unit.
    pub unit: String,
    /// When it should have become Available; `None` if that is not known yet.
    pub deadline: Option<Timestamp>,
}

/// Which units are changed now, and which wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Units to change now.
    pub change: BTreeSet<String>,
    /// Units that are to be changed later.
    pub waiting: BTreeSet<String>,
    /// Units that are changed and not yet Available.
    pub in_flight: BTreeSet<String>,
    /// Why the waiting ones wait.
    pub wait_reason: Option<WaitReason>,
    /// When a unit in flight runs out of time.
    pub next_deadline: Option<Timestamp>,
}

/// Why no further unit is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// `spec.rollout.paused` is set.
    Paused,
    /// `spec.rollout.maxConcurrentUnits` are in flight.
    LimitReached,
    /// These units were changed and did not become Available in time.
    Stopped(BTreeSet<String>),
}

/// Decides which of the `outdated` units are changed now.
pub fn next_batch(
    rollout: &Rollout,
    outdated: &BTreeSet<String>,
    in_flight: Vec<InFlight>,
    now: Timestamp,
) -> Batch {
    let limit = rollout
        .max_concurrent_units
        .map(|units| usize::try_from(units).unwrap_or(0).max(1));
    let is_late = |unit: &InFlight| unit.deadline.is_some_and(|deadline| deadline <= now);
    let late: BTreeSet<String> = in_flight
        .iter()
        .filter(|unit| is_late(unit))
        .map(|unit| unit.unit.clone())
        .collect();
    let change = match limit {
        _ if rollout.paused => BTreeSet::new(),
        None => outdated.clone(),
        Some(_) if !late.is_empty() => BTreeSet::new(),
        Some(limit) => chosen(outdated, &in_flight, limit),
    };
    let waiting: BTreeSet<String> = outdated.difference(&change).cloned().collect();
    let wait_reason = match () {
        () if waiting.is_empty() => None,
        () if rollout.paused => Some(WaitReason::Paused),
        () if !late.is_empty() => Some(WaitReason::Stopped(late)),
        () => Some(WaitReason::LimitReached),
    };
    Batch {
        next_deadline: in_flight
            .iter()
            .filter_map(|unit| unit.deadline)
            .filter(|deadline| *deadline > now)
            .min(),
        in_flight: in_flight.into_iter().map(|unit| unit.unit).collect(),
        change,
        waiting,
        wait_reason,
    }
}

/// The outdated units that are changed now: those in flight with an earlier template, which count against
/// the limit already and for which a new template may be the way out, and as many others as the limit
/// leaves room for. With more units in flight than the limit, as after it was lowered, even those take turns.
fn chosen(outdated: &BTreeSet<String>, in_flight: &[InFlight], limit: usize) -> BTreeSet<String> {
    let flying: BTreeSet<&String> = in_flight.iter().map(|unit| &unit.unit).collect();
    let (again, others): (Vec<_>, Vec<_>) = outdated.iter().partition(|unit| flying.contains(unit));
    let current = flying.len().saturating_sub(again.len());
    let room = limit.saturating_sub(flying.len());
    again
        .into_iter()
        .take(limit.saturating_sub(current))
        .chain(others.into_iter().take(room))
        .cloned()
        .collect()
}

/// When a changed workload should be Available; `None` if it was never changed.
pub fn deadline(workload: WorkloadKind, template: &Template, child: &Child) -> Option<Timestamp> {
    let changed: Timestamp = child.annotation(annotation::CHANGED_AT)?.parse().ok()?;
    let seconds = template.spec["progressDeadlineSeconds"].as_u64();
    let own = seconds
        .filter(|_| workload == WorkloadKind::Deployment)
        .map(Duration::from_secs);
    changed
        .checked_add(own.unwrap_or(PROGRESS_DEADLINE))
        .ok()
        .or(Some(Timestamp::MAX))
}

/// Whether a workload runs what its spec says, all of it and Available.
pub fn is_available(workload: WorkloadKind, template: &Template, child: &Child) -> bool {
    let generation = child.metadata.generation.unwrap_or(0);
    if child.count("observedGeneration") < generation {
        return false;
    }
    let wanted = i64::from(child.spec.replicas.unwrap_or(1));
    match workload {
        WorkloadKind::Deployment => {
            child.count("updatedReplicas") >= wanted
                && child.count("replicas") <= child.count("updatedReplicas")
                && child.count("availableReplicas") >= wanted
                && child
                    .condition("Available")
                    .is_none_or(|condition| condition.status == "True")
        }
        WorkloadKind::StatefulSet => {
            let updated = wanted - partition(template).min(wanted);
            let runs_all = child.count("availableReplicas") >= wanted;
            runs_all && (waits_for_deletion(template) || is_updated(child, updated))
        }
    }
}

/// A StatefulSet's pods up to this ordinal keep the old template.
fn partition(template: &Template) -> i64 {
    let partition = &template.spec["updateStrategy"]["rollingUpdate"]["partition"];
    partition.as_i64().unwrap_or(0)
}

fn waits_for_deletion(template: &Template) -> bool {
    template.spec["updateStrategy"]["type"] == "OnDelete"
}

/// Once an update is complete, Kubernetes reports both revisions as equal and may stop counting.
fn is_updated(child: &Child, wanted: i64) -> bool {
    let revision = |field: &str| child.status.get(field).and_then(Value::as_str);
    let is_complete = revision("currentRevision").is_some()
        && revision("currentRevision") == revision("updateRevision");
    is_complete || child.count("updatedReplicas") >= wanted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn units(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn flying(unit: &str, seconds_left: i64) -> InFlight {
        InFlight {
            unit: unit.into(),
            deadline: Some(NOW + jiff::Span::new().seconds(seconds_left)),
        }
    }

    fn rollout(max: Option<i32>, paused: bool) -> Rollout {
        Rollout {
            max_concurrent_units: max,
            paused,
        }
    }

    /// In SuperEdge all sites change at the same time.
    #[test]
    fn as_many_units_are_changed_as_may_be_in_flight() {
        let outdated = || units(&["a", "b", "c", "d"]);
        for (max, in_flight, go) in [
            (None, vec![], units(&["a", "b", "c", "d"])),
            (None, vec![flying("x", -5)], units(&["a", "b", "c", "d"])),
            (Some(2), vec![], units(&["a", "b"])),
            (Some(2), vec![flying("x", 5)], units(&["a"])),
            (Some(2), vec![flying("x", 5), flying("y", 5)], units(&[])),
            (Some(0), vec![], units(&["a"])),
        ] {
            let batch = next_batch(&rollout(max, false), &outdated(), in_flight, NOW);
            assert_eq!(batch.change, go, "{max:?}");
            assert_eq!(batch.change.len() + batch.waiting.len(), 4);
        }
    }

    #[test]
    fn after_the_limit_was_lowered_units_in_flight_take_turns_too() {
        let earlier = |unit: &str| InFlight {
            unit: unit.into(),
            deadline: None,
        };
        let go = |outdated: &[&str], in_flight| {
            next_batch(&rollout(Some(1), false), &units(outdated), in_flight, NOW).change
        };
        let both = || vec![earlier("a"), earlier("b")];
        assert_eq!(go(&["a", "b", "c"], both()), units(&["a"]));
        let second = vec![flying("a", 5), earlier("b")];
        assert_eq!(go(&["b", "c"], second), units(&[]));
    }

    #[test]
    fn a_unit_in_flight_with_an_earlier_template_is_changed_again_and_counts_once() {
        let in_flight = || {
            vec![InFlight {
                unit: "c".into(),
                deadline: None,
            }]
        };
        let outdated = units(&["a", "b", "c"]);
        for (max, go) in [(1, units(&["c"])), (2, units(&["a", "c"]))] {
            let batch = next_batch(&rollout(Some(max), false), &outdated, in_flight(), NOW);
            assert_eq!(batch.change, go, "{max}");
        }
    }

    #[test]
    fn a_pause_keeps_all_units_as_they_are() {
        let batch = next_batch(&rollout(None, true), &units(&["a"]), vec![], NOW);
        assert_eq!(
            (batch.change, batch.wait_reason),
            (units(&[]), Some(WaitReason::Paused))
        );
    }

    #[test]
    fn a_unit_that_is_late_stops_the_rollout() {
        let in_flight = vec![flying("x", 0)];
        let batch = next_batch(&rollout(Some(3), false), &units(&["a"]), in_flight, NOW);
        assert_eq!(batch.change, units(&[]));
        assert_eq!(batch.wait_reason, Some(WaitReason::Stopped(units(&["x"]))));
    }

    #[test]
    fn the_next_deadline_is_when_to_look_again() {
        let in_flight = vec![flying("x", 30), flying("y", 10), flying("z", -1)];
        let batch = next_batch(&rollout(Some(9), false), &units(&[]), in_flight, NOW);
        assert_eq!(batch.next_deadline, flying("y", 10).deadline);
        assert_eq!(batch.wait_reason, None);
    }

    fn child(spec: &Value, status: &Value) -> Child {
        serde_json::from_value(json!({
            "metadata": { "generation": 2, "annotations": { annotation::CHANGED_AT: NOW.to_string() } },
            "spec": spec,
            "status": status,
        }))
        .unwrap()
    }

    fn template(spec: &Value) -> Template {
        Template::new(spec)
    }

    #[test]
    fn a_deployment_is_available_when_all_its_pods_are_new_and_available() {
        let done = json!({
            "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3,
            "conditions": [{ "type": "Available", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        });
        let available = |status: &Value| {
            let child = child(&json!({ "replicas": 3 }), status);
            is_available(WorkloadKind::Deployment, &template(&json!({})), &child)
        };
        assert!(available(&done));
        for (field, value) in [
            ("observedGeneration", json!(1)), // it has not been looked at
            ("updatedReplicas", json!(2)),    // old pods are what is Available
            ("replicas", json!(4)),           // an old pod is still there
            ("availableReplicas", json!(2)),
            (
                "conditions",
                json!([{ "type": "Available", "status": "False", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }]),
            ),
        ] {
            let mut status = done.clone();
            status[field] = value;
            assert!(!available(&status), "{field}");
        }
    }

    #[test]
    fn a_stateful_set_is_available_when_all_pods_it_updates_are() {
        let available = |strategy: &Value, updated: i64| {
            let status = json!({
                "observedGeneration": 2, "replicas": 3, "availableReplicas": 3, "updatedReplicas": updated,
                "currentRevision": "a", "updateRevision": "b",
            });
            let child = child(&json!({ "replicas": 3 }), &status);
            let template = template(&json!({ "updateStrategy": strategy }));
            is_available(WorkloadKind::StatefulSet, &template, &child)
        };
        assert!(available(&json!({}), 3));
        assert!(!available(&json!({}), 2));
        assert!(available(
            &json!({ "rollingUpdate": { "partition": 2 } }),
            1
        ));
        assert!(!available(
            &json!({ "rollingUpdate": { "partition": 2 } }),
            0
        ));
        assert!(available(&json!({ "type": "OnDelete" }), 0));
    }

    #[test]
    fn a_deployment_has_its_own_deadline_and_a_stateful_set_ten_minutes() {
        let child = child(&json!({}), &json!({}));
        let template = template(&json!({ "progressDeadlineSeconds": 30 }));
        let left =
            |workload| deadline(workload, &template, &child).map(|end| (end - NOW).get_seconds());
        assert_eq!(left(WorkloadKind::Deployment), Some(30));
        assert_eq!(left(WorkloadKind::StatefulSet), Some(600));
    }
}
