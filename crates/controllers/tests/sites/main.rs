//! NodeUnits, NodeGroups and node labels on an embedded cluster, in virtual time.
//!
//! What SuperEdge does wrong, and which test shows the opposite: `docs/superedge-defects.md`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../harness/mod.rs"]
mod harness;

mod cost;
mod rules;
mod takeover;
mod walkthrough;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use edgegrid_api::{NodeGroup, NodeUnit};
use edgegrid_testkit::{Cluster, eventually, node};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

pub(crate) const MARK: &str = "nodeunits.superedge.io";

/// A cluster with nodes a1, a2 in zone a and b1 in zone b.
pub(crate) async fn three_nodes() -> Result<Cluster> {
    let cluster = harness::cluster().await?;
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        cluster.add_nodes([node(name).label("zone", zone)]).await?;
    }
    Ok(cluster)
}

pub(crate) fn unit_of(name: &str, spec: &Value) -> NodeUnit {
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
}

pub(crate) fn group_of(name: &str, spec: &Value) -> NodeGroup {
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
}

pub(crate) async fn get_node(cluster: &Cluster, name: &str) -> Result<Node> {
    Ok(Api::all(cluster.client()).get(name).await?)
}

pub(crate) async fn get_unit(cluster: &Cluster, name: &str) -> Result<Option<NodeUnit>> {
    Ok(Api::all(cluster.client()).get_opt(name).await?)
}

pub(crate) async fn get_group(cluster: &Cluster, name: &str) -> Result<Option<NodeGroup>> {
    Ok(Api::all(cluster.client()).get_opt(name).await?)
}

pub(crate) async fn delete_unit(cluster: &Cluster, name: &str) -> Result<()> {
    let units: Api<NodeUnit> = Api::all(cluster.client());
    units.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

pub(crate) async fn delete_group(cluster: &Cluster, name: &str) -> Result<()> {
    let groups: Api<NodeGroup> = Api::all(cluster.client());
    groups.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// A node's labels but those that every node of a test has.
pub(crate) async fn labels(cluster: &Cluster, name: &str) -> Result<BTreeMap<String, String>> {
    let mut labels = get_node(cluster, name)
        .await?
        .metadata
        .labels
        .unwrap_or_default();
    labels.retain(|key, _| {
        !key.starts_with("kubernetes.io/") && key != "unit-node-all" && key != "zone"
    });
    Ok(labels)
}

pub(crate) async fn edit_node(cluster: &Cluster, name: &str, patch: &Value) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client());
    let params = PatchParams {
        field_manager: Some("somebody".into()),
        ..PatchParams::default()
    };
    nodes.patch(name, &params, &Patch::Merge(patch)).await?;
    Ok(())
}

pub(crate) async fn set_ready(cluster: &Cluster, name: &str, ready: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client());
    let status = if ready { "True" } else { "Unknown" };
    let patch = json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Strategic(patch))
        .await?;
    Ok(())
}

/// Waits until a node has exactly these labels besides those of every node.
pub(crate) async fn until_labels(
    cluster: &Cluster,
    name: &str,
    wanted: &[(&str, &str)],
) -> Result<()> {
    let wanted: BTreeMap<String, String> = wanted
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect();
    eventually(&format!("{name} has {wanted:?}"), async || {
        let seen = labels(cluster, name).await?;
        ensure!(seen == wanted, "{seen:?}");
        Ok(())
    })
    .await
}

/// A condition of a unit, `None` if it has none of that type.
pub(crate) async fn condition(
    cluster: &Cluster,
    unit: &str,
    type_: &str,
) -> Result<Option<String>> {
    let unit = get_unit(cluster, unit).await?.context("no such unit")?;
    let conditions = unit.status.unwrap_or_default().conditions;
    let found = conditions.into_iter().find(|one| one.type_ == type_);
    Ok(found.map(|one| format!("{} {}: {}", one.status, one.reason, one.message)))
}
