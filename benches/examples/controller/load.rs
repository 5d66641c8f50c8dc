//! What is asked of the cluster: nodes, grids, and the plain loop to compare with.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use edgegrid_api::DeploymentGrid;
use edgegrid_testkit::grid;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The label whose values are the units.
const KEY: &str = "location";
/// Namespace of the grids.
const GRIDS: &str = "default";
/// Namespace of the plain loop.
const PEER: &str = "peer";
/// Requests of the plain loop that are under way at the same time.
const SIDE_BY_SIDE: usize = 8;
/// No case takes longer.
const LIMIT: Duration = Duration::from_mins(10);

/// Adds one node per unit.
pub(crate) async fn add_nodes(client: &Client, units: std::ops::Range<usize>) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = |unit: usize| {
        let value = json!({
            "metadata": { "name": format!("node-{unit:05}"), "labels": { KEY: format!("unit-{unit}") } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        serde_json::from_value::<Node>(value).context("write a node")
    };
    stream::iter(units)
        .map(|unit| {
            let nodes = &nodes;
            async move {
                nodes
                    .create(&PostParams::default(), &node(unit)?)
                    .await
                    .context("create a node")
            }
        })
        .buffer_unordered(SIDE_BY_SIDE)
        .try_for_each(async |_| Ok(()))
        .await
}

/// Moves a node to another unit.
pub(crate) async fn relabel(client: &Client, node: usize, unit: &str) -> Result<()> {
    patch_node(
        client,
        node,
        &json!({ "metadata": { "labels": { KEY: unit } } }),
        false,
    )
    .await
}

/// A kubelet's heartbeat.
pub(crate) async fn heartbeat(client: &Client, node: usize, n: usize) -> Result<()> {
    let condition = json!({
        "type": "Ready", "status": "True", "lastHeartbeatTime": format!("2026-01-01T00:00:{n:02}Z"),
    });
    patch_node(
        client,
        node,
        &json!({ "status": { "conditions": [condition] } }),
        true,
    )
    .await
}

async fn patch_node(client: &Client, node: usize, patch: &Value, status: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let (name, params) = (format!("node-{node:05}"), PatchParams::default());
    let patch = Patch::Merge(patch);
    if status {
        nodes.patch_status(&name, &params, &patch).await?;
    } else {
        nodes.patch(&name, &params, &patch).await?;
    }
    Ok(())
}

/// Creates the grids.
pub(crate) async fn create_grids(client: &Client, count: usize) -> Result<()> {
    let grids: Api<DeploymentGrid> = Api::namespaced(client.clone(), GRIDS);
    for n in 0..count {
        let grid = grid(&format!("grid-{n}")).by(KEY).replicas(1);
        grids
            .create(&PostParams::default(), &grid.into())
            .await
            .context("create a grid")?;
    }
    Ok(())
}

/// Touches a grid without asking for anything else: a pass that finds all as it should be.
pub(crate) async fn touch_grid(client: &Client) -> Result<()> {
    let grids: Api<DeploymentGrid> = Api::namespaced(client.clone(), GRIDS);
    let note = json!({ "metadata": { "annotations": { "example.com/touched": "yes" } } });
    grids
        .patch("grid-0", &PatchParams::default(), &Patch::Merge(note))
        .await?;
    Ok(())
}

/// Creates Deployments as fast as this API server takes them; returns how long that took.
pub(crate) async fn create_loop(client: &Client, count: usize) -> Result<Duration> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": PEER } }))?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), PEER);
    let started = Instant::now();
    stream::iter(0..count)
        .map(|n| {
            let deployments = &deployments;
            let mut wanted: Deployment = edgegrid_testkit::workload(&format!("plain-{n}"))
                .replicas(1)
                .on_nodes(KEY, "unit")
                .into();
            wanted.metadata.namespace = Some(PEER.into());
            async move { deployments.create(&PostParams::default(), &wanted).await }
        })
        .buffer_unordered(SIDE_BY_SIDE)
        .try_for_each(async |_| Ok(()))
        .await
        .context("create a Deployment")?;
    Ok(started.elapsed())
}

/// A watch that counts the grids' Deployments.
pub(crate) async fn wait_for_deployments(client: &Client, count: usize) -> Result<()> {
    let deployments: Api<PartialObjectMeta<Deployment>> = Api::namespaced(client.clone(), GRIDS);
    let params = WatchParams::default().timeout(290);
    let watch = async {
        let mut seen = std::collections::BTreeSet::new();
        let mut version = "0".to_owned();
        loop {
            let mut events = deployments.watch(&params, &version).await?.boxed();
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(deployment) | WatchEvent::Modified(deployment) => {
                        version = deployment.resource_version().unwrap_or_default();
                        seen.insert(deployment.name_any());
                    }
                    WatchEvent::Deleted(deployment) => {
                        seen.remove(&deployment.name_any());
                    }
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(status) => bail!("watch: {status:?}"),
                }
                if seen.len() == count {
                    return Ok(());
                }
            }
        }
    };
    tokio::time::timeout(LIMIT, watch)
        .await
        .context("not all Deployments came")?
}
