//! NodeUnits and NodeGroups on the real server and on ours: what rests on how Kubernetes itself
//! merges, owns and patches.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use anyhow::{Result, ensure};
use edgegrid_api::{NodeGroup, NodeUnit};
use edgegrid_controllers::{Config, Metrics, Setup};
use edgegrid_runtime::{Executor, Fence, Limits, executor};
use edgegrid_testkit::{Cluster, eventually, group, node, on_every_cluster, unit};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

on_every_cluster!(
    units_label_taint_and_cordon_their_nodes_and_leave_no_trace,
    what_superedge_wrote_passes_to_us,
);

const MARK: &str = "nodeunits.superedge.io";

/// The controllers, until dropped. Their clock is ahead, so that what was just written under
/// SuperEdge's name seems old.
async fn start(cluster: &Cluster) -> JoinSet<()> {
    cluster.install(edgegrid_api::crds()).await.unwrap();
    let (limits, metrics) = (Limits::default(), executor::Metrics::default());
    let clock = cluster.clock();
    let setup = Setup {
        client: cluster.client(),
        executor: Executor::new(cluster.client(), Fence::always(), limits, metrics),
        config: Config::default(),
        metrics: Metrics::default(),
        clock: Arc::new(move || clock() + SignedDuration::from_mins(10)),
    };
    let mut running = JoinSet::new();
    running.spawn(edgegrid_controllers::run(
        setup,
        || {},
        std::future::pending(),
    ));
    running
}

fn nodes(cluster: &Cluster) -> Api<Node> {
    Api::all(cluster.client())
}

async fn patch(cluster: &Cluster, manager: &str, name: &str, patch: Value) {
    let params = PatchParams {
        field_manager: Some(manager.into()),
        ..PatchParams::default()
    };
    nodes(cluster)
        .patch(name, &params, &Patch::Merge(patch))
        .await
        .unwrap();
}

/// What units write on a node: labels but those of every node, taints, cordon, annotations.
async fn written(cluster: &Cluster, name: &str) -> Result<Value> {
    let node = nodes(cluster).get(name).await?;
    let mut labels = node.metadata.labels.unwrap_or_default();
    labels.retain(|key, _| !key.contains("kubernetes.io/") && key != "unit-node-all");
    let spec = node.spec.unwrap_or_default();
    let taints: Vec<Value> = spec
        .taints
        .iter()
        .flatten()
        .map(|taint| json!([taint.key, taint.value, taint.effect]))
        .collect();
    let annotations = node.metadata.annotations.unwrap_or_default();
    let ours = annotations.get("edgegrid.io/taints");
    Ok(
        json!({ "labels": labels, "taints": taints, "unschedulable": spec.unschedulable.unwrap_or(false), "recorded": ours.is_some() }),
    )
}

async fn until(cluster: &Cluster, name: &str, wanted: Value) {
    eventually(&format!("{name} carries {wanted}"), async || {
        let seen = written(cluster, name).await?;
        ensure!(seen == wanted, "{seen}");
        Ok(())
    })
    .await
    .unwrap();
}

async fn units_label_taint_and_cordon_their_nodes_and_leave_no_trace(cluster: &Cluster) {
    cluster.add_nodes([node("a"), node("b")]).await.unwrap();
    patch(
        cluster,
        "somebody",
        "a",
        json!({ "spec": { "taints": [{ "key": "theirs", "effect": "NoSchedule" }] } }),
    )
    .await;
    let _running = start(cluster).await;
    let spec = json!({
        "nodes": ["a"], "unschedulable": true,
        "setNode": { "labels": { "x": "1" }, "taints": [{ "key": "ours", "value": "1", "effect": "NoExecute" }] },
    });
    let one: NodeUnit =
        serde_json::from_value(json!({ "metadata": { "name": "one" }, "spec": spec })).unwrap();
    cluster.apply::<NodeUnit>(one).await.unwrap();
    cluster
        .apply::<NodeUnit>(unit("two", &["a", "b"]))
        .await
        .unwrap();
    cluster
        .apply::<NodeGroup>(group("g", &["one", "two"]))
        .await
        .unwrap();
    let full = json!({
        "labels": { "one": MARK, "two": MARK, "g": "one", "x": "1" },
        "taints": [["theirs", null, "NoSchedule"], ["ours", "1", "NoExecute"]],
        "unschedulable": true, "recorded": true,
    });
    until(cluster, "a", full.clone()).await;
    until(cluster, "b", json!({ "labels": { "two": MARK, "g": "two" }, "taints": [], "unschedulable": false, "recorded": false })).await;
    // Drift.
    let spoilt = json!({
        "metadata": { "labels": { "one": null, "g": "else" } },
        "spec": { "unschedulable": null, "taints": [{ "key": "theirs", "effect": "NoSchedule" }] },
    });
    patch(cluster, "somebody", "a", spoilt).await;
    until(cluster, "a", full).await;
    // The older goes, then all.
    let units: Api<NodeUnit> = Api::all(cluster.client());
    units.delete("one", &DeleteParams::default()).await.unwrap();
    until(cluster, "a", json!({ "labels": { "two": MARK, "g": "two" }, "taints": [["theirs", null, "NoSchedule"]], "unschedulable": false, "recorded": false })).await;
    let groups: Api<NodeGroup> = Api::all(cluster.client());
    groups.delete("g", &DeleteParams::default()).await.unwrap();
    units.delete("two", &DeleteParams::default()).await.unwrap();
    until(cluster, "a", json!({ "labels": {}, "taints": [["theirs", null, "NoSchedule"]], "unschedulable": false, "recorded": false })).await;
    gone(cluster, &["one", "two"], &["g"]).await;
}

async fn what_superedge_wrote_passes_to_us(cluster: &Cluster) {
    cluster.add_nodes([node("a"), node("stale")]).await.unwrap();
    let marks = json!({
        "metadata": { "labels": { "beijing": MARK, "location": "beijing" } },
        "spec": { "taints": [{ "key": "edge", "effect": "NoSchedule" }] },
    });
    for name in ["a", "stale"] {
        patch(cluster, "site-manager", name, marks.clone()).await;
    }
    let _running = start(cluster).await;
    let spec = json!({ "nodes": ["a"], "setNode": { "taints": [{ "key": "edge", "effect": "NoSchedule" }] } });
    let beijing: NodeUnit =
        serde_json::from_value(json!({ "metadata": { "name": "beijing" }, "spec": spec })).unwrap();
    cluster.apply::<NodeUnit>(beijing).await.unwrap();
    cluster
        .apply::<NodeGroup>(group("location", &["beijing"]))
        .await
        .unwrap();
    let edge = json!([["edge", null, "NoSchedule"]]);
    until(
        cluster,
        "stale",
        json!({ "labels": {}, "taints": edge, "unschedulable": false, "recorded": false }),
    )
    .await;
    eventually("site-manager holds nothing", async || {
        let managers = nodes(cluster)
            .get("a")
            .await?
            .metadata
            .managed_fields
            .unwrap_or_default();
        ensure!(
            managers
                .iter()
                .all(|entry| entry.manager.as_deref() != Some("site-manager")),
            "{managers:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    let units: Api<NodeUnit> = Api::all(cluster.client());
    let groups: Api<NodeGroup> = Api::all(cluster.client());
    groups
        .delete("location", &DeleteParams::default())
        .await
        .unwrap();
    units
        .delete("beijing", &DeleteParams::default())
        .await
        .unwrap();
    until(
        cluster,
        "a",
        json!({ "labels": {}, "taints": [], "unschedulable": false, "recorded": false }),
    )
    .await;
    gone(cluster, &["beijing"], &["location"]).await;
}

async fn gone(cluster: &Cluster, units: &[&str], groups: &[&str]) {
    let (all_units, all_groups): (Api<NodeUnit>, Api<NodeGroup>) =
        (Api::all(cluster.client()), Api::all(cluster.client()));
    eventually("units and groups are gone", async || {
        for name in units {
            ensure!(all_units.get_opt(name).await?.is_none(), "{name}");
        }
        for name in groups {
            ensure!(all_groups.get_opt(name).await?.is_none(), "{name}");
        }
        Ok(())
    })
    .await
    .unwrap();
}
