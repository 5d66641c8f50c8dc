//! What is asked of the cluster: nodes, grids, and the plain loop to compare with.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use edgegrid_api::DeploymentGrid;
use edgegrid_api::names::{annotation, label};
use edgegrid_testkit::grid;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The label whose values are the units.
const KEY: &str = "location";
/// Namespace of the grids.
pub(crate) const GRIDS: &str = "default";
/// Requests of a plain loop that are under way at the same time.
const SIDE_BY_SIDE: usize = 8;
/// No case takes longer.
const LIMIT: Duration = Duration::from_mins(10);

/// How a plain loop makes its objects.
#[derive(Clone, Copy)]
pub(crate) enum Write {
    /// By POST: the least an API server can be asked for a new object.
    Create,
    /// By server-side apply: what a controller pays that must be able to take fields away again.
    Apply,
}

impl Write {
    fn namespace(self) -> &'static str {
        match self {
            Write::Create => "peer-create",
            Write::Apply => "peer-apply",
        }
    }
}

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

/// Writes a Node's status as a kubelet does that has nothing new to say.
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

/// Makes Deployments as fast as this API server takes them, and returns how long it took until a watch had
/// seen them all. They are as large as those of a grid.
pub(crate) async fn plain_loop(client: &Client, write: Write, count: usize) -> Result<Duration> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let name = write.namespace();
    let namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let started = Instant::now();
    let written = stream::iter(0..count)
        .map(|n| make(client, write, n))
        .buffer_unordered(SIDE_BY_SIDE)
        .try_for_each(async |()| Ok(()));
    let (seen, written) = futures::join!(wait_for_deployments(client, name, count), written);
    written.and(seen)?;
    Ok(started.elapsed())
}

async fn make(client: &Client, write: Write, n: usize) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), write.namespace());
    let wanted = plain_deployment(n);
    let made = match write {
        Write::Create => deployments.create(&PostParams::default(), &wanted).await,
        Write::Apply => {
            let params = PatchParams::apply("bench");
            let name = wanted.name_any();
            deployments
                .patch(&name, &params, &Patch::Apply(&wanted))
                .await
        }
    };
    made.map(drop).context("make a Deployment")
}

fn plain_deployment(n: usize) -> Deployment {
    let name = format!("plain-{n}");
    let workload = edgegrid_testkit::workload(&name).replicas(1);
    let mut wanted: Deployment = workload.on_nodes(KEY, "unit").into();
    // As long as the grids' own names, and not them: the controller would hold these objects too.
    let note = |key: &str, value: &str| (key.replace("edge", "load"), value.to_owned());
    let metadata = &mut wanted.metadata;
    metadata.namespace = None;
    let labels = [
        note(label::GRID_SELECTOR, "plain"),
        note(label::GRID_UNIQ_KEY, KEY),
        note(label::UNIT, &name),
    ];
    let annotations = [
        note(annotation::GRID, &format!("plain/{name}")),
        note(annotation::TEMPLATE_HASH, "0123456789abcdef"),
    ];
    metadata.labels = Some(labels.into());
    metadata.annotations = Some(annotations.into());
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: "superedge.io/v1".into(),
        kind: "DeploymentGrid".into(),
        name: "plain".into(),
        uid: "00000000-0000-4000-8000-000000000000".into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    wanted
}

/// A watch that counts a namespace's Deployments.
pub(crate) async fn wait_for_deployments(
    client: &Client,
    namespace: &str,
    count: usize,
) -> Result<()> {
    let deployments: Api<PartialObjectMeta<Deployment>> =
        Api::namespaced(client.clone(), namespace);
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
