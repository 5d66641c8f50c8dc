//! One scenario, with one thing going wrong at every single write: it ends the same.

use std::time::Duration;

use anyhow::{Context, Result};
use edgegrid_api::{NodeGroup, NodeUnit};
use edgegrid_testkit::faults::Fault;
use edgegrid_testkit::{Cluster, group, unit};
use serde_json::json;

use crate::harness::snapshot::{self, Snapshot};
use crate::harness::{Running, start};
use crate::{delete_group, delete_unit, edit_node, group_of, three_nodes, unit_of};

/// What befalls the n-th write.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    LostRequest,
    LostAnswer,
    Conflict,
    /// The controllers end in the middle of it, and start again.
    Crash,
}

/// Things that people do, in order.
async fn act(cluster: &Cluster, turn: usize) -> Result<()> {
    let taint = json!({ "key": "t", "value": "1", "effect": "NoSchedule" });
    match turn {
        0 => {
            let spec = json!({
                "selector": { "matchLabels": { "zone": "a" } }, "unschedulable": true,
                "setNode": { "labels": { "x": "1" }, "annotations": { "n": "1" }, "taints": [taint] },
            });
            cluster.apply::<NodeUnit>(unit_of("u", &spec)).await?;
            cluster.apply::<NodeUnit>(unit("v", &["a2", "b1"])).await?;
            cluster.apply::<NodeGroup>(group("g", &["u", "v"])).await?;
            cluster
                .apply::<NodeGroup>(group_of("f", &json!({ "autoFindNodeKeys": ["zone"] })))
                .await?;
        }
        1 => {
            edit_node(
                cluster,
                "a1",
                &json!({ "metadata": { "labels": { "zone": "c" } } }),
            )
            .await?;
            delete_group(cluster, "g").await?;
        }
        _ => {
            delete_unit(cluster, "u").await?;
            delete_group(cluster, "f").await?;
        }
    }
    Ok(())
}

const TURNS: usize = 3;

/// Plays the scenario and gives the states it rested in, and how many writes were made.
async fn play(trouble: Trouble, nth: usize) -> Result<(Vec<Snapshot>, usize)> {
    let cluster = three_nodes().await?;
    let mut running = start(&cluster).await?;
    let mut writes = running.faults.record(is_write);
    inject(&running, trouble, nth);
    let mut states = Vec::new();
    let mut count = 0;
    for turn in 0..TURNS {
        act(&cluster, turn).await?;
        if matches!(trouble, Trouble::Crash) && running.faults.pending() > 0 {
            tokio::time::sleep(Duration::from_secs(5)).await;
            if running.faults.pending() == 0 {
                running = start(&cluster).await?;
                writes = running.faults.record(is_write);
            }
        }
        rest(&running).await?;
        count += writes.take().len();
        states.push(snapshot::take(&cluster).await?);
    }
    Ok((states, count))
}

/// Until nothing was written for longer than anything waits but after repeated failures.
async fn rest(running: &Running) -> Result<()> {
    for _ in 0..40 {
        running.writes.take();
        tokio::time::sleep(Duration::from_secs(12)).await;
        if running.writes.take().is_empty() {
            return Ok(());
        }
    }
    anyhow::bail!("the controllers never come to rest")
}

fn is_write(method: &str, path: &str) -> bool {
    method != "GET" && !path.contains("/events")
}

fn inject(running: &Running, trouble: Trouble, nth: usize) {
    let fault = match trouble {
        Trouble::None => return,
        Trouble::LostRequest => Fault::LoseRequest,
        Trouble::LostAnswer => Fault::LoseAnswer,
        Trouble::Conflict => Fault::Conflict,
        Trouble::Crash => Fault::Hang,
    };
    running.faults.inject(nth, fault, is_write);
}

/// How many tests share the writes of the scenario.
const PARTS: usize = 8;

async fn ends_the_same(trouble: Trouble, part: usize) -> Result<()> {
    let (expected, writes) = play(Trouble::None, 0).await?;
    assert!(writes > 20, "{writes}");
    for nth in (1..=writes).filter(|nth| nth % PARTS == part) {
        let (states, _) = play(trouble, nth)
            .await
            .with_context(|| format!("{trouble:?} {nth}"))?;
        for (turn, (state, expected)) in states.iter().zip(&expected).enumerate() {
            let names = state.keys().chain(expected.keys());
            for name in names {
                let (state, expected) = (state.get(name), expected.get(name));
                assert_eq!(
                    state, expected,
                    "{name}: {trouble:?} at write {nth}, after turn {turn}"
                );
            }
        }
    }
    Ok(())
}

macro_rules! at_every_write {
    ($($rule:ident: $trouble:expr;)+) => { $(
        mod $rule {
            use super::*;
            at_every_write!(@parts $trouble, part_0 0, part_1 1, part_2 2, part_3 3, part_4 4, part_5 5, part_6 6, part_7 7);
        }
    )+ };
    (@parts $trouble:expr, $($name:ident $part:literal),+) => { $(
        #[tokio::test(start_paused = true)]
        async fn $name() -> Result<()> {
            ends_the_same($trouble, $part).await
        }
    )+ };
}

at_every_write! {
    a_lost_write_changes_nothing_in_the_end: Trouble::LostRequest;
    a_lost_answer_changes_nothing_in_the_end: Trouble::LostAnswer;
    a_conflict_changes_nothing_in_the_end: Trouble::Conflict;
    a_crash_changes_nothing_in_the_end: Trouble::Crash;
}
