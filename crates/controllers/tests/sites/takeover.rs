//! A cluster that SuperEdge's site-manager has written.

use std::time::Duration;

use anyhow::Result;
use edgegrid_api::{NodeGroup, NodeUnit};
use edgegrid_testkit::{Cluster, group};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Running, settle, start};
use crate::{
    MARK, condition, delete_group, delete_unit, edit_node, get_node, get_unit, labels, three_nodes,
    unit_of, until_labels,
};

/// Writes as site-manager, whose PUTs are updates under its own name.
fn site_manager() -> PatchParams {
    PatchParams {
        field_manager: Some("site-manager".into()),
        ..PatchParams::default()
    }
}

/// Unit `beijing` by selector over zone a, in group `location`, and b1 that left it long ago.
async fn superedge() -> Result<Cluster> {
    let cluster = three_nodes().await?;
    let spec = json!({ "selector": { "matchLabels": { "zone": "a" } } });
    cluster.apply::<NodeUnit>(unit_of("beijing", &spec)).await?;
    cluster
        .apply::<NodeGroup>(group("location", &["beijing"]))
        .await?;
    let nodes: Api<Node> = Api::all(cluster.client());
    let marks = json!({ "metadata": { "labels": { "beijing": MARK, "location": "beijing" } } });
    for name in ["a1", "a2", "b1"] {
        nodes
            .patch(name, &site_manager(), &Patch::Merge(&marks))
            .await?;
    }
    let units: Api<NodeUnit> = Api::all(cluster.client());
    let shown = json!({
        "metadata": {
            "finalizers": ["site.superedge.io/nodeunit"],
            "labels": { "location": "nodegroups.superedge.io" },
        },
        "spec": { "setNode": { "labels": { "beijing": MARK, "location": "beijing" } } },
    });
    units
        .patch("beijing", &site_manager(), &Patch::Merge(shown))
        .await?;
    let groups: Api<NodeGroup> = Api::all(cluster.client());
    let held = json!({ "metadata": { "finalizers": ["site.superedge.io/finalizer"] } });
    groups
        .patch("location", &site_manager(), &Patch::Merge(held))
        .await?;
    Ok(cluster)
}

async fn silent(cluster: &Cluster) -> Result<Running> {
    tokio::time::sleep(Duration::from_mins(5)).await;
    start(cluster).await
}

fn managers(
    entries: Option<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry>>,
) -> Vec<String> {
    entries
        .unwrap_or_default()
        .into_iter()
        .filter_map(|entry| entry.manager)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn labels_of_superedge_stay_where_they_belong_and_are_ours_to_remove() -> Result<()> {
    let cluster = superedge().await?;
    let running = silent(&cluster).await?;
    let touched = running
        .faults
        .record(|method, path| method == "PATCH" && path.contains("/nodes/a1"));
    settle(&cluster, &running).await?;
    until_labels(
        &cluster,
        "a1",
        &[("beijing", MARK), ("location", "beijing")],
    )
    .await?;
    assert!(touched.take().len() <= 2, "taken over, and unit-node-all");
    assert!(
        labels(&cluster, "b1").await?.is_empty(),
        "labels of a unit that the node left long ago go"
    );
    let node = get_node(&cluster, "a1").await?;
    let holding = managers(node.metadata.managed_fields);
    assert!(!holding.contains(&"site-manager".to_owned()), "{holding:?}");
    // Later removals work.
    edit_node(
        &cluster,
        "a1",
        &json!({ "metadata": { "labels": { "zone": "b" } } }),
    )
    .await?;
    until_labels(&cluster, "a1", &[]).await?;
    delete_group(&cluster, "location").await?;
    settle(&cluster, &running).await?;
    let unit = get_unit(&cluster, "beijing").await?.unwrap();
    assert_eq!(unit.metadata.labels, None);
    assert!(crate::get_group(&cluster, "location").await?.is_none());
    delete_unit(&cluster, "beijing").await?;
    settle(&cluster, &running).await?;
    assert!(get_unit(&cluster, "beijing").await?.is_none());
    assert!(labels(&cluster, "a2").await?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_site_manager_that_still_runs_is_not_fought_and_is_warned_about() -> Result<()> {
    let cluster = superedge().await?;
    let running = start(&cluster).await?;
    let nodes: Api<Node> = Api::all(cluster.client());
    let before: Value = json!(labels(&cluster, "b1").await?);
    for minute in 0..10 {
        let busy =
            json!({ "metadata": { "labels": { "beijing": MARK, "busy": minute.to_string() } } });
        for name in ["a1", "a2", "b1"] {
            nodes
                .patch(name, &site_manager(), &Patch::Merge(&busy))
                .await?;
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
    }
    let mut after = labels(&cluster, "b1").await?;
    after.remove("busy");
    assert_eq!(json!(after), before, "nothing was written");
    let said = condition(&cluster, "beijing", "Degraded")
        .await?
        .unwrap_or_default();
    assert!(said.starts_with("True SuperEdgeRunning"), "{said}");
    tokio::time::sleep(Duration::from_mins(3)).await;
    settle(&cluster, &running).await?;
    assert!(labels(&cluster, "b1").await?.is_empty(), "silent at last");
    until_labels(
        &cluster,
        "a1",
        &[("beijing", MARK), ("location", "beijing")],
    )
    .await?;
    let said = condition(&cluster, "beijing", "Degraded")
        .await?
        .unwrap_or_default();
    assert!(said.starts_with("False AsWanted"), "{said}");
    Ok(())
}
