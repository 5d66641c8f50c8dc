//! Unit by unit: how a changed template reaches the sites.

use std::time::Duration;

use anyhow::{Result, ensure};
use edgegrid_api::names::{condition, reason};
use edgegrid_testkit::faults::Fault;
use edgegrid_testkit::{Cluster, eventually};
use serde_json::{Value, json};

use crate::harness::{self, Running};
use crate::stage::*;

const UNITS: [&str; 4] = ["a", "b", "c", "d"];

/// A grid in four units, stamped and Available.
async fn stamped(rollout: &Value) -> Result<(Cluster, Running)> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage
        .add_nodes(&["a-1 zone=a", "b-1 zone=b", "c-1 zone=c", "d-1 zone=d"])
        .await?;
    let running = harness::start(&cluster).await?;
    let mut web = grid("zone", &deployment_spec("web:1", Some(1)));
    web["spec"]["rollout"] = rollout.clone();
    stage.create(DEPLOYMENT_GRID, "web", &web).await?;
    stage
        .children(DEPLOYMENT, &["web-a", "web-b", "web-c", "web-d"])
        .await?;
    for unit in UNITS {
        stage
            .make_available(DEPLOYMENT, &format!("web-{unit}"))
            .await?;
    }
    stage
        .condition(DEPLOYMENT_GRID, "web", condition::READY, "True")
        .await?;
    Ok((cluster, running))
}

async fn change_image(stage: &Stage<'_>, image: &str) -> Result<()> {
    let template = deployment_spec(image, Some(1));
    stage
        .edit(
            DEPLOYMENT_GRID,
            "web",
            &json!({ "spec": { "template": template } }),
        )
        .await?;
    Ok(())
}

/// The units that run an image.
async fn running(stage: &Stage<'_>, wanted: &str) -> Result<Vec<&'static str>> {
    let mut units = Vec::new();
    for unit in UNITS {
        if image(&stage.read(DEPLOYMENT, &format!("web-{unit}")).await?) == wanted {
            units.push(unit);
        }
    }
    Ok(units)
}

async fn until_running(stage: &Stage<'_>, image: &str, wanted: &[&str]) -> Result<()> {
    eventually(&format!("{wanted:?} run {image}"), async || {
        let units = running(stage, image).await?;
        ensure!(units == wanted, "{units:?}");
        Ok(())
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn by_default_all_units_are_changed_at_once() -> Result<()> {
    let (cluster, _running) = stamped(&json!({})).await?;
    let stage = Stage(&cluster);
    change_image(&stage, "web:2").await?;
    until_running(&stage, "web:2", &UNITS).await
}

#[tokio::test(start_paused = true)]
async fn no_more_units_than_allowed_are_changed_and_not_yet_available() -> Result<()> {
    let (cluster, _running) = stamped(&json!({ "maxConcurrentUnits": 2 })).await?;
    let stage = Stage(&cluster);
    change_image(&stage, "web:2").await?;
    until_running(&stage, "web:2", &["a", "b"]).await?;
    pass_time(Duration::from_mins(2)).await;
    assert_eq!(running(&stage, "web:2").await?, ["a", "b"]);
    let progressing = stage
        .condition(DEPLOYMENT_GRID, "web", condition::PROGRESSING, "True")
        .await?;
    assert!(
        progressing["message"]
            .as_str()
            .unwrap()
            .contains("waiting: c, d"),
        "{progressing}"
    );

    stage.make_available(DEPLOYMENT, "web-b").await?;
    until_running(&stage, "web:2", &["a", "b", "c"]).await?;
    for unit in ["a", "c"] {
        stage
            .make_available(DEPLOYMENT, &format!("web-{unit}"))
            .await?;
    }
    until_running(&stage, "web:2", &UNITS).await?;
    stage.make_available(DEPLOYMENT, "web-d").await?;
    stage
        .condition(DEPLOYMENT_GRID, "web", condition::READY, "True")
        .await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_does_not_become_available_stops_the_rollout() -> Result<()> {
    let (cluster, _running) = stamped(&json!({ "maxConcurrentUnits": 1 })).await?;
    let stage = Stage(&cluster);
    change_image(&stage, "bad:1").await?;
    until_running(&stage, "bad:1", &["a"]).await?;
    pass_time(Duration::from_mins(12)).await;
    assert_eq!(running(&stage, "bad:1").await?, ["a"]);
    let stopped = stage
        .condition(DEPLOYMENT_GRID, "web", condition::PROGRESSING, "False")
        .await?;
    assert_eq!(stopped["reason"], reason::ROLLOUT_STOPPED);
    assert_eq!(stage.events("web", reason::ROLLOUT_STOPPED).await?.len(), 1);
    let grid = stage.read(DEPLOYMENT_GRID, "web").await?;
    assert_eq!(grid["status"]["failingUnits"][0]["unit"], "a");
    assert_eq!(
        grid["status"]["failingUnits"][0]["reason"],
        reason::NOT_AVAILABLE
    );

    // A new unit is stamped all the same, and a mended template goes on from the first unit.
    stage.add_nodes(&["e-1 zone=e"]).await?;
    stage
        .until((DEPLOYMENT, "web-e"), "bad:1".to_owned(), image)
        .await?;
    change_image(&stage, "good:2").await?;
    until_running(&stage, "good:2", &["a"]).await
}

#[tokio::test(start_paused = true)]
async fn a_deployments_own_progress_deadline_counts() -> Result<()> {
    let (cluster, _running) = stamped(&json!({ "maxConcurrentUnits": 1 })).await?;
    let stage = Stage(&cluster);
    let mut template = deployment_spec("bad:1", Some(1));
    template["progressDeadlineSeconds"] = json!(60);
    stage
        .edit(
            DEPLOYMENT_GRID,
            "web",
            &json!({ "spec": { "template": template } }),
        )
        .await?;
    until_running(&stage, "bad:1", &["a"]).await?;
    pass_time(Duration::from_secs(70)).await;
    let stopped = stage
        .condition(DEPLOYMENT_GRID, "web", condition::PROGRESSING, "False")
        .await?;
    assert_eq!(stopped["reason"], reason::ROLLOUT_STOPPED);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_pause_keeps_units_as_they_are_but_stamps_new_ones() -> Result<()> {
    let (cluster, _running) = stamped(&json!({ "paused": true })).await?;
    let stage = Stage(&cluster);
    change_image(&stage, "web:2").await?;
    stage.add_nodes(&["e-1 zone=e"]).await?;
    stage
        .until((DEPLOYMENT, "web-e"), "web:2".to_owned(), image)
        .await?;
    a_while().await;
    assert_eq!(running(&stage, "web:2").await?, [""; 0]);
    let paused = stage
        .condition(DEPLOYMENT_GRID, "web", condition::PROGRESSING, "False")
        .await?;
    assert_eq!(paused["reason"], reason::PAUSED);
    // A unit that loses its node while it waits is marked, and goes.
    stage.delete(NODE, "d-1").await?;
    pass_time(Duration::from_mins(6)).await;
    stage
        .children(DEPLOYMENT, &["web-a", "web-b", "web-c", "web-e"])
        .await?;

    stage
        .edit(
            DEPLOYMENT_GRID,
            "web",
            &json!({ "spec": { "rollout": { "paused": false } } }),
        )
        .await?;
    for unit in ["a", "b", "c"] {
        stage
            .until(
                (DEPLOYMENT, &format!("web-{unit}")),
                "web:2".to_owned(),
                image,
            )
            .await?;
    }
    Ok(())
}

/// A write whose answer was lost may have changed the unit, so it takes a place until that is known.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_does_not_let_another_unit_go() -> Result<()> {
    let (cluster, controllers) = stamped(&json!({ "maxConcurrentUnits": 1 })).await?;
    let stage = Stage(&cluster);
    controllers
        .faults
        .inject(1, Fault::LoseAnswer, |method, path| {
            method == "PATCH" && path.contains("/deployments/web-a")
        });
    change_image(&stage, "web:2").await?;
    until_running(&stage, "web:2", &["a"]).await?;
    for _ in 0..60 {
        pass_time(Duration::from_millis(500)).await;
        assert_eq!(running(&stage, "web:2").await?, ["a"]);
    }
    assert_eq!(controllers.faults.pending(), 0);
    Ok(())
}

/// Somebody's edit is put back in all units at once: it is no rollout.
#[tokio::test(start_paused = true)]
async fn a_repair_waits_for_nobody() -> Result<()> {
    let (cluster, _running) = stamped(&json!({ "maxConcurrentUnits": 1, "paused": true })).await?;
    let stage = Stage(&cluster);
    for unit in UNITS {
        let change = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "echo", "image": "hacked:1" }] } } } });
        stage
            .edit(DEPLOYMENT, &format!("web-{unit}"), &change)
            .await?;
    }
    until_running(&stage, "web:1", &UNITS).await
}
