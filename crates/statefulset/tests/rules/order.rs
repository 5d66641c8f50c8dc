//! Creating, replacing and removing pods in their order.

use edgegrid_statefulset::rules::{Phase, Step, plan};
use serde_json::json;

use crate::world::{
    at, in_phase, pod, pods, set, steps, terminating, unready, update_revision, with_claims, world,
};

fn parallel() -> serde_json::Value {
    json!({ "podManagementPolicy": "Parallel" })
}

#[test]
fn an_ordered_set_makes_one_pod_and_waits_until_it_is_available() {
    let set = set(3, &json!({}));
    let cases = [
        (vec![], vec!["+web-0"]),
        (pods(&set, [0]), vec!["+web-1"]),
        (pods(&set, [0, 1]), vec!["+web-2"]),
        (pods(&set, [0, 1, 2]), vec![]),
        (pods(&set, [1, 2]), vec!["+web-0"]),
        (pods(&set, [0, 2]), vec!["+web-1"]),
        (vec![unready(pod(&set, 0))], vec![]),
        (vec![in_phase(pod(&set, 0), Phase::Pending)], vec![]),
        (vec![terminating(pod(&set, 0))], vec![]),
        (vec![pod(&set, 0), unready(pod(&set, 1))], vec![]),
    ];
    for (pods, wanted) in cases {
        assert_eq!(steps(&world(&set, pods.clone())), wanted, "{pods:#?}");
    }
}

#[test]
fn a_parallel_set_makes_all_at_once_and_waits_for_nobody() {
    let set = set(3, &parallel());
    assert_eq!(
        steps(&world(&set, Vec::new())),
        ["+web-0", "+web-1", "+web-2"]
    );
    let half = vec![unready(pod(&set, 0)), terminating(pod(&set, 1))];
    assert_eq!(steps(&world(&set, half)), ["+web-2"]);
}

#[test]
fn failed_and_succeeded_pods_are_deleted_first_and_made_anew_when_gone() {
    for phase in [Phase::Failed, Phase::Succeeded] {
        let ordered = set(3, &json!({}));
        let there = vec![pod(&ordered, 0), in_phase(pod(&ordered, 1), phase)];
        assert_eq!(steps(&world(&ordered, there)), ["-web-1"]);
        let leaving = vec![
            pod(&ordered, 0),
            terminating(in_phase(pod(&ordered, 1), phase)),
        ];
        assert!(steps(&world(&ordered, leaving)).is_empty());
        let parallel = set(3, &parallel());
        let there = vec![in_phase(pod(&parallel, 0), phase), pod(&parallel, 2)];
        assert_eq!(steps(&world(&parallel, there)), ["-web-0", "+web-1"]);
    }
}

#[test]
fn an_outdated_failed_pod_is_deleted_once() {
    let parallel = set(1, &parallel());
    let failed = at(in_phase(pod(&parallel, 0), Phase::Failed), "web-old");
    assert_eq!(steps(&world(&parallel, vec![failed])), ["-web-0"]);
}

#[test]
fn scaling_down_removes_the_highest_and_waits_for_it() {
    let set = set(1, &json!({}));
    let cases = [
        (pods(&set, [0, 1, 2]), vec!["-web-2"]),
        (
            vec![pod(&set, 0), pod(&set, 1), terminating(pod(&set, 2))],
            vec![],
        ),
        // Nothing goes before every wanted pod is there.
        (vec![unready(pod(&set, 0)), pod(&set, 1)], vec![]),
        (pods(&set, [1, 2]), vec!["+web-0"]),
        // An unready one blocks those above it, unless it is the first that is not available.
        (
            vec![pod(&set, 0), pod(&set, 1), unready(pod(&set, 2))],
            vec!["-web-2"],
        ),
        (
            vec![pod(&set, 0), unready(pod(&set, 1)), pod(&set, 2)],
            vec!["-web-2"],
        ),
        (
            vec![pod(&set, 0), unready(pod(&set, 1)), unready(pod(&set, 2))],
            vec![],
        ),
    ];
    for (pods, wanted) in cases {
        assert_eq!(steps(&world(&set, pods.clone())), wanted, "{pods:#?}");
    }
}

#[test]
fn a_finished_pod_that_still_says_it_is_ready_does_not_block_scaling_down() {
    let set = set(0, &json!({}));
    let mut finished = pod(&set, 1);
    finished.phase = Phase::Succeeded;
    assert_eq!(
        steps(&world(&set, vec![pod(&set, 0), finished])),
        ["-web-1"]
    );
}

#[test]
fn finished_pods_never_block_scaling_down_however_many() {
    let set = set(0, &json!({}));
    let finished = |ordinal| in_phase(pod(&set, ordinal), Phase::Failed);
    let cases = [
        (vec![finished(0), pod(&set, 1), finished(2)], "-web-2"),
        (vec![unready(pod(&set, 0)), finished(1)], "-web-1"),
        (vec![finished(0), unready(pod(&set, 1))], "-web-1"),
        (vec![finished(0)], "-web-0"),
    ];
    for (there, wanted) in cases {
        assert_eq!(steps(&world(&set, there)), [wanted]);
    }
}

#[test]
fn a_parallel_set_removes_all_at_once() {
    let set = set(1, &parallel());
    let there = vec![
        unready(pod(&set, 0)),
        pod(&set, 1),
        terminating(pod(&set, 2)),
        unready(pod(&set, 3)),
    ];
    assert_eq!(steps(&world(&set, there)), ["-web-3", "-web-1"]);
}

#[test]
fn ordinals_start_where_the_set_says() {
    let set = set(2, &json!({ "ordinals": { "start": 3 } }));
    assert_eq!(steps(&world(&set, Vec::new())), ["+web-3"]);
    assert!(steps(&world(&set, pods(&set, [3, 4]))).is_empty());
    // Above the range first, below it last.
    assert_eq!(steps(&world(&set, pods(&set, [0, 1, 3, 4, 5]))), ["-web-5"]);
    assert_eq!(steps(&world(&set, pods(&set, [0, 1, 3, 4]))), ["-web-1"]);
}

#[test]
fn nobody_is_ready_before_it_has_been_for_long_enough() {
    let set = set(2, &json!({ "minReadySeconds": 3601 }));
    let young = world(&set, pods(&set, [0]));
    assert!(steps(&young).is_empty());
    assert_eq!(
        plan(&young).recheck,
        Some(std::time::Duration::from_secs(1))
    );
    let mut later = young;
    later.now += jiff::SignedDuration::from_secs(1);
    assert_eq!(steps(&later), ["+web-1"]);
    assert_eq!(plan(&later).recheck, None);
}

#[test]
fn a_set_with_room_for_billions_is_planned_all_the_same() {
    let many = i64::from(i32::MAX);
    let ordered = set(many, &json!({}));
    assert_eq!(steps(&world(&ordered, pods(&ordered, [0]))), ["+web-1"]);
    let parallel = set(many, &parallel());
    assert_eq!(
        steps(&world(&parallel, pods(&parallel, [5, 2_000_000]))).len(),
        1000
    );
}

#[test]
fn a_pending_pod_gets_its_missing_claim_back_and_a_running_one_does_not() {
    let set = set(1, &json!({ "volumeClaimTemplates": with_claims() }));
    let mut pending = world(&set, vec![in_phase(pod(&set, 0), Phase::Pending)]);
    assert!(steps(&pending).is_empty());
    pending.claims.clear();
    assert_eq!(steps(&pending), ["claims web-0"]);
    let mut running = world(&set, pods(&set, [0]));
    running.claims.clear();
    assert!(steps(&running).is_empty());
}

#[test]
fn new_pods_below_the_partition_get_the_old_template() {
    let rolling = |limits| json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": limits }, "podManagementPolicy": "Parallel", "ordinals": { "start": 5 } });
    let revision_of = |set: &edgegrid_statefulset::rules::Set| -> Vec<String> {
        let mut world = world(set, Vec::new());
        world
            .revisions
            .push(std::sync::Arc::new(crate::world::earlier(
                set, "web-old", 0,
            )));
        let plan = plan(&world);
        let label = |step: &Step| match step {
            Step::CreatePod { body, .. } => Some(
                body["metadata"]["labels"]["controller-revision-hash"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            ),
            _ => None,
        };
        plan.steps().filter_map(label).collect()
    };
    let mut partitioned = set(3, &rolling(json!({ "partition": 2 })));
    partitioned.status.current_revision = "web-old".into();
    let new = update_revision(&partitioned);
    assert_eq!(
        revision_of(&partitioned),
        ["web-old", "web-old", new.as_str()]
    );
    // Without limits it is the pods that are counted as current.
    let mut plain = set(
        3,
        &json!({ "updateStrategy": { "type": "RollingUpdate" }, "podManagementPolicy": "Parallel", "ordinals": { "start": 5 } }),
    );
    plain.status.current_revision = "web-old".into();
    plain.status.current_replicas = 1;
    assert_eq!(revision_of(&plain), ["web-old", new.as_str(), new.as_str()]);
}

#[test]
fn an_unknown_strategy_has_an_event_and_nothing_is_done() {
    let set = set(3, &json!({ "updateStrategy": { "type": "Recreate" } }));
    let plan = plan(&world(&set, Vec::new()));
    assert_eq!(plan.steps().count(), 0);
    assert_eq!(plan.events[0].reason, "UnknownStrategy");
    assert!(!plan.status.differs_from(&set.status));
}
