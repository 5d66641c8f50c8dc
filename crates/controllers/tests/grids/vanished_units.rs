//! Units that are no more : an outage must not take a site's application with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::Result;
use edgegrid_api::names::{CONTROLLER, annotation};
use edgegrid_controllers::{Clock, Config};
use edgegrid_runtime::LeaseConfig;
use edgegrid_testkit::Cluster;
use edgegrid_testkit::faults::Fault;
use serde_json::{Value, json};

use crate::harness::{self, Running};
use crate::stage::*;

const IMAGE: &str = "superedge/echoserver:2.2";

async fn stamped() -> Result<(Cluster, Running)> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["a-1 zone=a", "b-1 zone=b"]).await?;
    let running = harness::start(&cluster).await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid("zone", &deployment_spec(IMAGE, Some(1))),
        )
        .await?;
    stage
        .create(
            STATEFUL_SET_GRID,
            "db",
            &grid("zone", &stateful_set_spec(IMAGE, Some(1))),
        )
        .await?;
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
    stage.children(STATEFUL_SET, &["db-a", "db-b"]).await?;
    a_while().await;
    Ok((cluster, running))
}

fn gone_since(child: &Value) -> bool {
    child["metadata"]["annotations"][annotation::UNIT_GONE_SINCE].is_string()
}

#[tokio::test(start_paused = true)]
async fn a_unit_whose_node_object_was_deleted_goes_after_the_grace_period() -> Result<()> {
    let (cluster, _running) = stamped().await?;
    let stage = Stage(&cluster);
    stage.delete(NODE, "b-1").await?;
    stage.until((DEPLOYMENT, "web-b"), true, gone_since).await?;
    let grid = stage
        .until((DEPLOYMENT_GRID, "web"), json!("b"), |grid| {
            grid["status"]["leavingUnits"][0]["unit"].clone()
        })
        .await?;
    let leaving = &grid["status"]["leavingUnits"][0];
    let moment = |field: &str| {
        leaving[field]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    assert_eq!(
        moment("removedAt")
            .duration_since(moment("goneSince"))
            .as_secs(),
        300
    );
    pass_time(Duration::from_mins(4)).await;
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
    pass_time(Duration::from_mins(1)).await;
    stage.children(DEPLOYMENT, &["web-a"]).await?;
    stage.children(STATEFUL_SET, &["db-a"]).await?;
    let grid = stage
        .until((DEPLOYMENT_GRID, "web"), json!(1), |grid| {
            grid["status"]["units"].clone()
        })
        .await?;
    assert!(grid["status"]["leavingUnits"].is_null(), "{grid:#}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_in_time_saves_its_unit() -> Result<()> {
    let (cluster, _running) = stamped().await?;
    let stage = Stage(&cluster);
    let before = stage.read(DEPLOYMENT, "web-b").await?;
    stage.delete(NODE, "b-1").await?;
    stage.until((DEPLOYMENT, "web-b"), true, gone_since).await?;
    pass_time(Duration::from_mins(3)).await;
    stage.add_nodes(&["b-2 zone=b"]).await?;
    stage
        .until((DEPLOYMENT, "web-b"), false, gone_since)
        .await?;
    pass_time(Duration::from_mins(5)).await;
    let after = stage.read(DEPLOYMENT, "web-b").await?;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"], before["spec"]);
    // The mark came and went without touching the rest.
    assert_eq!(
        after["metadata"]["annotations"],
        before["metadata"]["annotations"]
    );
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    Ok(())
}

/// Both workloads of the unit live for the whole grace period from now on, and no longer.
async fn live_for_the_whole_grace(stage: &Stage<'_>) -> Result<()> {
    pass_time(Duration::from_secs(290)).await;
    assert_eq!(stage.names(DEPLOYMENT).await?, ["web-a", "web-b"]);
    assert_eq!(stage.names(STATEFUL_SET).await?, ["db-a", "db-b"]);
    pass_time(Duration::from_secs(20)).await;
    assert_eq!(stage.names(DEPLOYMENT).await?, ["web-a"]);
    assert_eq!(stage.names(STATEFUL_SET).await?, ["db-a"]);
    Ok(())
}

/// What happened while nobody looked is not known: the node may have been back for days.
#[tokio::test(start_paused = true)]
async fn a_controller_that_starts_counts_the_whole_grace_again() -> Result<()> {
    let (cluster, running) = stamped().await?;
    let stage = Stage(&cluster);
    stage.delete(NODE, "b-1").await?;
    stage.until((DEPLOYMENT, "web-b"), true, gone_since).await?;
    drop(running);
    pass_time(Duration::from_mins(4)).await;
    let _running = harness::start(&cluster).await?;
    live_for_the_whole_grace(&stage).await
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_an_earlier_departure_does_not_count_for_a_later_one() -> Result<()> {
    let (cluster, running) = stamped().await?;
    let stage = Stage(&cluster);
    stage.delete(NODE, "b-1").await?;
    stage.until((DEPLOYMENT, "web-b"), true, gone_since).await?;
    drop(running); // killed: the mark stays
    pass_time(Duration::from_mins(2)).await;
    let back = json!({ "metadata": { "labels": { "zone": "b" } } });
    stage.create(NODE, "b-1", &back).await?;
    pass_time(Duration::from_mins(10)).await;
    stage.delete(NODE, "b-1").await?;
    let _running = harness::start(&cluster).await?;
    live_for_the_whole_grace(&stage).await
}

async fn start_as(cluster: &Cluster, name: &str) -> Result<Running> {
    let lease = LeaseConfig::new(NAMESPACE, CONTROLLER, name);
    let start = harness::Start {
        lease: Some(lease),
        ..harness::Start::default()
    };
    harness::start_with(cluster, start).await
}

/// What it saw as a standby may be old: it may have been cut off since.
#[tokio::test(start_paused = true)]
async fn a_standby_that_takes_over_counts_the_whole_grace_again() -> Result<()> {
    let (cluster, running) = stamped().await?;
    let stage = Stage(&cluster);
    drop(running);
    let first = start_as(&cluster, "first").await?;
    let _second = start_as(&cluster, "second").await?;
    stage.delete(NODE, "b-1").await?;
    stage.until((DEPLOYMENT, "web-b"), true, gone_since).await?;
    pass_time(Duration::from_mins(4)).await;
    drop(first);
    pass_time(Duration::from_secs(295)).await;
    assert_eq!(stage.names(DEPLOYMENT).await?, ["web-a", "web-b"]);
    pass_time(Duration::from_secs(30)).await;
    assert_eq!(stage.names(DEPLOYMENT).await?, ["web-a"]);
    Ok(())
}

/// A leader that finds the API server again may work before its watches show what happened meanwhile.
#[tokio::test(start_paused = true)]
async fn a_node_that_came_back_during_an_outage_of_the_api_server_saves_its_unit() -> Result<()> {
    let (cluster, running) = stamped().await?;
    let stage = Stage(&cluster);
    drop(running);
    let leader = start_as(&cluster, "leader").await?;
    let before = stage.read(DEPLOYMENT, "web-b").await?;
    stage.delete(NODE, "b-1").await?;
    stage.until((DEPLOYMENT, "web-b"), true, gone_since).await?;
    leader.faults.break_off(Fault::LoseRequest);
    pass_time(Duration::from_mins(10)).await;
    let back = json!({ "metadata": { "labels": { "zone": "b" } } });
    stage.create(NODE, "b-1", &back).await?;
    leader.faults.restore();
    pass_time(Duration::from_mins(10)).await;
    let after = stage.read(DEPLOYMENT, "web-b").await?;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(!gone_since(&after));
    Ok(())
}

/// A wall clock that is a number of hours off.
fn clock_off_by(cluster: &Cluster, hours: Arc<AtomicI64>) -> Clock {
    let clock = cluster.clock();
    Arc::new(move || clock() + jiff::Span::new().hours(hours.load(Ordering::Relaxed)))
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_wall_clock_is_hours_off_neither_shortens_nor_prolongs_the_grace()
-> Result<()> {
    for hours in [2, -2] {
        let (cluster, running) = stamped().await?;
        let stage = Stage(&cluster);
        stage.delete(NODE, "b-1").await?;
        stage.until((DEPLOYMENT, "web-b"), true, gone_since).await?;
        drop(running);
        let start = harness::Start {
            clock: Some(clock_off_by(&cluster, Arc::new(AtomicI64::new(hours)))),
            ..harness::Start::default()
        };
        let _running = harness::start_with(&cluster, start).await?;
        live_for_the_whole_grace(&stage).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_does_not_touch_the_grace() -> Result<()> {
    for jump in [2, -2] {
        let (cluster, running) = stamped().await?;
        drop(running);
        let stage = Stage(&cluster);
        let hours = Arc::new(AtomicI64::new(0));
        let start = harness::Start {
            clock: Some(clock_off_by(&cluster, hours.clone())),
            ..harness::Start::default()
        };
        let _running = harness::start_with(&cluster, start).await?;
        a_while().await;
        stage.delete(NODE, "b-1").await?;
        stage.until((DEPLOYMENT, "web-b"), true, gone_since).await?;
        hours.store(jump, Ordering::Relaxed);
        // Another edit makes another pass, with the new time of day.
        let label = json!({ "metadata": { "labels": { "team": "shop" } } });
        stage.edit(DEPLOYMENT_GRID, "web", &label).await?;
        stage.edit(STATEFUL_SET_GRID, "db", &label).await?;
        live_for_the_whole_grace(&stage).await?;
    }
    Ok(())
}

/// After a restart nobody knows how a unit went, so it counts as deleted.
#[tokio::test(start_paused = true)]
async fn what_went_while_nobody_looked_gets_the_grace_period() -> Result<()> {
    let (cluster, running) = stamped().await?;
    let stage = Stage(&cluster);
    drop(running);
    stage.label_node("b-1", "zone", None).await?;
    let _running = harness::start(&cluster).await?;
    stage.until((DEPLOYMENT, "web-b"), true, gone_since).await?;
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
    pass_time(Duration::from_mins(5)).await;
    stage.children(DEPLOYMENT, &["web-a"]).await
}

/// A Node of another uid is another node: the first was deleted, whatever labels the second has.
#[tokio::test(start_paused = true)]
async fn a_node_that_registers_again_without_its_label_leaves_the_grace_period() -> Result<()> {
    let (cluster, _running) = stamped().await?;
    let stage = Stage(&cluster);
    stage.delete(NODE, "b-1").await?;
    stage
        .create(NODE, "b-1", &json!({ "metadata": {} }))
        .await?;
    stage.until((DEPLOYMENT, "web-b"), true, gone_since).await?;
    pass_time(Duration::from_mins(2)).await;
    stage.label_node("b-1", "zone", Some("b")).await?;
    stage
        .until((DEPLOYMENT, "web-b"), false, gone_since)
        .await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn without_a_grace_period_a_unit_goes_at_once() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["a-1 zone=a", "b-1 zone=b"]).await?;
    let _running = harness::start_with(
        &cluster,
        harness::Start {
            config: Config {
                unit_grace: Duration::ZERO,
                ..Config::default()
            },
            ..harness::Start::default()
        },
    )
    .await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid("zone", &deployment_spec(IMAGE, Some(1))),
        )
        .await?;
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
    stage.delete(NODE, "b-1").await?;
    stage.children(DEPLOYMENT, &["web-a"]).await
}

/// In SuperEdge the last unit's state stayed in the status for ever.
#[tokio::test(start_paused = true)]
async fn the_status_of_the_last_unit_goes_with_it() -> Result<()> {
    let (cluster, _running) = stamped().await?;
    let stage = Stage(&cluster);
    stage.label_node("a-1", "zone", None).await?;
    stage.label_node("b-1", "zone", None).await?;
    stage.children(DEPLOYMENT, &[]).await?;
    let grid = stage
        .until((DEPLOYMENT_GRID, "web"), json!("0/0"), |grid| {
            grid["status"]["ready"].clone()
        })
        .await?;
    assert!(grid["status"]["states"].is_null(), "{grid:#}");
    Ok(())
}

/// Another key is another set of units: those of the old one go at once.
#[tokio::test(start_paused = true)]
async fn a_changed_key_replaces_the_units() -> Result<()> {
    let (cluster, _running) = stamped().await?;
    let stage = Stage(&cluster);
    stage.label_node("a-1", "rack", Some("r1")).await?;
    stage.label_node("b-1", "rack", Some("a")).await?;
    let same = stage.read(DEPLOYMENT, "web-a").await?;
    stage
        .edit(
            DEPLOYMENT_GRID,
            "web",
            &json!({ "spec": { "gridUniqKey": "rack" } }),
        )
        .await?;
    stage.children(DEPLOYMENT, &["web-a", "web-r1"]).await?;
    let kept = stage
        .until((DEPLOYMENT, "web-a"), json!({ "rack": "a" }), |child| {
            child["spec"]["template"]["spec"]["nodeSelector"].clone()
        })
        .await?;
    assert_eq!(kept["metadata"]["uid"], same["metadata"]["uid"]);
    Ok(())
}
