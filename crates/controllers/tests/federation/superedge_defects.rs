//! What SuperEdge's federation does wrong (`docs/superedge-defects.md`), each as the rule that it breaks.

use edgegrid_api::names::{condition, finalizer, label};
use serde_json::{Value, json};

use crate::stage::*;

const GRID: (&str, &str) = ("default", "echo");

async fn one_member() -> (Site, Member) {
    let control = Site::control().await.unwrap();
    let a = Member::registered(&control, "a").await.unwrap();
    a.site.add_nodes(&["a-1 zone=zone1"]).await.unwrap();
    (control, a)
}

/// In SuperEdge a copy had an owner in another namespace, and was a grid in the control cluster itself.
#[tokio::test(start_paused = true)]
async fn a_copy_has_no_owner_elsewhere_and_stamps_nothing_in_the_control_cluster() {
    let (control, a) = one_member().await;
    control.add_nodes(&["c-1 zone=cloud"]).await.unwrap();
    for kind in GRIDS {
        control
            .create(kind, GRID, &federated(kind, 2))
            .await
            .unwrap();
        a.site.exists(kind, GRID, true).await.unwrap();
        let copy = control.read(kind, (&a.namespace, GRID.1)).await.unwrap();
        assert!(copy["metadata"].get("ownerReferences").is_none());
    }
    control
        .exists(DEPLOYMENT, ("default", "echo-cloud"), true)
        .await
        .unwrap();
    a_while().await;
    for kind in [DEPLOYMENT, STATEFUL_SET, SERVICE] {
        let all = control.all(kind).await.unwrap();
        let strays: Vec<_> = all
            .iter()
            .filter(|name| name.starts_with(&a.namespace))
            .collect();
        assert!(strays.is_empty(), "{strays:?}");
    }
}

/// In SuperEdge a field that was removed, zero or false never reached a member.
#[tokio::test(start_paused = true)]
async fn scaling_to_zero_and_removing_fields_reach_the_member() {
    let (control, a) = one_member().await;
    let mut grid = federated(DEPLOYMENT_GRID, 3);
    grid["spec"]["templatePool"] = json!({ "test1": grid["spec"]["template"] });
    grid["spec"]["templates"] = json!({ "zone1": "test1", "zone2": "default" });
    grid["spec"]["autoDeleteUnusedTemplate"] = json!(true);
    control.create(DEPLOYMENT_GRID, GRID, &grid).await.unwrap();
    a.site
        .exists(DEPLOYMENT, ("default", "echo-zone1"), true)
        .await
        .unwrap();
    let change = json!({ "spec": {
        "template": { "replicas": 0 }, "templates": null, "templatePool": null, "autoDeleteUnusedTemplate": false,
    } });
    control.edit(DEPLOYMENT_GRID, GRID, &change).await.unwrap();
    let replicas = |found: &Value| found["spec"]["replicas"].as_i64();
    a.site
        .until((DEPLOYMENT, ("default", "echo-zone1")), Some(0), replicas)
        .await
        .unwrap();
    let local = a.site.read(DEPLOYMENT_GRID, GRID).await.unwrap();
    for gone in ["templates", "templatePool"] {
        assert!(local["spec"].get(gone).is_none(), "{local:#}");
    }
    assert_ne!(local["spec"]["autoDeleteUnusedTemplate"], true);
}

/// In SuperEdge a copy of a grid that the member never had stayed `Terminating`.
#[tokio::test(start_paused = true)]
async fn a_copy_goes_though_the_member_never_had_the_grid_and_others_finalizers_stay() {
    let (control, b) = one_member().await;
    b.site.label_node("a-1", "zone", None).await.unwrap();
    control
        .create(DEPLOYMENT_GRID, GRID, &federated(DEPLOYMENT_GRID, 1))
        .await
        .unwrap();
    let copy = (b.namespace.as_str(), GRID.1);
    control.exists(DEPLOYMENT_GRID, copy, true).await.unwrap();
    let foreign =
        json!({ "metadata": { "finalizers": [finalizer::DISTRIBUTED, "example.com/other"] } });
    control.edit(DEPLOYMENT_GRID, copy, &foreign).await.unwrap();
    control.delete(DEPLOYMENT_GRID, GRID).await.unwrap();
    let finalizers = |copy: &Value| copy["metadata"]["finalizers"].clone();
    control
        .until(
            (DEPLOYMENT_GRID, copy),
            json!(["example.com/other"]),
            finalizers,
        )
        .await
        .unwrap();
    let free = json!({ "metadata": { "finalizers": null } });
    control.edit(DEPLOYMENT_GRID, copy, &free).await.unwrap();
    control.exists(DEPLOYMENT_GRID, copy, false).await.unwrap();
    control.exists(DEPLOYMENT_GRID, GRID, false).await.unwrap();
}

/// In SuperEdge a copy outlived the label of its original.
#[tokio::test(start_paused = true)]
async fn copies_go_with_the_label_and_the_members_grids_with_them() {
    let (control, a) = one_member().await;
    for kind in GRIDS {
        control
            .create(kind, GRID, &federated(kind, 1))
            .await
            .unwrap();
        a.site.exists(kind, GRID, true).await.unwrap();
        let change = json!({ "metadata": { "labels": { label::FEDERATE: null } } });
        control.edit(kind, GRID, &change).await.unwrap();
        control
            .exists(kind, (&a.namespace, GRID.1), false)
            .await
            .unwrap();
        a.site.exists(kind, GRID, false).await.unwrap();
        let free = |grid: &Value| grid["metadata"].get("finalizers").is_none();
        control.until((kind, GRID), true, free).await.unwrap();
    }
}

/// In SuperEdge the last cluster that reported a unit name won.
#[tokio::test(start_paused = true)]
async fn equal_unit_names_of_two_clusters_are_both_kept() {
    let (control, a) = one_member().await;
    let b = Member::registered(&control, "b").await.unwrap();
    b.site
        .add_nodes(&["b-1 zone=zone1", "b-2 zone=zone2"])
        .await
        .unwrap();
    control.add_nodes(&["c-1 zone=zone2"]).await.unwrap();
    control
        .create(DEPLOYMENT_GRID, GRID, &federated(DEPLOYMENT_GRID, 2))
        .await
        .unwrap();
    for (site, name) in [
        (&a.site, "echo-zone1"),
        (&b.site, "echo-zone2"),
        (&control, "echo-zone2"),
    ] {
        site.exists(DEPLOYMENT, ("default", name), true)
            .await
            .unwrap();
        site.roll_out().await.unwrap();
    }
    let wanted: Vec<String> = ["a/zone1", "b/zone1", "b/zone2", "control/zone2"]
        .map(str::to_owned)
        .into();
    let grid = control
        .until((DEPLOYMENT_GRID, GRID), wanted, units)
        .await
        .unwrap();
    assert_eq!(grid["status"]["units"], 4);
    control
        .condition(
            DEPLOYMENT_GRID,
            GRID,
            (condition::UNIT_NAMES_SHARED, "True"),
        )
        .await
        .unwrap();
    control
        .condition(DEPLOYMENT_GRID, GRID, (condition::READY, "True"))
        .await
        .unwrap();
    // And it stays so: no cluster writes over another.
    a_while().await;
    let later = control.read(DEPLOYMENT_GRID, GRID).await.unwrap();
    assert_eq!(units(&later).len(), 4);
}

/// SuperEdge read the Secret of the control cluster once, at its start.
#[tokio::test(start_paused = true)]
async fn a_late_registration_and_a_new_token_need_no_restart() {
    let control = Site::control().await.unwrap();
    let a = Member::unregistered(&control, "a").await.unwrap();
    a.site.add_nodes(&["a-1 zone=zone1"]).await.unwrap();
    control
        .create(STATEFUL_SET_GRID, GRID, &federated(STATEFUL_SET_GRID, 1))
        .await
        .unwrap();
    a_while().await;
    a.register(&control, "a").await.unwrap();
    a.site
        .exists(STATEFUL_SET, ("default", "echo-zone1"), true)
        .await
        .unwrap();

    "second".clone_into(&mut a.token.lock().unwrap());
    a.cut();
    let change = json!({ "spec": { "template": { "replicas": 5 } } });
    control
        .edit(STATEFUL_SET_GRID, GRID, &change)
        .await
        .unwrap();
    a_while().await;
    a.link.restore();
    let secret = ("clusternet-system", "parent-cluster");
    a.site
        .edit(SECRET, secret, &a.secret("second"))
        .await
        .unwrap();
    let replicas = |set: &Value| set["spec"]["replicas"].as_i64();
    let set = (STATEFUL_SET, ("default", "echo-zone1"));
    a.site.until(set, Some(5), replicas).await.unwrap();
}

/// SuperEdge wrote over any grid of the same name in a member's namespace.
#[tokio::test(start_paused = true)]
async fn foreign_objects_of_the_same_name_are_left_alone_in_both_clusters() {
    for kind in GRIDS {
        let (control, a) = one_member().await;
        let own = json!({ "spec": spec(kind, 9) });
        for name in [
            "echo",
            &edgegrid_plan::federation::copies::second_name(&("default".into(), "echo".into())),
        ] {
            control
                .create(kind, (&a.namespace, name), &own)
                .await
                .unwrap();
        }
        control
            .create(kind, GRID, &federated(kind, 1))
            .await
            .unwrap();
        let reason = |grid: &Value| grid["status"]["members"]["behind"][0]["reason"].clone();
        control
            .until((kind, GRID), json!("NameTaken"), reason)
            .await
            .unwrap();
        let foreign = control.read(kind, (&a.namespace, "echo")).await.unwrap();
        assert_eq!(foreign["spec"]["template"], own["spec"]["template"]);

        a.site
            .create(kind, ("default", "other"), &own)
            .await
            .unwrap();
        control
            .create(kind, ("default", "other"), &federated(kind, 1))
            .await
            .unwrap();
        control
            .until((kind, ("default", "other")), json!("NameTaken"), reason)
            .await
            .unwrap();
        let foreign = a.site.read(kind, ("default", "other")).await.unwrap();
        assert_eq!(foreign["spec"]["template"], own["spec"]["template"]);
        control.delete(kind, ("default", "other")).await.unwrap();
        control
            .exists(kind, ("default", "other"), false)
            .await
            .unwrap();
        assert!(
            a.site
                .find(kind, ("default", "other"))
                .await
                .unwrap()
                .is_some()
        );
    }
}

/// SuperEdge changed objects of its cache in place. Here a second look decides as the first did.
#[tokio::test(start_paused = true)]
async fn a_settled_federation_writes_nothing() {
    let (control, a) = one_member().await;
    for kind in GRIDS {
        control
            .create(kind, GRID, &federated(kind, 1))
            .await
            .unwrap();
        a.site.exists(kind, GRID, true).await.unwrap();
    }
    for _ in 0..4 {
        a.site.roll_out().await.unwrap();
        a_while().await;
    }
    let of = |site: &Site| site.running.as_ref().unwrap().writes.take();
    of(&control);
    of(&a.site);
    for _ in 0..24 {
        a_while().await;
    }
    assert_eq!(of(&control), Vec::<String>::new());
    assert_eq!(of(&a.site), Vec::<String>::new());
}
