//! Members that leave: their copies go, what runs in them stays.

use edgegrid_api::names::label;
use edgegrid_testkit::eventually;
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

async fn namespace_goes(control: &Site, member: &Member) {
    control
        .delete(NAMESPACE, ("", &member.namespace))
        .await
        .unwrap();
    eventually("the namespace is gone", async || {
        control.empty_namespaces().await?;
        anyhow::ensure!(
            control
                .find(NAMESPACE, ("", &member.namespace))
                .await?
                .is_none(),
            "still there"
        );
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_deleted_goes_with_its_copies_and_the_member_keeps_its_grids() {
    let (control, a) = one_member().await;
    namespace_goes(&control, &a).await;
    a_while().await;
    for kind in GRIDS {
        assert!(a.site.find(kind, GRID).await.unwrap().is_some());
        control.delete(kind, GRID).await.unwrap();
        control.exists(kind, GRID, false).await.unwrap();
    }
    for kind in GRIDS {
        assert!(a.site.find(kind, GRID).await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_no_longer_a_members_loses_its_copies_alone() {
    let (control, a) = one_member().await;
    let change = json!({ "metadata": { "labels": { label::CLUSTER_ID: null } } });
    control
        .edit(NAMESPACE, ("", &a.namespace), &change)
        .await
        .unwrap();
    for kind in GRIDS {
        control
            .exists(kind, (&a.namespace, GRID.1), false)
            .await
            .unwrap();
        assert!(a.site.find(kind, GRID).await.unwrap().is_some());
    }
}

/// What `edgegrid leave --force` does for a member that never comes back.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_waits_for_a_lost_member_ends_when_its_namespace_goes() {
    let (control, a) = one_member().await;
    a.cut();
    for kind in GRIDS {
        control.delete(kind, GRID).await.unwrap();
    }
    a_while().await;
    for kind in GRIDS {
        assert!(control.find(kind, GRID).await.unwrap().is_some());
    }
    namespace_goes(&control, &a).await;
    for kind in GRIDS {
        control.exists(kind, GRID, false).await.unwrap();
        assert!(a.site.find(kind, GRID).await.unwrap().is_some());
    }
}

/// The same for a grid that is no longer sent: nothing of it changes when the namespace goes.
#[tokio::test(start_paused = true)]
async fn a_label_taken_off_while_a_member_is_lost_leaves_nothing_behind_when_its_namespace_goes() {
    let (control, a) = one_member().await;
    a.cut();
    for kind in GRIDS {
        let change = json!({ "metadata": { "labels": { label::FEDERATE: null } } });
        control.edit(kind, GRID, &change).await.unwrap();
    }
    a_while().await;
    namespace_goes(&control, &a).await;
    for kind in GRIDS {
        let finalizers = |grid: &Value| grid["metadata"]["finalizers"].is_array();
        control
            .until((kind, GRID), false, finalizers)
            .await
            .unwrap();
        assert!(a.site.find(kind, GRID).await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_joins_again_takes_up_what_it_has() {
    let (control, a) = one_member().await;
    let mut uids = Vec::new();
    for kind in GRIDS {
        uids.push(a.site.read(kind, GRID).await.unwrap()["metadata"]["uid"].clone());
    }
    namespace_goes(&control, &a).await;
    let labels = json!({ "metadata": { "labels": { label::CLUSTER_ID: "again" } } });
    control
        .create(NAMESPACE, ("", &a.namespace), &labels)
        .await
        .unwrap();
    for (kind, uid) in GRIDS.into_iter().zip(uids) {
        control
            .edit(kind, GRID, &json!({ "spec": spec(kind, 5) }))
            .await
            .unwrap();
        let seen = |grid: &Value| {
            let template = &grid["spec"]["template"];
            template["replicas"]
                .as_i64()
                .or(template["ports"][0]["port"].as_i64())
        };
        let grid = a.site.until((kind, GRID), Some(5), seen).await.unwrap();
        assert_eq!(grid["metadata"]["uid"], uid);
    }
}

#[tokio::test(start_paused = true)]
async fn an_original_that_was_torn_away_takes_its_copies_and_the_members_grids_with_it() {
    let (control, a) = one_member().await;
    for kind in GRIDS {
        control.delete(kind, GRID).await.unwrap();
        let torn = json!({ "metadata": { "finalizers": null } });
        drop(control.edit(kind, GRID, &torn).await);
        control
            .exists(kind, (&a.namespace, GRID.1), false)
            .await
            .unwrap();
        a.site.exists(kind, GRID, false).await.unwrap();
    }
}
