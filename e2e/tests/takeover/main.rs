//! A cluster as SuperEdge left it passes to `edgegrid controller` on real Kubernetes, and no pod notices.
//!
//! ```text
//! SuperEdge's writes, long ago ─► kube-controller-manager, kube-scheduler: pods ─► edgegrid: the very same pods
//! ```

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stage;
mod superedge;

use anyhow::{Context, Result, ensure};
use edgegrid_api::names::{annotation, condition, finalizer, label, manager, marker};
use edgegrid_testkit::edgegrid::Controller;
use edgegrid_testkit::{Cluster, eventually};
use serde_json::{Value, json};
use stage::*;
use superedge::{beijing, put_status, sites, sites_and_grids};

async fn start(cluster: &Cluster) -> Controller {
    Controller::start(cluster, "controller", &[]).await.unwrap()
}

#[tokio::test]
async fn a_cluster_of_superedges_passes_to_edgegrid_and_no_pod_notices() {
    let cluster = sites_and_grids().await.unwrap();
    let running = running(&cluster).await.unwrap();
    let mut nodes = nodes(&cluster).await.unwrap();
    let _controller = start(&cluster).await;

    children_are_ours(&cluster).await;
    grids_are_ready(&cluster).await;
    nodes_keep_all_but_what_is_stale(&cluster, &mut nodes).await;
    units_and_group_are_ours(&cluster).await;
    nothing_moved(&cluster, &running).await;

    a_unit_stops_setting_what_it_set(&cluster, &mut nodes).await;
    nothing_moved(&cluster, &running).await;
    grids_drop_what_superedge_had_set(&cluster, &running).await;
    a_unit_goes_and_leaves_nothing(&cluster, &mut nodes).await;
}

/// Workloads and Service are ours alone, and say so.
async fn children_are_ours(cluster: &Cluster) {
    for (kind, name, unit) in children() {
        eventually(&format!("{} {name} is edgegrid's", kind.2), async || {
            let object = read(cluster, kind, &name).await?;
            let managers = managers(&object);
            for name in manager::SUPEREDGE {
                ensure!(
                    !managers.iter().any(|one| one.contains(name)),
                    "{managers:?}"
                );
            }
            let ours = format!("{} Apply", manager::EDGEGRID);
            ensure!(managers.contains(&ours), "{managers:?}");
            is_marked(&object["metadata"], unit)
        })
        .await
        .unwrap();
    }
}

/// Whether a workload of a unit, or a Service, carries what we put on it.
fn is_marked(metadata: &Value, unit: Option<&str>) -> Result<()> {
    let (labels, annotations) = (&metadata["labels"], &metadata["annotations"]);
    let owners = metadata["ownerReferences"].as_array().context("no owner")?;
    ensure!(
        owners.len() == 1 && owners[0]["controller"] == true,
        "{metadata:#}"
    );
    ensure!(
        labels[label::GRID_SELECTOR] == owners[0]["name"],
        "{metadata:#}"
    );
    ensure!(annotations[annotation::APPLIED].is_string(), "{metadata:#}");
    let Some(unit) = unit else {
        return Ok(());
    };
    ensure!(labels[label::UNIT] == unit, "{metadata:#}");
    ensure!(
        annotations[annotation::TEMPLATE_HASH].is_string(),
        "{metadata:#}"
    );
    let belongs = annotations[annotation::GRID].as_str().context("no grid")?;
    let belongs: Value = serde_json::from_str(belongs)?;
    ensure!(
        belongs == json!({ "grid": owners[0]["name"], "unit": unit }),
        "{belongs}"
    );
    Ok(())
}

async fn grids_are_ready(cluster: &Cluster) {
    for (kind, name, _) in GRIDS {
        eventually(&format!("{} {name} is ready", kind.2), async || {
            let grid = read(cluster, kind, name).await?;
            let (metadata, status) = (&grid["metadata"], &grid["status"]);
            ensure!(
                status["observedGeneration"] == metadata["generation"],
                "{grid:#}"
            );
            let conditions = status["conditions"].as_array().context("no conditions")?;
            for (type_, wanted) in [(condition::READY, "True"), (condition::DEGRADED, "False")] {
                let found = conditions.iter().find(|one| one["type"] == type_);
                ensure!(
                    found.is_some_and(|one| one["status"] == wanted),
                    "{status:#}"
                );
            }
            Ok(())
        })
        .await
        .unwrap();
    }
}

/// Labels of the unit that sh-2 left long ago go, all else stays, and none of it is site-manager's any more.
async fn nodes_keep_all_but_what_is_stale(cluster: &Cluster, nodes: &mut Snapshots) {
    take(nodes, "sh-2", "labels", "shanghai");
    take(nodes, "sh-2", "labels", "location");
    take(nodes, "sh-2", "annotations", "contact");
    until_nodes(cluster, nodes).await;
    eventually("nothing on a node is site-manager's", async || {
        for node in list(cluster, NODE).await? {
            let (name, managers) = (&node["metadata"]["name"], managers(&node));
            let mut managers = managers.iter();
            let left = managers.find(|one| one.contains(manager::SITE_MANAGER));
            ensure!(left.is_none(), "{name}: {left:?}");
        }
        Ok(())
    })
    .await
    .unwrap();
}

/// Finalizers and marks are as they were, and not site-manager's.
async fn units_and_group_are_ours(cluster: &Cluster) {
    for (unit, _) in SITES {
        eventually(&format!("NodeUnit {unit} is edgegrid's"), async || {
            let object = read(cluster, NODE_UNIT, unit).await?;
            let (metadata, managers) = (&object["metadata"], managers(&object));
            let theirs = format!("{} Update", manager::SITE_MANAGER);
            ensure!(!managers.contains(&theirs), "{managers:?}");
            ensure!(
                metadata["finalizers"] == json!([finalizer::NODE_UNIT]),
                "{metadata:#}"
            );
            ensure!(
                metadata["labels"] == json!({ "location": marker::NODE_GROUP }),
                "{metadata:#}"
            );
            let labels = &object["spec"]["setNode"]["labels"];
            ensure!(
                labels[unit] == marker::NODE_UNIT && labels["location"] == unit,
                "{labels:#}"
            );
            Ok(())
        })
        .await
        .unwrap();
    }
    eventually("the group has both units", async || {
        let group = read(cluster, NODE_GROUP, "location").await?;
        let status = &group["status"];
        ensure!(
            group["metadata"]["finalizers"] == json!([finalizer::NODE_GROUP]),
            "{group:#}"
        );
        ensure!(
            status["observedGeneration"] == group["metadata"]["generation"],
            "{group:#}"
        );
        ensure!(
            status["nodeUnits"] == json!(["beijing", "shanghai"]),
            "{group:#}"
        );
        Ok(())
    })
    .await
    .unwrap();
}

/// Nothing was made and nothing removed; pods are the same to the last byte.
async fn nothing_moved(cluster: &Cluster, before: &Snapshots) {
    until_rolled_out(cluster, SITES.len()).await.unwrap();
    let after = running(cluster).await.unwrap();
    for (name, was) in before {
        assert_eq!(after.get(name), Some(was), "{name}");
    }
    let new: Vec<&String> = after
        .keys()
        .filter(|name| !before.contains_key(*name))
        .collect();
    assert_eq!(new, [""; 0]);
}

/// The author takes `setNode` out of the manifest, and kubectl with it the marks that are shown there.
async fn a_unit_stops_setting_what_it_set(cluster: &Cluster, nodes: &mut Snapshots) {
    let spec = beijing(&json!({}));
    apply_site(cluster, (NODE_UNIT, "beijing"), &spec)
        .await
        .unwrap();
    for name in ["bj-1", "bj-2"] {
        take(nodes, name, "labels", "tier");
        take(nodes, name, "annotations", "contact");
        take(nodes, name, "taints", "edge=beijing:PreferNoSchedule");
    }
    until_nodes(cluster, nodes).await;
    eventually("the unit shows its marks again", async || {
        let unit = read(cluster, NODE_UNIT, "beijing").await?;
        let marks = json!({ "beijing": marker::NODE_UNIT, "location": "beijing" });
        ensure!(unit["spec"]["setNode"]["labels"] == marks, "{unit:#}");
        Ok(())
    })
    .await
    .unwrap();
}

/// A variable, a label and a port that SuperEdge had written go when their grid no longer has them. Its hash stays with
/// the pods, for example when a tool that keeps manifests puts the grid back.
async fn grids_drop_what_superedge_had_set(cluster: &Cluster, before: &Snapshots) {
    let remove = |path: &str| json!({ "op": "remove", "path": path });
    let variable = remove("/spec/template/template/spec/containers/0/env/3");
    let hash = label::TEMPLATE_HASH_KEY.replace('/', "~1");
    let hash = remove(&format!("/spec/template/template/metadata/labels/{hash}"));
    let of_workloads = [variable, hash, remove("/metadata/labels/team")];
    let of_service = [
        remove("/spec/template/ports/1"),
        remove("/metadata/labels/team"),
    ];
    for (kind, name, child) in GRIDS {
        let change = if child == SERVICE {
            json!(of_service)
        } else {
            json!(of_workloads)
        };
        edit(cluster, "json", (kind, name), &change).await.unwrap();
    }
    for (kind, name, unit) in children() {
        let mut wanted = before[&format!("{}/{name}", kind.2)]["spec"].clone();
        let place = match unit {
            Some(_) => "/template/spec/containers/0/env",
            None => "/ports",
        };
        let all = wanted.pointer_mut(place).unwrap().as_array_mut();
        all.unwrap().pop().unwrap();
        eventually(&format!("{} {name} is without it", kind.2), async || {
            let object = read(cluster, kind, &name).await?;
            let (labels, spec) = (&object["metadata"]["labels"], &object["spec"]);
            ensure!(*spec == wanted, "{spec:#} is not {wanted:#}");
            ensure!(labels.get("team").is_none(), "{labels:#}");
            Ok(())
        })
        .await
        .unwrap();
    }
    until_rolled_out(cluster, SITES.len()).await.unwrap();
    grids_are_ready(cluster).await;
}

/// Deleting a unit takes its marks from its nodes, its workloads with them, and nothing else.
async fn a_unit_goes_and_leaves_nothing(cluster: &Cluster, nodes: &mut Snapshots) {
    let mut before = running(cluster).await.unwrap();
    before.retain(|name, _| !name.contains("beijing") && !name.starts_with(SLICE.2));
    let delete = ["delete", "nodeunit", "beijing", "--timeout=60s"];
    cluster.kubectl(delete).await.unwrap();
    for name in ["bj-1", "bj-2"] {
        take(nodes, name, "labels", "beijing");
        take(nodes, name, "labels", "location");
    }
    until_nodes(cluster, nodes).await;
    until_rolled_out(cluster, 1).await.unwrap();
    eventually("the other unit runs on, and nothing else", async || {
        let mut after = running(cluster).await?;
        after.retain(|name, _| !name.starts_with(SLICE.2));
        let (seen, wanted) = (after.keys(), before.keys());
        ensure!(after == before, "{seen:?} is not {wanted:?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// What site-manager counted last is forgotten, also where we have nothing to say instead.
#[tokio::test]
async fn a_unit_counts_its_nodes_anew() {
    let cluster = sites().await.unwrap();
    let counted = json!({ "readyRate": "1/2", "readyNodes": ["bj-1"], "notReadyNodes": ["bj-2"] });
    put_status(&cluster, (NODE_UNIT, "beijing"), &counted)
        .await
        .unwrap();
    let _controller = start(&cluster).await;
    eventually("both nodes are ready, and none is not", async || {
        let unit = read(&cluster, NODE_UNIT, "beijing").await?;
        let status = &unit["status"];
        ensure!(status["readyRate"] == "2/2", "{status:#}");
        ensure!(
            status["readyNodes"] == json!(["bj-1", "bj-2"]),
            "{status:#}"
        );
        let not_ready = status["notReadyNodes"].as_array();
        ensure!(not_ready.is_none_or(Vec::is_empty), "{status:#}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Kubernetes keeps a node's taints as one list: whoever changed it last owns all of it, as kube-controller-manager
/// does whenever a node was out of reach.
#[tokio::test]
async fn a_units_taint_is_its_own_whoever_wrote_the_list_last() {
    let cluster = sites().await.unwrap();
    let foreign = ["taint", "node", "bj-1", "fan=loud:PreferNoSchedule"];
    cluster.kubectl(foreign).await.unwrap();
    let mut nodes = nodes(&cluster).await.unwrap();
    let _controller = start(&cluster).await;
    nodes_keep_all_but_what_is_stale(&cluster, &mut nodes).await;
    a_unit_stops_setting_what_it_set(&cluster, &mut nodes).await;
}
