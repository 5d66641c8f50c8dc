//! Killed at any call, or left without an answer: the next start ends in the same state.

use std::time::Duration;

use anyhow::{Result, ensure};
use edgegrid_api::names::condition;
use edgegrid_testkit::faults::Fault;
use edgegrid_testkit::{Cluster, eventually};
use serde_json::{Value, json};

use crate::harness;
use crate::stage::*;

/// Grids of two units, changed once they are there; everything is Available in the end.
async fn scenario(stage: &Stage<'_>, template: Value) -> Result<()> {
    let ports = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
    let mut web = grid("zone", &template);
    web["spec"]["rollout"] = json!({ "maxConcurrentUnits": 1 });
    if stage.find(DEPLOYMENT_GRID, "web").await?.is_some() {
        stage.edit(DEPLOYMENT_GRID, "web", &web).await?;
        return Ok(());
    }
    stage.create(DEPLOYMENT_GRID, "web", &web).await?;
    stage
        .create(SERVICE_GRID, "web", &grid("zone", &ports))
        .await?;
    Ok(())
}

/// Makes available what is there until the grids are Ready with this image.
async fn finished(stage: &Stage<'_>, wanted: &str) -> Result<()> {
    eventually(&format!("all units run {wanted}"), async || {
        for unit in ["web-a", "web-b"] {
            stage.make_available(DEPLOYMENT, unit).await?;
            let seen = image(&stage.read(DEPLOYMENT, unit).await?);
            ensure!(seen == wanted, "{unit} runs {seen}");
        }
        let grid = stage.read(DEPLOYMENT_GRID, "web").await?;
        ensure!(grid["status"]["ready"] == "2/2", "{}", grid["status"]);
        ensure!(
            grid["status"]["observedGeneration"] == grid["metadata"]["generation"],
            "old status"
        );
        Ok(())
    })
    .await?;
    stage
        .condition(SERVICE_GRID, "web", condition::READY, "True")
        .await?;
    Ok(())
}

/// What people see of everything, without uids, revisions and moments.
async fn picture(stage: &Stage<'_>) -> Result<Vec<Value>> {
    let mut seen = Vec::new();
    for (kind, name) in [
        (DEPLOYMENT, "web-a"),
        (DEPLOYMENT, "web-b"),
        (SERVICE, "web-svc"),
    ] {
        let object = stage.read(kind, name).await?;
        let mut spec = object["spec"].clone();
        for allocated in ["clusterIP", "clusterIPs"] {
            spec[allocated].take();
        }
        seen.push(json!([name, object["metadata"]["labels"], spec]));
    }
    let grid = stage.read(DEPLOYMENT_GRID, "web").await?;
    let conditions = grid["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let conditions = conditions.map(|one| json!([one["type"], one["status"], one["reason"]]));
    seen.push(json!([
        grid["status"]["ready"],
        conditions.collect::<Vec<_>>()
    ]));
    Ok(seen)
}

async fn stage_of_two_units() -> Result<Cluster> {
    let cluster = harness::cluster().await?;
    Stage(&cluster)
        .add_nodes(&["a-1 zone=a", "b-1 zone=b"])
        .await?;
    Ok(cluster)
}

async fn undisturbed() -> Result<Vec<Value>> {
    let cluster = stage_of_two_units().await?;
    let stage = Stage(&cluster);
    let _running = harness::start(&cluster).await?;
    scenario(&stage, deployment_spec("web:1", Some(2))).await?;
    finished(&stage, "web:1").await?;
    scenario(&stage, deployment_spec("web:2", Some(2))).await?;
    finished(&stage, "web:2").await?;
    picture(&stage).await
}

/// The `nth` call of the controllers fails as `fault` says, and they are killed there or go on.
async fn disturbed(nth: usize, fault: Fault, dies: bool) -> Result<Vec<Value>> {
    let cluster = stage_of_two_units().await?;
    let stage = Stage(&cluster);
    let mut running = Some(harness::start(&cluster).await?);
    let about_grids = |_: &str, path: &str| {
        !path.contains("watch=")
            && ["grids/", "/deployments", "/services"]
                .iter()
                .any(|part| path.contains(part))
    };
    let faults = running.as_ref().map(|running| running.faults.clone());
    let faults = faults.unwrap_or_default();
    faults.inject(nth, fault, about_grids);
    scenario(&stage, deployment_spec("web:1", Some(2))).await?;
    for wanted in ["web:1", "web:2"] {
        scenario(&stage, deployment_spec(wanted, Some(2))).await?;
        for _ in 0..40 {
            if dies && faults.pending() == 0 && running.take().is_some() {
                running = Some(harness::start(&cluster).await?);
                break;
            }
            pass_time(Duration::from_millis(100)).await;
        }
        finished(&stage, wanted).await?;
    }
    ensure!(faults.pending() == 0, "call {nth} was never made");
    drop(running);
    picture(&stage).await
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_the_next_start_ends_in_the_same_state() -> Result<()> {
    let wanted = undisturbed().await?;
    for nth in 1..=9 {
        assert_eq!(
            disturbed(nth, Fault::LoseAnswer, true).await?,
            wanted,
            "call {nth}"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_or_with_a_conflict_ends_in_the_same_state() -> Result<()> {
    let wanted = undisturbed().await?;
    for nth in [1, 3, 5, 7, 9] {
        for fault in [Fault::LoseAnswer, Fault::Conflict] {
            assert_eq!(disturbed(nth, fault, false).await?, wanted, "call {nth}");
        }
    }
    Ok(())
}
