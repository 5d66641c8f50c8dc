//! Killed after any call, or let down by any call, the controllers come to the same state.
//!
//! The story below is played undisturbed first. Then it is played again and again: in the n-th
//! repetition the n-th call of every chapter goes wrong, until no chapter has so many calls.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_api::{DeploymentGrid, NodeGroup, NodeUnit, ServiceGrid, StatefulSetGrid};
use edgegrid_controllers::Config;
use edgegrid_testkit::faults::Fault;
use edgegrid_testkit::{Cluster, grid, group, node, service, unit};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use harness::Running;
use harness::snapshot::{self, Snapshot};

/// What goes wrong with a call, and whether the process dies of it.
#[derive(Clone, Debug)]
struct Disturbance {
    fault: Fault,
    kills: bool,
}

const NAMESPACE: &str = "default";
const CHAPTERS: usize = 7;

/// One chapter of a story in which everything happens to sites and grids.
async fn chapter(cluster: &Cluster, number: usize) -> Result<()> {
    match number {
        0 => {
            let nodes = ["bj-1", "bj-2", "gz-1"].map(|name| node(name).label("disk", "ssd"));
            cluster.add_nodes(nodes).await?;
            let mut beijing = unit("beijing", &["bj-1", "bj-2"]);
            beijing.spec.set_node = Some(serde_json::from_value(json!({
                "labels": { "tier": "edge" },
                "taints": [{ "key": "site", "value": "bj", "effect": "PreferNoSchedule" }],
            }))?);
            beijing.spec.unschedulable = true;
            cluster.apply::<NodeUnit>(beijing).await?;
            cluster
                .apply::<NodeUnit>(unit("guangzhou", &["gz-1"]))
                .await?;
            cluster
                .apply::<NodeGroup>(group("location", &["beijing", "guangzhou"]))
                .await?;
            let mut found = group("found", &[]);
            found.spec.auto_find_node_keys = vec!["disk".into()];
            cluster.apply::<NodeGroup>(found).await?;
        }
        1 => {
            cluster
                .apply::<DeploymentGrid>(grid("web").by("location").replicas(2))
                .await?;
            cluster
                .apply::<ServiceGrid>(service("web", "web").by("location").port(80, 8080))
                .await?;
            let db = grid("db").by("location").replicas(1).named_by("web-svc");
            cluster.apply::<StatefulSetGrid>(db).await?;
        }
        2 => {
            let image = json!({ "spec": { "template": { "template": { "spec": {
                "containers": [{ "name": "main", "image": "superedge/echoserver:3.0" }],
            } } } } });
            merge::<DeploymentGrid>(cluster, "web", &image).await?;
        }
        3 => {
            cluster
                .add_nodes([node("sh-1").label("location", "shanghai")])
                .await?;
            let gone = json!({ "spec": { "nodes": ["bj-1"] } });
            let units: Api<NodeUnit> = Api::all(cluster.client());
            units
                .patch("beijing", &PatchParams::default(), &Patch::Merge(gone))
                .await?;
        }
        4 => {
            let nodes: Api<Node> = Api::all(cluster.client());
            let unlabelled = json!({ "metadata": { "labels": { "location": null } } });
            nodes
                .patch("sh-1", &PatchParams::default(), &Patch::Merge(unlabelled))
                .await?;
            let no_replicas = json!({ "spec": { "template": { "replicas": null } } });
            merge::<DeploymentGrid>(cluster, "web", &no_replicas).await?;
        }
        5 => {
            let units: Api<NodeUnit> = Api::all(cluster.client());
            units.delete("guangzhou", &DeleteParams::default()).await?;
        }
        _ => {
            let groups: Api<NodeGroup> = Api::all(cluster.client());
            for name in ["location", "found"] {
                groups.delete(name, &DeleteParams::default()).await?;
            }
            let grids: Api<StatefulSetGrid> = Api::namespaced(cluster.client(), NAMESPACE);
            grids.delete("db", &DeleteParams::default()).await?;
        }
    }
    Ok(())
}

async fn merge<K>(cluster: &Cluster, name: &str, patch: &Value) -> Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(cluster.client(), NAMESPACE);
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// Plays the whole story; in every chapter the `nth` call goes wrong. Returns the state after each
/// chapter, and whether any chapter had so many calls.
async fn play(disturbance: Option<(usize, &Disturbance)>) -> Result<(Vec<Snapshot>, bool)> {
    let cluster = harness::cluster().await?;
    let mut running = harness::start(&cluster).await?;
    harness::settle(&cluster, &running).await?;
    let (mut states, mut happened) = (Vec::new(), false);
    for number in 0..CHAPTERS {
        if let Some((nth, disturbance)) = disturbance {
            let fault = disturbance.fault.clone();
            running
                .faults
                .inject(nth, fault, |_, path| !path.contains("watch="));
        }
        chapter(&cluster, number).await?;
        let kills = disturbance.is_some_and(|(_, disturbance)| disturbance.kills);
        if kills && strikes(&running).await {
            happened = true;
            drop(running); // dies in the middle of the call
            running = harness::start(&cluster).await?;
            // How a unit's last node went is not known after a restart, so the grace must pass.
            tokio::time::sleep(Config::default().unit_grace + Duration::from_mins(1)).await;
        }
        harness::settle(&cluster, &running).await?;
        happened |= disturbance.is_some() && running.faults.pending() == 0;
        running.faults.clear();
        states.push(snapshot::take(&cluster).await?);
    }
    Ok((states, happened))
}

/// Whether the fault strikes while there is something to do.
async fn strikes(running: &Running) -> bool {
    for _ in 0..40 {
        if running.faults.pending() == 0 {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    false
}

/// Every call of every chapter goes wrong once, in one way.
async fn every_call(disturbance: &Disturbance) -> Result<usize> {
    let (wanted, _) = play(None).await?;
    for nth in 1.. {
        let what = |chapter: usize| format!("chapter {chapter}, call {nth}, {disturbance:?}");
        let (seen, happened) = play(Some((nth, disturbance)))
            .await
            .with_context(|| what(0))?;
        for (chapter, (wanted, seen)) in wanted.iter().zip(&seen).enumerate() {
            same(wanted, seen).with_context(|| what(chapter))?;
        }
        if !happened {
            return Ok(nth - 1);
        }
    }
    unreachable!("a story has an end")
}

fn same(wanted: &Snapshot, seen: &Snapshot) -> Result<()> {
    let names: BTreeSet<&String> = wanted.keys().chain(seen.keys()).collect();
    for name in names {
        let (wanted, seen) = (wanted.get(name), seen.get(name));
        let text = |object: Option<&Value>| format!("{:#}", object.unwrap_or(&Value::Null));
        ensure!(
            wanted == seen,
            "{name}\nwanted {}\nseen {}",
            text(wanted),
            text(seen)
        );
    }
    Ok(())
}

async fn whole_story(fault: Fault, kills: bool) {
    let calls = every_call(&Disturbance { fault, kills }).await.unwrap();
    assert!(
        calls > 10,
        "only {calls} calls in the longest chapter: the story lost its plot"
    );
}

#[tokio::test(start_paused = true)]
async fn killed_before_any_call_they_converge() {
    whole_story(Fault::Hang, true).await;
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_call_they_converge() {
    whole_story(Fault::HangAnswer, true).await;
}

#[tokio::test(start_paused = true)]
async fn with_any_call_lost_they_converge() {
    whole_story(Fault::LoseRequest, false).await;
}

#[tokio::test(start_paused = true)]
async fn with_any_answer_lost_they_converge() {
    whole_story(Fault::LoseAnswer, false).await;
}

#[tokio::test(start_paused = true)]
async fn with_any_call_in_conflict_they_converge() {
    whole_story(Fault::Conflict, false).await;
}
