//! What people see of a grid.

use std::sync::Arc;

use edgegrid_api::DeploymentGrid;

use super::*;
use crate::grid_state::Leaving;
use crate::rollout::Batch;
use crate::unreachable::UnreachableNode;

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn grid() -> Grid {
    let grid: DeploymentGrid = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "g", "generation": 4 },
        "spec": { "gridUniqKey": "zone" },
    }))
    .unwrap();
    Grid::from(&grid)
}

fn unit(state: State, is_available: bool) -> Unit {
    let child: Child = serde_json::from_value(json!({
        "metadata": { "name": "x" },
        "status": {
            "replicas": 2, "readyReplicas": 1, "observedGeneration": 7, "unavailableReplicas": 1,
            "conditions": [
                { "type": "Progressing", "status": "True" },
                { "type": "Available", "status": "True", "message": "m".repeat(200) },
            ],
        },
    }))
    .unwrap();
    Unit {
        name: "x".into(),
        child: Some(Arc::new(child)),
        state,
        attempt_hash: String::new(),
        is_current: true,
        is_available,
        deadline: None,
        leaving: None,
    }
}

fn decision(units: impl IntoIterator<Item = (String, Unit)>) -> Decision {
    Decision {
        units: units.into_iter().collect(),
        ..Decision::default()
    }
}

fn written(size: usize, conditions: &[Condition]) -> Written<'_> {
    Written { size, conditions }
}

fn status_of(decision: &Decision) -> Status {
    status(&grid(), decision, &Failures::new(), written(100, &[]), NOW)
}

fn condition_in<'a>(status: &'a Status, type_: &str) -> &'a Condition {
    status
        .conditions
        .iter()
        .find(|one| one.type_ == type_)
        .unwrap()
}

#[test]
fn a_deployments_state_is_its_counts_and_whether_it_is_available() {
    let status = status_of(&decision([("a".into(), unit(State::Settled, true))]));
    let state = serde_json::to_value(&status.states["a"]).unwrap();
    assert_eq!(state["replicas"], 2);
    assert_eq!(state["readyReplicas"], 1);
    assert_eq!(state["conditions"].as_array().unwrap().len(), 1);
    assert_eq!(state.as_object().unwrap().len(), 3);
    assert_eq!(
        (status.ready.as_deref(), status.observed_generation),
        (Some("1/1"), Some(4))
    );
    assert_eq!(condition_in(&status, condition::READY).status, "True");
}

#[test]
fn an_unchanged_world_gives_an_unchanged_status() {
    let decision = decision([("a".into(), unit(State::Settled, true))]);
    let first = status_of(&decision);
    let later = NOW + jiff::Span::new().hours(5);
    let again = status(
        &grid(),
        &decision,
        &Failures::new(),
        written(100, &first.conditions),
        later,
    );
    assert_eq!(first, again);
}

#[test]
fn failing_units_come_first_and_the_worst_first_among_them() {
    let blocked = |reason| unit(State::Blocked(Problem::new(reason, "why")), false);
    let status = status_of(&decision([
        ("a".into(), blocked(reason::TEMPLATE_MISSING)),
        ("b".into(), unit(State::Settled, true)),
        ("c".into(), blocked(reason::NAME_TAKEN)),
    ]));
    let failing: Vec<_> = status
        .failing_units
        .iter()
        .map(|unit| unit.unit.as_str())
        .collect();
    assert_eq!(failing, ["c", "a"]);
    assert_eq!(
        condition_in(&status, condition::DEGRADED).reason,
        reason::NAME_TAKEN
    );
    assert_eq!(
        condition_in(&status, condition::NAME_TAKEN).message,
        "units c: why"
    );
    assert!(
        status
            .conditions
            .iter()
            .all(|one| one.type_ != condition::IMMUTABLE)
    );
    assert_eq!(status.ready.as_deref(), Some("1/3"));
}

#[test]
fn a_status_never_grows_beyond_its_bound_and_counts_what_it_leaves_out() {
    let many = (0..5000).map(|number| (format!("unit-{number:05}"), unit(State::Settled, true)));
    let mut decision = decision(many);
    decision.units.insert(
        "z-last".into(),
        unit(
            State::Blocked(Problem::new(reason::IMMUTABLE, "why")),
            false,
        ),
    );
    let grid_size = 300_000;
    let status = status(
        &grid(),
        &decision,
        &Failures::new(),
        written(grid_size, &[]),
        NOW,
    );
    assert!(
        grid_size + bytes(&status) <= OBJECT_MAX + 1024,
        "{}",
        bytes(&status)
    );
    assert!(status.states.contains_key("z-last"), "failing ones first");
    assert!(status.states.len() < 5000 && status.states.len() > 500);
    assert_eq!(status.units, Some(5001));
    let truncated = condition_in(&status, condition::STATES_TRUNCATED);
    assert!(
        truncated
            .message
            .contains(&format!("leaves out {}", 5001 - status.states.len()))
    );
}

#[test]
fn a_status_is_written_at_most_once_a_second_and_less_often_as_it_grows() {
    for (bytes, seconds) in [(0, 1), (50 * 1024, 1), (50 * 1024 + 1, 2), (768 * 1024, 16)] {
        assert_eq!(status_pause(bytes), Duration::from_secs(seconds), "{bytes}");
    }
}

#[test]
fn a_stopped_rollout_names_who_stopped_it_and_who_waits() {
    let set = |name: &str| std::iter::once(name.to_owned()).collect();
    let mut decision = decision([
        ("a".into(), unit(State::Settled, false)),
        ("b".into(), unit(State::Waiting, true)),
    ]);
    decision.batch = Batch {
        waiting: set("b"),
        wait_reason: Some(WaitReason::Stopped(set("a"))),
        ..Batch::default()
    };
    let status = status_of(&decision);
    let progressing = condition_in(&status, condition::PROGRESSING);
    assert_eq!(
        (progressing.status.as_str(), progressing.reason.as_str()),
        ("False", reason::ROLLOUT_STOPPED)
    );
    assert!(
        progressing.message.starts_with("a got the new template"),
        "{}",
        progressing.message
    );
}

#[test]
fn units_in_grace_are_listed_with_their_moments_soonest_first() {
    let leaving = |seconds: i64| Leaving {
        since: NOW,
        until: (seconds > 0).then(|| NOW + jiff::Span::new().seconds(seconds)),
    };
    let mut units = [("a", 30), ("b", 10), ("c", 0)].map(|(name, seconds)| {
        let mut unit = unit(State::Settled, true);
        unit.leaving = Some(leaving(seconds));
        (name.to_owned(), unit)
    });
    units[0].1.is_available = false;
    let status = status_of(&decision(units));
    let names: Vec<_> = status
        .leaving_units
        .iter()
        .map(|unit| unit.unit.as_str())
        .collect();
    assert_eq!(names, ["b", "a", "c"], "what a person has to do is last");
    assert_eq!(
        status.leaving_units[0].removed_at,
        leaving(10).until.map(Time)
    );
}

#[test]
fn a_held_unit_is_a_condition_that_names_it_and_the_way_out_and_not_ready() {
    let mut decision = decision([("a".into(), unit(State::Held, true))]);
    decision.held.insert("web-a".into());
    let status = status_of(&decision);
    assert_eq!(status.ready.as_deref(), Some("0/1"));
    assert!(status.failing_units.is_empty());
    let held = condition_in(&status, condition::REMOVAL_HELD);
    assert_eq!(held.reason, reason::CLAIMS_WOULD_GO);
    for part in ["web-a", "kubectl delete statefulset -n", "--cascade=orphan"] {
        assert!(held.message.contains(part), "{}", held.message);
    }
}

#[test]
fn a_grid_without_units_says_why() {
    let status = status_of(&Decision::default());
    let ready = condition_in(&status, condition::READY);
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_str()),
        ("False", reason::NO_UNITS)
    );
    assert!(ready.message.contains("label zone"), "{}", ready.message);
}

#[test]
fn a_unit_whose_pods_cannot_be_made_is_failing() {
    let mut failing = unit(State::Settled, false);
    let child: Child = serde_json::from_value(json!({
        "metadata": { "name": "x" },
        "status": { "conditions": [{ "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota", "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
    }))
    .unwrap();
    failing.child = Some(Arc::new(child));
    let status = status_of(&decision([("a".into(), failing)]));
    assert_eq!(status.failing_units[0].reason, reason::NOT_AVAILABLE);
    assert!(status.failing_units[0].message.contains("exceeded quota"));
}

#[test]
fn nodes_that_keep_pods_are_named_with_their_units_and_the_ways_out() {
    let mut decision = decision([("a".into(), unit(State::Settled, true))]);
    for (unit, node) in [("b", "b-1"), ("a", "a-2"), ("a", "a-1")] {
        decision.unreachable.insert(UnreachableNode {
            unit: unit.into(),
            node: node.into(),
            since: NOW,
        });
    }
    let status = status_of(&decision);
    let told = condition_in(&status, condition::NODE_UNREACHABLE);
    assert_eq!(told.status, "True");
    for words in [
        "units a, b:",
        "nodes a-1, a-2, b-1 ",
        "`kubectl delete node a-1`",
        "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
    ] {
        assert!(told.message.contains(words), "{words}: {}", told.message);
    }
    assert_eq!(condition_in(&status, condition::READY).status, "True");

    decision.unreachable.clear();
    let status = status_of(&decision);
    let mut types = status.conditions.iter().map(|one| one.type_.as_str());
    assert!(types.all(|type_| type_ != condition::NODE_UNREACHABLE));
}
