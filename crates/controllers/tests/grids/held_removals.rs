//! A StatefulSet that would take its claims with it is not deleted because its nodes are gone.

use std::time::Duration;

use anyhow::Result;
use edgegrid_api::names::{condition, reason};
use edgegrid_testkit::Cluster;
use serde_json::{Value, json};

use crate::harness::world::collect_garbage;
use crate::harness::{self, Running};
use crate::stage::*;

const IMAGE: &str = "superedge/echoserver:2.2";
const CLAIM: Gvk = Gvk("", "v1", "PersistentVolumeClaim", true);
const CLAIM_NAME: &str = "data-db-b-0";

fn template(image: &str, when_deleted: &str) -> Value {
    let mut spec = stateful_set_spec(image, Some(1));
    spec["persistentVolumeClaimRetentionPolicy"] = json!({ "whenDeleted": when_deleted });
    spec
}

/// Sets in two zones that own their claims; the claim of zone b is there, owned as Kubernetes does it.
async fn with_claims() -> Result<(Cluster, Running)> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["a-1 zone=a", "b-1 zone=b"]).await?;
    let running = harness::start(&cluster).await?;
    let spec = grid("zone", &template(IMAGE, "Delete"));
    stage.create(STATEFUL_SET_GRID, "db", &spec).await?;
    stage.children(STATEFUL_SET, &["db-a", "db-b"]).await?;
    let set = stage.read(STATEFUL_SET, "db-b").await?;
    let owner = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db-b", "uid": set["metadata"]["uid"] });
    let claim = json!({
        "metadata": { "ownerReferences": [owner] },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    stage.create(CLAIM, CLAIM_NAME, &claim).await?;
    a_while().await;
    Ok((cluster, running))
}

/// Two ways to lose the last node of zone b.
#[derive(Clone, Copy, Debug)]
enum Loss {
    NodeDeleted,
    LabelTaken,
}

const LOSSES: [Loss; 2] = [Loss::NodeDeleted, Loss::LabelTaken];

async fn lose(stage: &Stage<'_>, loss: Loss) -> Result<()> {
    match loss {
        Loss::NodeDeleted => stage.delete(NODE, "b-1").await,
        Loss::LabelTaken => stage.label_node("b-1", "zone", None).await,
    }
}

async fn give_back(stage: &Stage<'_>, loss: Loss) -> Result<()> {
    match loss {
        Loss::NodeDeleted => {
            let labels = json!({ "metadata": { "labels": { "zone": "b" } } });
            stage.create(NODE, "b-1", &labels).await.map(drop)
        }
        Loss::LabelTaken => stage.label_node("b-1", "zone", Some("b")).await,
    }
}

async fn held(stage: &Stage<'_>) -> Result<Value> {
    stage
        .condition(STATEFUL_SET_GRID, "db", condition::REMOVAL_HELD, "True")
        .await
}

async fn not_held(stage: &Stage<'_>) -> Result<()> {
    let wanted = None;
    let look = |grid: &Value| condition_of(grid, condition::REMOVAL_HELD);
    let found = stage.until((STATEFUL_SET_GRID, "db"), wanted, look).await;
    found.map(drop)
}

/// Set and claim stay for a day, and nothing is written meanwhile.
async fn stays_for_a_day(loss: Loss) -> Result<()> {
    let (cluster, running) = with_claims().await?;
    let stage = Stage(&cluster);
    lose(&stage, loss).await?;
    let condition = held(&stage).await?;
    assert_eq!(condition["reason"], reason::CLAIMS_WOULD_GO);
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("db-b") && !message.contains("db-a"),
        "{message}"
    );
    assert!(message.contains("whenDeleted"), "{message}");
    assert!(
        message.contains("kubectl delete statefulset -n default NAME"),
        "{message}"
    );
    a_while().await;
    let before = stage.read(STATEFUL_SET, "db-b").await?;
    running.writes.take();
    pass_time(Duration::from_hours(24)).await;
    assert_eq!(running.writes.take(), Vec::<String>::new(), "{loss:?}");
    collect_garbage(&cluster).await?;
    assert_eq!(stage.read(STATEFUL_SET, "db-b").await?, before);
    stage.read(CLAIM, CLAIM_NAME).await?;
    let grid = stage.read(STATEFUL_SET_GRID, "db").await?;
    let leaving = &grid["status"]["leavingUnits"][0];
    assert_eq!(
        (&leaving["unit"], &leaving["removedAt"]),
        (&json!("b"), &Value::Null)
    );
    let told = stage.events("db", reason::CLAIMS_WOULD_GO).await?;
    assert_eq!(told.len(), 1, "{told:#?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_set_whose_node_was_deleted_keeps_its_claims_for_a_day_without_a_write() -> Result<()> {
    stays_for_a_day(Loss::NodeDeleted).await
}

#[tokio::test(start_paused = true)]
async fn a_set_whose_node_lost_the_label_keeps_its_claims_for_a_day_without_a_write() -> Result<()>
{
    stays_for_a_day(Loss::LabelTaken).await
}

/// Its pods may run still, and one that is restarted finds no node.
#[tokio::test(start_paused = true)]
async fn a_held_set_is_not_written_and_the_others_are_until_its_nodes_are_back() -> Result<()> {
    for loss in LOSSES {
        let (cluster, _running) = with_claims().await?;
        let stage = Stage(&cluster);
        lose(&stage, loss).await?;
        held(&stage).await?;
        a_while().await;
        let before = stage.read(STATEFUL_SET, "db-b").await?;
        // Neither another image nor another policy: its claims are its own until its pods are Ready.
        let change = json!({ "spec": { "template": template("echo:2", "Retain") } });
        stage.edit(STATEFUL_SET_GRID, "db", &change).await?;
        let seen = |set: &Value| image(set);
        let new = "echo:2".to_owned();
        stage
            .until((STATEFUL_SET, "db-a"), new.clone(), seen)
            .await?;
        pass_time(Duration::from_hours(1)).await;
        assert_eq!(stage.read(STATEFUL_SET, "db-b").await?, before);
        held(&stage).await?;
        give_back(&stage, loss).await?;
        not_held(&stage).await?;
        let after = stage.until((STATEFUL_SET, "db-b"), new, seen).await?;
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_held_set_stays_when_the_controller_starts_again() -> Result<()> {
    for loss in LOSSES {
        let (cluster, running) = with_claims().await?;
        let stage = Stage(&cluster);
        drop(running);
        lose(&stage, loss).await?;
        for _ in 0..2 {
            let _running = harness::start(&cluster).await?;
            pass_time(Duration::from_hours(1)).await;
            held(&stage).await?;
            stage.children(STATEFUL_SET, &["db-a", "db-b"]).await?;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_held_set_that_is_deleted_by_hand_is_gone_for_good() -> Result<()> {
    let (cluster, _running) = with_claims().await?;
    let stage = Stage(&cluster);
    lose(&stage, Loss::LabelTaken).await?;
    held(&stage).await?;
    stage.delete(STATEFUL_SET, "db-b").await?;
    not_held(&stage).await?;
    pass_time(Duration::from_hours(1)).await;
    stage.children(STATEFUL_SET, &["db-a"]).await
}

#[tokio::test(start_paused = true)]
async fn the_data_of_a_held_set_goes_with_its_grid() -> Result<()> {
    for loss in LOSSES {
        let (cluster, _running) = with_claims().await?;
        let stage = Stage(&cluster);
        lose(&stage, loss).await?;
        held(&stage).await?;
        stage.delete(STATEFUL_SET_GRID, "db").await?;
        a_while().await;
        collect_garbage(&cluster).await?;
        assert!(stage.names(STATEFUL_SET).await?.is_empty());
        assert!(stage.names(CLAIM).await?.is_empty());
    }
    Ok(())
}
