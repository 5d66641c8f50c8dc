//! The federated DeploymentGrid of `crates/api/fixtures/seeds`, and the same for all three kinds.

use anyhow::Result;
use edgegrid_api::names::{MEMBER_LEASE, condition, label, parent_secret};
use serde_json::{Value, json};

use crate::stage::*;

/// The manifest of the seed, word for word.
const DEMO: &str = include_str!("../../../api/fixtures/seeds/001-deploymentgrid-federated.yaml");
const GRID: (&str, &str) = ("default", "deploymentgrid-demo");

fn demo() -> Value {
    serde_saphyr::from_str(DEMO).unwrap()
}

async fn three() -> Result<(Site, Member, Member)> {
    let control = Site::control().await?;
    let a = Member::registered(&control, "a").await?;
    let b = Member::registered(&control, "b").await?;
    a.site.add_nodes(&["a-1 zone=zone1"]).await?;
    b.site.add_nodes(&["b-1"]).await?;
    Ok((control, a, b))
}

#[tokio::test(start_paused = true)]
async fn the_seeds_example() {
    let (control, a, b) = three().await.unwrap();
    control
        .create(DEPLOYMENT_GRID, GRID, &demo())
        .await
        .unwrap();

    let zone1 = (DEPLOYMENT, ("default", "deploymentgrid-demo-zone1"));
    let replicas = |deployment: &Value| deployment["spec"]["replicas"].as_i64();
    a.site.until(zone1, Some(2), replicas).await.unwrap();
    let b_copy = (DEPLOYMENT_GRID, (b.namespace.as_str(), GRID.1));
    let b_reason =
        |copy: &Value| condition_of(copy, condition::IN_STEP).map(|found| found["reason"].clone());
    control
        .until(b_copy, Some(json!("NoUnits")), b_reason)
        .await
        .unwrap();
    assert!(b.site.all(DEPLOYMENT).await.unwrap().is_empty());
    assert_eq!(
        b.site.all(DEPLOYMENT_GRID).await.unwrap(),
        ["clusternet-system/deploymentgrid-demo"]
    );

    // A hand edit in A is put back, of the workload and of the grid.
    let edit = json!({ "spec": { "replicas": 7 } });
    a.site.edit(DEPLOYMENT, zone1.1, &edit).await.unwrap();
    a.site.until(zone1, Some(2), replicas).await.unwrap();
    let edit = json!({ "spec": { "templatePool": { "test1": { "replicas": 9 } }, "templates": { "zone9": "test2" } } });
    a.site.edit(DEPLOYMENT_GRID, GRID, &edit).await.unwrap();
    let original = control.read(DEPLOYMENT_GRID, GRID).await.unwrap();
    let local = a
        .site
        .until((DEPLOYMENT_GRID, GRID), Some(2), |grid| {
            grid["spec"]["templatePool"]["test1"]["replicas"].as_i64()
        })
        .await
        .unwrap();
    assert_eq!(local["spec"]["templates"], original["spec"]["templates"]);

    b.site
        .label_node("b-1", "zone", Some("zone2"))
        .await
        .unwrap();
    let zone2 = (DEPLOYMENT, ("default", "deploymentgrid-demo-zone2"));
    b.site.until(zone2, Some(3), replicas).await.unwrap();

    a.site.roll_out().await.unwrap();
    b.site.roll_out().await.unwrap();
    let states = |grid: &Value| {
        let of = |unit: &str| {
            let state = &grid["status"]["states"][unit];
            (
                state["replicas"].as_i64(),
                state["readyReplicas"].as_i64(),
                state["conditions"][0]["type"].clone(),
            )
        };
        (units(grid), of("zone1"), of("zone2"))
    };
    let wanted = (
        vec!["zone1".to_owned(), "zone2".to_owned()],
        (Some(2), Some(2), json!("Available")),
        (Some(3), Some(3), json!("Available")),
    );
    let grid = control
        .until((DEPLOYMENT_GRID, GRID), wanted, states)
        .await
        .unwrap();
    assert_eq!(grid["status"]["ready"], "2/2");
    assert_eq!(
        grid["status"]["members"],
        json!({ "total": 2, "inStep": 2 })
    );
    control
        .condition(DEPLOYMENT_GRID, GRID, (condition::READY, "True"))
        .await
        .unwrap();
    assert!(control.all(DEPLOYMENT).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn grids_of_all_kinds_reach_members_change_there_and_go() {
    let (control, a, b) = three().await.unwrap();
    for kind in GRIDS {
        control
            .create(kind, ("default", "echo"), &federated(kind, 80))
            .await
            .unwrap();
    }
    for kind in GRIDS {
        a.site
            .exists(kind, ("default", "echo"), true)
            .await
            .unwrap();
    }
    for (kind, name) in [
        (DEPLOYMENT, "echo-zone1"),
        (STATEFUL_SET, "echo-zone1"),
        (SERVICE, "echo-svc"),
    ] {
        a.site.exists(kind, ("default", name), true).await.unwrap();
        assert!(
            b.site
                .find(kind, ("default", name))
                .await
                .unwrap()
                .is_none()
        );
    }
    for kind in GRIDS {
        control
            .edit(
                kind,
                ("default", "echo"),
                &json!({ "spec": spec(kind, 81) }),
            )
            .await
            .unwrap();
        let number = |grid: &Value| {
            let template = &grid["spec"]["template"];
            template["replicas"]
                .as_i64()
                .or(template["ports"][0]["port"].as_i64())
        };
        a.site
            .until((kind, ("default", "echo")), Some(81), number)
            .await
            .unwrap();
        control
            .condition(kind, ("default", "echo"), (condition::IN_STEP, "True"))
            .await
            .unwrap();
    }
    for kind in GRIDS {
        control.delete(kind, ("default", "echo")).await.unwrap();
        control
            .exists(kind, ("default", "echo"), false)
            .await
            .unwrap();
        assert_eq!(a.site.all(kind).await.unwrap(), Vec::<String>::new());
        assert_eq!(control.all(kind).await.unwrap(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn when_unreachable_reaches_the_pods_of_members() {
    let (control, a, _b) = three().await.unwrap();
    for (kind, workloads) in [
        (DEPLOYMENT_GRID, DEPLOYMENT),
        (STATEFUL_SET_GRID, STATEFUL_SET),
    ] {
        let grid = ("default", "echo");
        let object = federated(kind, 1);
        control.create(kind, grid, &object).await.unwrap();
        let echo = (workloads, ("default", "echo-zone1"));
        let toleration = |workload: &Value| {
            let tolerations = &workload["spec"]["template"]["spec"]["tolerations"];
            tolerations[0]["key"].as_str().map(str::to_owned)
        };
        a.site.until(echo, None, toleration).await.unwrap();
        let keep = json!({ "spec": { "whenUnreachable": "Keep" } });
        control.edit(kind, grid, &keep).await.unwrap();
        let unreachable = Some("node.kubernetes.io/unreachable".to_owned());
        a.site.until(echo, unreachable, toleration).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_is_in_contact_through_a_lease_that_the_control_cluster_makes() {
    let (control, a, _b) = three().await.unwrap();
    control
        .exists(LEASE, (&a.namespace, MEMBER_LEASE), true)
        .await
        .unwrap();
    control
        .until(
            (LEASE, (a.namespace.as_str(), MEMBER_LEASE)),
            true,
            |lease| lease["spec"]["renewTime"].is_string(),
        )
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_target_namespace_is_made_and_two_grids_of_one_name_both_arrive() {
    let (control, a, _b) = three().await.unwrap();
    control
        .create(NAMESPACE, ("", "shop"), &json!({}))
        .await
        .unwrap();
    for namespace in ["default", "shop"] {
        let grid = federated(DEPLOYMENT_GRID, 1);
        control
            .create(DEPLOYMENT_GRID, (namespace, "echo"), &grid)
            .await
            .unwrap();
    }
    for namespace in ["default", "shop"] {
        a.site
            .exists(DEPLOYMENT, (namespace, "echo-zone1"), true)
            .await
            .unwrap();
    }
    for namespace in ["default", "shop"] {
        control
            .delete(DEPLOYMENT_GRID, (namespace, "echo"))
            .await
            .unwrap();
        control
            .exists(DEPLOYMENT_GRID, (namespace, "echo"), false)
            .await
            .unwrap();
        a.site
            .exists(DEPLOYMENT_GRID, (namespace, "echo"), false)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_carries_the_labels_of_superedge_and_no_owner() {
    let (control, a, _b) = three().await.unwrap();
    control
        .create(DEPLOYMENT_GRID, GRID, &demo())
        .await
        .unwrap();
    let copy = (DEPLOYMENT_GRID, (a.namespace.as_str(), GRID.1));
    control.exists(copy.0, copy.1, true).await.unwrap();
    let copy = control.read(copy.0, copy.1).await.unwrap();
    let labels = &copy["metadata"]["labels"];
    assert_eq!(labels[label::DISTRIBUTED], "yes");
    assert_eq!(labels[label::TARGET_NAMESPACE], "default");
    assert_eq!(copy["metadata"]["finalizers"], json!(["dis"]));
    assert!(copy["metadata"].get("ownerReferences").is_none());
    a.site.exists(DEPLOYMENT_GRID, GRID, true).await.unwrap();
    let local = a.site.read(DEPLOYMENT_GRID, GRID).await.unwrap();
    assert!(
        local["metadata"]["labels"]
            .get(label::DISTRIBUTED)
            .is_none()
    );
    assert_eq!(
        local["metadata"]["labels"][label::TARGET_NAMESPACE],
        "default"
    );
    a.site
        .exists(DEPLOYMENT_GRID, (parent_secret::NAMESPACE, GRID.1), true)
        .await
        .unwrap();
}
