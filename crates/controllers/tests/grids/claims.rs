//! Nothing is written to an object that is not ours.

use std::time::Duration;

use anyhow::Result;
use edgegrid_api::names::{condition, label, reason};
use edgegrid_testkit::Cluster;
use edgegrid_testkit::faults::Fault;
use serde_json::{Value, json};

use crate::harness;
use crate::stage::*;

const IMAGE: &str = "superedge/echoserver:2.2";

async fn two_zones() -> Result<Cluster> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["a-1 zone=a", "b-1 zone=b"]).await?;
    Ok(cluster)
}

fn foreign_deployment() -> Value {
    json!({ "metadata": { "labels": { "owner": "somebody" } }, "spec": {
        "replicas": 7,
        "selector": { "matchLabels": { "app": "theirs" } },
        "template": {
            "metadata": { "labels": { "app": "theirs" } },
            "spec": { "containers": [{ "name": "main", "image": "theirs:1" }] },
        },
    } })
}

/// A forced apply would change it, make us its controller, and garbage collection might delete it.
#[tokio::test(start_paused = true)]
async fn a_foreign_deployment_of_a_wanted_name_stays_as_it_is() -> Result<()> {
    for replicas in [Some(2), None] {
        let cluster = two_zones().await?;
        let stage = Stage(&cluster);
        let before = stage
            .create(DEPLOYMENT, "web-a", &foreign_deployment())
            .await?;
        let _running = harness::start(&cluster).await?;
        stage
            .create(
                DEPLOYMENT_GRID,
                "web",
                &grid("zone", &deployment_spec(IMAGE, replicas)),
            )
            .await?;
        let taken = stage
            .condition(DEPLOYMENT_GRID, "web", condition::NAME_TAKEN, "True")
            .await?;
        assert!(
            taken["message"]
                .as_str()
                .unwrap()
                .contains("Deployment default/web-a"),
            "{taken}"
        );
        stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
        stage.delete(DEPLOYMENT_GRID, "web").await?;
        pass_time(Duration::from_mins(10)).await;
        assert_eq!(stage.read(DEPLOYMENT, "web-a").await?, before);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_is_reported_once_and_taken_when_it_becomes_free() -> Result<()> {
    let cluster = two_zones().await?;
    let stage = Stage(&cluster);
    stage
        .create(DEPLOYMENT, "web-a", &foreign_deployment())
        .await?;
    let running = harness::start(&cluster).await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid("zone", &deployment_spec(IMAGE, None)),
        )
        .await?;
    stage
        .condition(DEPLOYMENT_GRID, "web", condition::NAME_TAKEN, "True")
        .await?;
    running.requests.take();
    pass_time(Duration::from_mins(10)).await;
    let looks = running.requests.take();
    assert!(looks.len() <= 11, "one look a minute: {looks:#?}");
    assert_eq!(stage.events("web", reason::NAME_TAKEN).await?.len(), 1);

    stage.delete(DEPLOYMENT, "web-a").await?;
    stage
        .until((DEPLOYMENT_GRID, "web"), None, |grid| {
            condition_of(grid, condition::NAME_TAKEN)
        })
        .await?;
    let ours = stage.read(DEPLOYMENT, "web-a").await?;
    assert!(is_labelled(&ours, "web", "zone"), "{ours:#}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_foreign_service_of_the_wanted_name_stays_as_it_is() -> Result<()> {
    let cluster = two_zones().await?;
    let stage = Stage(&cluster);
    let ports = json!([{ "port": 80, "targetPort": 8080, "protocol": "TCP" }]);
    // Even one that asks for the very same ports and pods.
    let theirs = json!({ "spec": { "selector": { "app": "web" }, "ports": ports } });
    let before = stage.create(SERVICE, "web-svc", &theirs).await?;
    let _running = harness::start(&cluster).await?;
    let template = json!({ "selector": { "app": "web" }, "ports": ports });
    stage
        .create(SERVICE_GRID, "web", &grid("zone", &template))
        .await?;
    stage
        .condition(SERVICE_GRID, "web", condition::NAME_TAKEN, "True")
        .await?;
    stage.delete(SERVICE_GRID, "web").await?;
    pass_time(Duration::from_mins(10)).await;
    assert_eq!(stage.read(SERVICE, "web-svc").await?, before);
    Ok(())
}

/// Absent names are applied without force, so that whoever came between our look and our write wins.
#[tokio::test(start_paused = true)]
async fn an_object_that_came_after_the_look_wins() -> Result<()> {
    let cluster = two_zones().await?;
    let stage = Stage(&cluster);
    let running = harness::start(&cluster).await?;
    let is_look = |method: &str, path: &str| {
        method == "GET"
            && path.contains("/namespaces/default/deployments")
            && !path.contains("watch=")
    };
    running
        .faults
        .inject(1, Fault::Lag(Duration::from_secs(5)), is_look);
    stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid("zone", &deployment_spec(IMAGE, Some(2))),
        )
        .await?;
    pass_time(Duration::from_secs(2)).await;
    let before = stage
        .create(DEPLOYMENT, "web-a", &foreign_deployment())
        .await?;
    assert_eq!(running.faults.pending(), 0, "the look is under way");

    stage
        .condition(DEPLOYMENT_GRID, "web", condition::NAME_TAKEN, "True")
        .await?;
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
    assert_eq!(stage.read(DEPLOYMENT, "web-a").await?, before);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_orphan_with_our_labels_and_a_wanted_name_is_adopted() -> Result<()> {
    let cluster = two_zones().await?;
    let stage = Stage(&cluster);
    let mut orphan = foreign_deployment();
    orphan["metadata"]["labels"] =
        json!({ label::GRID_SELECTOR: "web", label::GRID_UNIQ_KEY: "zone" });
    orphan["spec"] = deployment_spec("old:1", Some(5));
    let before = stage.create(DEPLOYMENT, "web-a", &orphan).await?;
    let _running = harness::start(&cluster).await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid("zone", &deployment_spec(IMAGE, None)),
        )
        .await?;
    let adopted = stage
        .until((DEPLOYMENT, "web-a"), IMAGE.to_owned(), image)
        .await?;
    assert_eq!(adopted["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["name"], "web");
    assert_eq!(
        adopted["spec"]["replicas"], 5,
        "nobody asked for another number"
    );
    assert_eq!(
        adopted["spec"]["selector"], before["spec"]["selector"],
        "an existing one keeps its selector"
    );
    Ok(())
}

/// In SuperEdge any stray Deployment with the label was adopted and deleted.
#[tokio::test(start_paused = true)]
async fn a_stray_object_that_merely_carries_our_labels_is_left_alone() -> Result<()> {
    let cluster = two_zones().await?;
    let stage = Stage(&cluster);
    let mut stray = foreign_deployment();
    stray["metadata"]["labels"] =
        json!({ label::GRID_SELECTOR: "web", label::GRID_UNIQ_KEY: "zone" });
    let before = stage.create(DEPLOYMENT, "stray", &stray).await?;
    let _running = harness::start(&cluster).await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid("zone", &deployment_spec(IMAGE, None)),
        )
        .await?;
    stage
        .children(DEPLOYMENT, &["stray", "web-a", "web-b"])
        .await?;
    pass_time(Duration::from_mins(10)).await;
    assert_eq!(stage.read(DEPLOYMENT, "stray").await?, before);
    Ok(())
}

/// SuperEdge deleted a child that lost the label.
#[tokio::test(start_paused = true)]
async fn an_owned_child_that_lost_our_label_is_recognised_and_repaired() -> Result<()> {
    let cluster = two_zones().await?;
    let stage = Stage(&cluster);
    let _running = harness::start(&cluster).await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid("zone", &deployment_spec(IMAGE, Some(1))),
        )
        .await?;
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
    for taken_off in [json!(null), json!("another-grid")] {
        let before = stage.read(DEPLOYMENT, "web-a").await?;
        let change = json!({ "metadata": { "labels": { label::GRID_SELECTOR: taken_off } } });
        stage.edit(DEPLOYMENT, "web-a", &change).await?;
        let after = stage
            .until((DEPLOYMENT, "web-a"), Some("web".to_owned()), |child| {
                label_of(child, label::GRID_SELECTOR)
            })
            .await?;
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(after["spec"], before["spec"]);
    }
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_grid_controls_under_no_wanted_name_is_deleted() -> Result<()> {
    let cluster = two_zones().await?;
    let stage = Stage(&cluster);
    let _running = harness::start(&cluster).await?;
    let grid = stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid("zone", &deployment_spec(IMAGE, None)),
        )
        .await?;
    let mut child = foreign_deployment();
    child["metadata"]["labels"] = json!({ label::GRID_SELECTOR: "web" });
    child["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "name": "web", "uid": grid["metadata"]["uid"], "controller": true,
    }]);
    stage.create(DEPLOYMENT, "oddly-named", &child).await?;
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await
}

/// A grid that is deleted and comes again under its name waits for the old one's objects to go.
#[tokio::test(start_paused = true)]
async fn a_grid_that_comes_again_takes_nothing_from_its_predecessor() -> Result<()> {
    let cluster = two_zones().await?;
    let stage = Stage(&cluster);
    let _running = harness::start(&cluster).await?;
    let web = grid("zone", &deployment_spec(IMAGE, Some(1)));
    stage.create(DEPLOYMENT_GRID, "web", &web).await?;
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
    let old = stage.read(DEPLOYMENT, "web-a").await?["metadata"]["uid"].clone();
    stage.delete(DEPLOYMENT_GRID, "web").await?;
    stage.create(DEPLOYMENT_GRID, "web", &web).await?;
    stage
        .condition(DEPLOYMENT_GRID, "web", condition::NAME_TAKEN, "True")
        .await?;
    // What garbage collection does.
    stage.delete(DEPLOYMENT, "web-a").await?;
    stage.delete(DEPLOYMENT, "web-b").await?;
    stage
        .until((DEPLOYMENT_GRID, "web"), None, |grid| {
            condition_of(grid, condition::NAME_TAKEN)
        })
        .await?;
    assert_ne!(
        stage.read(DEPLOYMENT, "web-a").await?["metadata"]["uid"],
        old
    );
    Ok(())
}

/// No cache shows it any more, and no unit asks for its name: it is remembered, and after a restart
/// the status tells.
#[tokio::test(start_paused = true)]
async fn a_workload_that_lost_our_label_and_its_unit_is_found_and_removed() -> Result<()> {
    for restarts in [false, true] {
        let cluster = two_zones().await?;
        let stage = Stage(&cluster);
        let mut running = Some(harness::start(&cluster).await?);
        let web = grid("zone", &deployment_spec(IMAGE, Some(1)));
        stage.create(DEPLOYMENT_GRID, "web", &web).await?;
        stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
        let is_shown = |grid: &Value| grid["status"]["states"]["b"].is_object();
        stage
            .until((DEPLOYMENT_GRID, "web"), true, is_shown)
            .await?;
        if restarts {
            running = None;
        }
        let change = json!({ "metadata": { "labels": { label::GRID_SELECTOR: null } } });
        stage.edit(DEPLOYMENT, "web-b", &change).await?;
        stage.delete(NODE, "b-1").await?;
        if restarts {
            running = Some(harness::start(&cluster).await?);
        }
        pass_time(Duration::from_mins(6)).await;
        stage.children(DEPLOYMENT, &["web-a"]).await?;
        drop(running);
    }
    Ok(())
}
