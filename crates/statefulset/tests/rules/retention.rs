//! To whom claims belong.

use std::sync::Arc;

use edgegrid_statefulset::rules::{Claim, ClaimStep, Plan, Set, Step, plan};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use crate::world::{claim, pod, pods, reference, set, steps, with_claims, world};

fn policy(when_scaled: &str, when_deleted: &str) -> Value {
    json!({
        "volumeClaimTemplates": with_claims(),
        "persistentVolumeClaimRetentionPolicy": { "whenScaled": when_scaled, "whenDeleted": when_deleted },
    })
}

fn ours() -> OwnerReference {
    reference("StatefulSet", "web", "set-uid", true)
}

fn pod_reference(ordinal: i64) -> OwnerReference {
    reference(
        "Pod",
        &format!("web-{ordinal}"),
        &format!("uid-{ordinal}"),
        true,
    )
}

/// The owners that the claim of pod 1 should have, if they are wrong. One pod is wanted, pod 1 is condemned
/// or not.
fn decided_owners(set: &Set, owners: Vec<OwnerReference>) -> (Option<Vec<OwnerReference>>, Plan) {
    let mut world = world(set, pods(set, [0, 1]));
    let claim = Claim {
        owners,
        ..claim(set, 1)
    };
    world.claims.insert(claim.name.clone(), Arc::new(claim));
    // Pod 0's claim is right already.
    let right = match set.retention.when_deleted {
        edgegrid_statefulset::rules::RetentionPolicy::Delete => vec![ours()],
        edgegrid_statefulset::rules::RetentionPolicy::Retain => Vec::new(),
    };
    let first = Claim {
        owners: right,
        ..crate::world::claim(set, 0)
    };
    world.claims.insert(first.name.clone(), Arc::new(first));
    let plan = plan(&world);
    let owned = plan.steps().find_map(|step| match step {
        Step::RepairClaims { claims, .. } | Step::UpdatePod { claims, .. } => match &claims[..] {
            [ClaimStep::SetOwners { owners, .. }] => Some(owners.clone()),
            other => panic!("{other:?}"),
        },
        _ => None,
    });
    (owned, plan)
}

#[test]
fn claims_belong_to_whom_the_policy_says() {
    let cases = [
        ("Retain", "Retain", None, None),
        ("Retain", "Delete", Some(ours()), Some(ours())),
        ("Delete", "Retain", None, Some(pod_reference(1))),
        ("Delete", "Delete", Some(ours()), Some(pod_reference(1))),
    ];
    for (when_scaled, when_deleted, wanted, condemned) in cases {
        for (replicas, right) in [(2, wanted), (1, condemned)] {
            let set = set(replicas, &policy(when_scaled, when_deleted));
            let right: Vec<_> = right.into_iter().collect();
            let what = format!("{when_scaled} {when_deleted} {replicas}");
            assert_eq!(
                decided_owners(&set, right.clone()).0,
                None,
                "{what}: right already"
            );
            for wrong in [
                vec![],
                vec![ours()],
                vec![pod_reference(1)],
                vec![pod_reference(1), ours()],
            ] {
                let expected = (wrong != right).then(|| right.clone());
                assert_eq!(
                    decided_owners(&set, wrong.clone()).0,
                    expected,
                    "{what}: {wrong:?}"
                );
            }
        }
    }
}

#[test]
fn an_owner_of_ours_that_is_no_controller_becomes_one_and_others_are_kept_in_their_place() {
    let set = set(2, &policy("Retain", "Delete"));
    let other = reference("ConfigMap", "c", "u", false);
    let weak = reference("StatefulSet", "web", "set-uid", false);
    assert_eq!(
        decided_owners(&set, vec![weak, other.clone()]).0,
        Some(vec![other, ours()])
    );
}

#[test]
fn a_claim_of_an_earlier_set_or_pod_is_left_alone() {
    for stale in [
        reference("StatefulSet", "web", "earlier", true),
        reference("Pod", "web-1", "earlier", true),
    ] {
        for (scaled, deleted) in [("Retain", "Retain"), ("Delete", "Delete")] {
            let set = set(2, &policy(scaled, deleted));
            assert_eq!(decided_owners(&set, vec![stale.clone()]).0, None);
        }
    }
}

#[test]
fn a_claim_that_somebody_else_controls_is_left_to_them_with_an_event() {
    let other = reference("Database", "db", "u", true);
    let kept = set(2, &policy("Retain", "Retain"));
    assert_eq!(decided_owners(&kept, vec![other.clone()]).0, None);
    let deleting = set(2, &policy("Retain", "Delete"));
    assert_eq!(decided_owners(&deleting, vec![other.clone()]).0, None);
    let (owners, plan) = decided_owners(&deleting, vec![other.clone(), ours()]);
    assert_eq!(owners, Some(vec![other]));
    assert_eq!(plan.events[0].reason, "ConflictingController");
}

#[test]
fn a_pod_waits_until_the_claim_of_its_predecessor_has_gone_whatever_the_policy_says_by_now() {
    let waiting = |when_scaled: &str| {
        let set = set(2, &policy(when_scaled, "Retain"));
        let mut world = world(&set, vec![pod(&set, 0)]);
        let claim = Claim {
            owners: vec![reference("Pod", "web-1", "earlier", true)],
            ..claim(&set, 1)
        };
        world.claims.insert(claim.name.clone(), Arc::new(claim));
        (steps(&world), plan(&world).awaited_claims)
    };
    assert_eq!(waiting("Delete"), (vec![], vec!["data-web-1".to_owned()]));
    assert_eq!(waiting("Retain"), (vec![], vec!["data-web-1".to_owned()]));
}

#[test]
fn a_claim_on_its_way_out_is_waited_for() {
    let set = set(2, &policy("Retain", "Retain"));
    let mut world = world(&set, vec![pod(&set, 0)]);
    let leaving = Claim {
        is_terminating: true,
        ..claim(&set, 1)
    };
    world.claims.insert(leaving.name.clone(), Arc::new(leaving));
    let plan = plan(&world);
    assert_eq!(plan.awaited_claims, ["data-web-1"]);
    let Some(Step::CreatePod { claims, .. }) = plan.steps().next() else {
        panic!("{plan:?}");
    };
    assert_eq!(
        claims,
        &[ClaimStep::Await {
            name: "data-web-1".into()
        }]
    );
}
