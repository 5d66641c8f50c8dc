//! What the status says.

use edgegrid_statefulset::rules::{Phase, Status, plan};
use serde_json::json;

use crate::world::{OLD, at, in_phase, pod, set, terminating, unready, update_revision, world};

#[test]
fn pods_are_counted_by_what_they_are() {
    let mut set = set(
        8,
        &json!({ "podManagementPolicy": "Parallel", "minReadySeconds": 10 }),
    );
    set.status.current_revision = OLD.into();
    let mut young = pod(&set, 5);
    young.readiness = edgegrid_statefulset::rules::Readiness::Ready {
        since: Some(crate::world::NOW),
    };
    let mut world = world(
        &set,
        vec![
            pod(&set, 0),
            at(pod(&set, 1), OLD),
            unready(pod(&set, 2)),
            terminating(at(pod(&set, 3), OLD)),
            in_phase(pod(&set, 4), Phase::Failed),
            young,
            in_phase(pod(&set, 9), Phase::Pending),
        ],
    );
    world
        .revisions
        .push(std::sync::Arc::new(crate::world::earlier(&set, OLD, 0)));
    let wanted = Status {
        observed_generation: 3,
        replicas: 7,
        ready_replicas: 4,
        available_replicas: 3,
        current_replicas: 1,
        updated_replicas: 5,
        current_revision: OLD.into(),
        update_revision: update_revision(&set),
        collision_count: 0,
    };
    assert_eq!(plan(&world).status, wanted);
}

fn counted(replicas: i64, ready: i64, updated: i64, current: i64) -> Status {
    Status {
        replicas,
        ready_replicas: ready,
        updated_replicas: updated,
        current_replicas: current,
        current_revision: "a".into(),
        update_revision: "b".into(),
        ..Status::default()
    }
}

#[test]
fn a_rollout_is_over_when_every_wanted_pod_is_new_and_ready() {
    let cases = [
        (counted(3, 3, 3, 0), 3, true),
        (counted(3, 3, 2, 1), 3, false),
        (counted(3, 2, 3, 0), 3, false),
        (counted(4, 3, 3, 0), 3, false),
        (counted(2, 2, 2, 0), 3, false),
        (counted(0, 0, 0, 0), 0, true),
    ];
    for (status, wanted, is_over) in cases {
        let after = status.clone().after(0, wanted);
        assert_eq!(after.current_revision == "b", is_over, "{status:?}");
        assert_eq!(
            after.current_replicas == after.updated_replicas,
            is_over || status.current_replicas == status.updated_replicas
        );
    }
}

#[test]
fn deletions_of_a_rollout_are_taken_off_and_never_below_nothing() {
    assert_eq!(counted(5, 5, 1, 4).after(2, 5).current_replicas, 2);
    assert_eq!(counted(5, 5, 1, 1).after(3, 5).current_replicas, 0);
}

#[test]
fn a_status_is_written_only_when_it_says_something_new() {
    let stored = counted(3, 3, 3, 3);
    assert!(!stored.differs_from(&stored));
    let collided = Status {
        collision_count: 1,
        ..stored.clone()
    };
    assert!(!collided.differs_from(&stored));
    let newer = Status {
        observed_generation: 2,
        ..stored.clone()
    };
    assert!(newer.differs_from(&stored) && !stored.differs_from(&newer));
    assert!(counted(3, 2, 3, 3).differs_from(&stored));
}

#[test]
fn a_converged_world_needs_no_steps_and_no_write() {
    let set = set(3, &json!({}));
    let first = plan(&world(&set, crate::world::pods(&set, 0..3)));
    assert_eq!(first.steps().count(), 0);
    let mut again = set.clone();
    again.status = first.status.after(0, 3);
    let second = plan(&world(&again, crate::world::pods(&set, 0..3)));
    assert_eq!(second.steps().count(), 0);
    assert!(!second.status.after(0, 3).differs_from(&again.status));
}
