//! Which pods a rolling update deletes, and when.

use edgegrid_statefulset::rules::{Phase, Pod, Set};
use serde_json::{Value, json};

use crate::world::{OLD, at, pod, set, steps, terminating, unready, world};

fn rolling(management: &str, partition: i64, max_unavailable: &Value) -> Value {
    json!({
        "podManagementPolicy": management,
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": { "partition": partition, "maxUnavailable": max_unavailable },
        },
    })
}

/// Old pods: `r` ready, `u` unready, `t` terminating, `f` failed with conditions of before; new ones: `n` ready,
/// `v` unready; `m` missing.
fn lined_up(set: &Set, pattern: &str) -> Vec<Pod> {
    let pod_of = |(ordinal, kind): (i64, char)| match kind {
        'r' => Some(at(pod(set, ordinal), OLD)),
        'u' => Some(unready(at(pod(set, ordinal), OLD))),
        't' => Some(terminating(at(pod(set, ordinal), OLD))),
        'f' => Some(Pod {
            phase: Phase::Failed,
            ..at(pod(set, ordinal), OLD)
        }),
        'n' => Some(pod(set, ordinal)),
        'v' => Some(unready(pod(set, ordinal))),
        _ => None,
    };
    (0..).zip(pattern.chars()).filter_map(pod_of).collect()
}

fn deleted(
    management: &str,
    pattern: &str,
    max_unavailable: &Value,
    partition: i64,
) -> Vec<String> {
    let replicas = i64::try_from(pattern.len()).unwrap();
    let set = set(replicas, &rolling(management, partition, max_unavailable));
    let all = steps(&world(&set, lined_up(&set, pattern)));
    all.into_iter()
        .filter(|step| step.starts_with('-'))
        .map(|step| step.replace("-web-", ""))
        .collect()
}

#[test]
fn an_ordered_update_takes_the_highest_and_waits_until_its_successor_is_available() {
    let cases: [(&str, Value, i64, &[&str]); 13] = [
        ("rrr", json!(1), 0, &["2"]),
        ("rrn", json!(1), 0, &["1"]),
        ("rnn", json!(1), 0, &["0"]),
        ("nnn", json!(1), 0, &[]),
        ("rrt", json!(1), 0, &[]),
        ("rrm", json!(1), 0, &[]),
        ("rrv", json!(1), 0, &[]),
        ("rru", json!(1), 0, &[]),
        ("rrr", json!(1), 2, &["2"]),
        ("rrn", json!(1), 2, &[]),
        ("rrrrrr", json!(2), 3, &["5", "4"]),
        ("rrrrr", json!("50%"), 0, &["4", "3"]),
        ("rrr", json!("1%"), 0, &["2"]),
    ];
    for (pattern, most, partition, wanted) in cases {
        assert_eq!(
            deleted("OrderedReady", pattern, &most, partition),
            wanted,
            "{pattern} {most} {partition}"
        );
    }
}

#[test]
fn a_parallel_update_replaces_stuck_pods_for_free_and_healthy_ones_within_the_budget() {
    let cases: [(&str, i64, i64, &[&str]); 17] = [
        ("rrr", 1, 0, &["2"]),
        ("rrrrr", 2, 0, &["4", "3"]),
        ("u", 1, 0, &["0"]),
        ("rru", 1, 0, &["2"]),
        ("rrruu", 2, 0, &["4", "3"]),
        ("rrt", 1, 0, &[]),
        ("rrrut", 3, 0, &["3", "2"]),
        ("uurr", 2, 0, &["1", "0"]),
        ("uurrr", 3, 0, &["1", "0", "4"]),
        ("rurrr", 1, 2, &[]),
        ("rrurr", 1, 2, &["2"]),
        ("rrv", 1, 0, &[]),
        ("rrm", 1, 0, &[]),
        ("rrm", 2, 0, &["1"]),
        ("uuu", 1, 0, &["2", "1", "0"]),
        ("uuu", 1, 3, &[]),
        ("nnn", 3, 0, &[]),
    ];
    for (pattern, most, partition, wanted) in cases {
        assert_eq!(
            deleted("Parallel", pattern, &json!(most), partition),
            wanted,
            "{pattern} {most} {partition}"
        );
    }
}

#[test]
fn terminating_pods_use_up_the_budget_wherever_they_are() {
    for pattern in [
        "rrrrrr", "trrrrr", "rrtrrr", "rrrrrt", "ttrrrr", "trrrrt", "tttrrr",
    ] {
        let leaving = pattern.matches('t').count();
        assert_eq!(
            deleted("Parallel", pattern, &json!(2), 3).len(),
            2_usize.saturating_sub(leaving),
            "{pattern}"
        );
    }
}

#[test]
fn a_finished_pod_uses_up_the_budget_whatever_its_conditions_still_say() {
    assert_eq!(deleted("Parallel", "frr", &json!(1), 0), ["0"]);
    assert_eq!(deleted("Parallel", "frr", &json!(2), 0), ["0", "2"]);
}

#[test]
fn on_delete_waits_for_somebody_else_to_delete() {
    let set = set(3, &json!({ "updateStrategy": { "type": "OnDelete" } }));
    assert!(steps(&world(&set, lined_up(&set, "rrr"))).is_empty());
    assert_eq!(steps(&world(&set, lined_up(&set, "rmr"))), ["+web-1"]);
}

#[test]
fn scaling_comes_before_updating() {
    let set = set(2, &json!({}));
    let there = vec![
        at(pod(&set, 0), OLD),
        at(pod(&set, 1), OLD),
        at(pod(&set, 2), OLD),
    ];
    assert_eq!(steps(&world(&set, there)), ["-web-2"]);
}

#[test]
fn pods_that_have_not_been_ready_for_long_enough_block_an_ordered_update() {
    let mut spec = rolling("OrderedReady", 0, &json!(1));
    spec["minReadySeconds"] = 7200.into();
    let set = set(3, &spec);
    assert!(steps(&world(&set, lined_up(&set, "rrr"))).is_empty());
}
