//! Edits by hand on either side, and units that come and go.

use std::time::Duration;

use edgegrid_api::names::{annotation, condition, label, parent_secret, reason};
use serde_json::{Value, json};

use crate::stage::*;

const GRID: (&str, &str) = ("default", "echo");

async fn one_member() -> (Site, Member) {
    let control = Site::control().await.unwrap();
    let a = Member::registered(&control, "a").await.unwrap();
    a.site.add_nodes(&["a-1 zone=zone1"]).await.unwrap();
    for kind in GRIDS {
        control
            .create(kind, GRID, &federated(kind, 1))
            .await
            .unwrap();
        a.site.exists(kind, GRID, true).await.unwrap();
    }
    (control, a)
}

fn replicas(grid: &Value) -> Option<i64> {
    let template = &grid["spec"]["template"];
    template["replicas"]
        .as_i64()
        .or(template["ports"][0]["port"].as_i64())
}

#[tokio::test(start_paused = true)]
async fn a_hand_edit_is_put_back_wherever_it_is_made() {
    let (control, a) = one_member().await;
    let change = json!({ "spec": { "template": { "replicas": 9, "ports": [{ "port": 9, "protocol": "TCP" }] } } });
    for kind in GRIDS {
        let copy = (kind, (a.namespace.as_str(), GRID.1));
        let mirror = (kind, (parent_secret::NAMESPACE, GRID.1));
        control.edit(kind, copy.1, &change).await.unwrap();
        control.until(copy, Some(1), replicas).await.unwrap();
        for local in [mirror, (kind, GRID)] {
            a.site.edit(kind, local.1, &change).await.unwrap();
            a.site.until(local, Some(1), replicas).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_added_or_deleted_by_hand_in_a_member_is_put_right() {
    let (_control, a) = one_member().await;
    let before = a.site.read(DEPLOYMENT_GRID, GRID).await.unwrap();
    let more = json!({ "spec": { "template": { "paused": true } }, "metadata": { "labels": { label::DISTRIBUTED: "yes", label::FEDERATE: null } } });
    a.site.edit(DEPLOYMENT_GRID, GRID, &more).await.unwrap();
    let wanted = (before["spec"].clone(), before["metadata"]["labels"].clone());
    let seen = |grid: &Value| (grid["spec"].clone(), grid["metadata"]["labels"].clone());
    a.site
        .until((DEPLOYMENT_GRID, GRID), wanted, seen)
        .await
        .unwrap();
    for kind in GRIDS {
        let uid = a.site.read(kind, GRID).await.unwrap()["metadata"]["uid"].clone();
        a.site.delete(kind, GRID).await.unwrap();
        let is_new = |grid: &Value| grid["metadata"]["uid"] != uid;
        a.site.until((kind, GRID), true, is_new).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_deleted_by_hand_comes_back_and_takes_nothing_with_it() {
    let (control, a) = one_member().await;
    for kind in GRIDS {
        let uid = a.site.read(kind, GRID).await.unwrap()["metadata"]["uid"].clone();
        let copy = (a.namespace.as_str(), GRID.1);
        let old = control.read(kind, copy).await.unwrap()["metadata"]["uid"].clone();
        control.delete(kind, copy).await.unwrap();
        let is_new = |grid: &Value| grid["metadata"]["uid"] != old;
        control.until((kind, copy), true, is_new).await.unwrap();
        a_while().await;
        let local = a.site.read(kind, GRID).await.unwrap();
        assert_eq!(local["metadata"]["uid"], uid);
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_loses_the_label_loses_the_grid_and_gets_it_again_with_the_label() {
    let (_control, a) = one_member().await;
    a.site.label_node("a-1", "zone", None).await.unwrap();
    for kind in GRIDS {
        a.site.exists(kind, GRID, false).await.unwrap();
    }
    a.site
        .label_node("a-1", "zone", Some("zone7"))
        .await
        .unwrap();
    for kind in GRIDS {
        a.site.exists(kind, GRID, true).await.unwrap();
    }
    a.site
        .exists(DEPLOYMENT, ("default", "echo-zone7"), true)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_last_node_was_deleted_keeps_the_grid_for_the_grace_period() {
    let (_control, a) = one_member().await;
    a.site.delete(NODE, ("", "a-1")).await.unwrap();
    for kind in GRIDS {
        let is_marked =
            |grid: &Value| grid["metadata"]["annotations"][annotation::UNIT_GONE_SINCE].is_string();
        a.site.until((kind, GRID), true, is_marked).await.unwrap();
    }
    tokio::time::sleep(Duration::from_mins(3)).await;
    for kind in GRIDS {
        assert!(a.site.find(kind, GRID).await.unwrap().is_some());
    }
    tokio::time::sleep(Duration::from_mins(3)).await;
    for kind in GRIDS {
        a.site.exists(kind, GRID, false).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_an_earlier_departure_does_not_count_for_a_members_grid_either() {
    let (_control, mut a) = one_member().await;
    a.site.delete(NODE, ("", "a-1")).await.unwrap();
    for kind in GRIDS {
        let is_marked =
            |grid: &Value| grid["metadata"]["annotations"][annotation::UNIT_GONE_SINCE].is_string();
        a.site.until((kind, GRID), true, is_marked).await.unwrap();
    }
    a.site.running = None; // killed: the marks stay
    let back = json!({ "metadata": { "labels": { "zone": "zone1" } } });
    a.site.create(NODE, ("", "a-1"), &back).await.unwrap();
    tokio::time::sleep(Duration::from_mins(10)).await;
    a.site.delete(NODE, ("", "a-1")).await.unwrap();
    a.site.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(290)).await;
    for kind in GRIDS {
        assert!(a.site.find(kind, GRID).await.unwrap().is_some(), "{kind:?}");
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    for kind in GRIDS {
        assert_eq!(a.site.find(kind, GRID).await.unwrap(), None);
    }
}

/// Deleting the grid would delete its sets, and these their claims.
#[tokio::test(start_paused = true)]
async fn a_members_grid_waits_while_one_of_its_sets_would_take_claims_along() {
    for is_deleted in [true, false] {
        let (control, a) = one_member().await;
        let change = json!({ "spec": { "template": { "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" } } } });
        control
            .edit(STATEFUL_SET_GRID, GRID, &change)
            .await
            .unwrap();
        let set = (STATEFUL_SET, ("default", "echo-zone1"));
        let policy = |set: &Value| {
            let policy = &set["spec"]["persistentVolumeClaimRetentionPolicy"];
            policy["whenDeleted"].as_str().map(str::to_owned)
        };
        let delete = Some("Delete".to_owned());
        a.site.until(set, delete, policy).await.unwrap();
        if is_deleted {
            a.site.delete(NODE, ("", "a-1")).await.unwrap();
        } else {
            a.site.label_node("a-1", "zone", None).await.unwrap();
        }
        tokio::time::sleep(Duration::from_mins(10)).await;
        a.site.exists(DEPLOYMENT_GRID, GRID, false).await.unwrap();
        let held = (condition::REMOVAL_HELD, "True");
        let found = a.site.condition(STATEFUL_SET_GRID, GRID, held).await;
        let message = found.unwrap()["message"].to_string();
        assert!(message.contains("echo-zone1"), "{message}");
        let behind = |grid: &Value| grid["status"]["members"]["behind"][0]["reason"].clone();
        let reason = json!(reason::CLAIMS_WOULD_GO);
        let at = (STATEFUL_SET_GRID, GRID);
        control.until(at, reason, behind).await.unwrap();
        let running = a.site.running.as_ref().unwrap();
        running.writes.take();
        tokio::time::sleep(Duration::from_hours(6)).await;
        assert_eq!(running.writes.take(), Vec::<String>::new());
        assert!(a.site.find(set.0, set.1).await.unwrap().is_some());
        // By hand, or with the original.
        if is_deleted {
            // As with --cascade=orphan: it is there until its claims are their own.
            let finalizers = |all: &Value| json!({ "metadata": { "finalizers": all } });
            let orphan = finalizers(&json!(["orphan"]));
            a.site.edit(set.0, set.1, &orphan).await.unwrap();
            a.site.delete(set.0, set.1).await.unwrap();
            tokio::time::sleep(Duration::from_mins(1)).await;
            let grid = a.site.find(STATEFUL_SET_GRID, GRID).await.unwrap();
            assert!(grid.is_some(), "it waits until the set is gone");
            let none = finalizers(&Value::Null);
            a.site.edit(set.0, set.1, &none).await.unwrap();
        } else {
            control.delete(STATEFUL_SET_GRID, GRID).await.unwrap();
        }
        a.site.exists(STATEFUL_SET_GRID, GRID, false).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn labels_of_federation_taken_off_by_hand_come_back() {
    let (control, a) = one_member().await;
    let bare =
        json!({ "metadata": { "labels": { label::ORIGIN: null, label::TARGET_NAMESPACE: null } } });
    for kind in GRIDS {
        let labels = |grid: &Value| grid["metadata"]["labels"][label::ORIGIN].is_string();
        a.site.edit(kind, GRID, &bare).await.unwrap();
        a.site.until((kind, GRID), true, labels).await.unwrap();
        let mirror = (parent_secret::NAMESPACE, GRID.1);
        let change =
            json!({ "metadata": { "labels": { label::DISTRIBUTED: null, label::ORIGIN: null } } });
        a.site.edit(kind, mirror, &change).await.unwrap();
        a.site.until((kind, mirror), true, labels).await.unwrap();
        let copy = (a.namespace.as_str(), GRID.1);
        control.edit(kind, copy, &change).await.unwrap();
        control.until((kind, copy), true, labels).await.unwrap();
        assert!(a.site.find(kind, GRID).await.unwrap().is_some());
    }
}
