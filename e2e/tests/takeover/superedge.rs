//! What SuperEdge leaves behind, as its writes leave it: its definitions, nodes, units, grids and their children.
//!
//! As its source of February 2024 has it. Whoever wrote last must have been silent for a while before we
//! take over, so everything is dated back.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use edgegrid_api::names::{self, annotation, finalizer, label, manager, marker};
use edgegrid_testkit::{Cluster, eventually, node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::stage::{
    GRIDS, Gvk, NODE, NODE_GROUP, NODE_UNIT, SERVICE_GRID, SITES, api, apply_site, edit, read,
    until_rolled_out,
};

const SITE_MANAGER: &str = manager::SITE_MANAGER;
const GRID_CONTROLLER: &str = manager::SUPEREDGE[0];
/// SuperEdge's writes are made under this name before they are dated back.
const STAND_IN: &str = "recorder";
/// When SuperEdge wrote last.
const THEN: &str = "2024-02-20T12:00:00Z";
const OLDER_VERSION: &str = "v1alpha1";
const HASH: &str = "17236471922847562";

/// Sites and grids, with their pods running.
pub(crate) async fn sites_and_grids() -> Result<Cluster> {
    let cluster = sites().await?;
    record_volumes(&cluster).await?;
    record_grids(&cluster).await?;
    until_rolled_out(&cluster, SITES.len()).await?;
    Ok(cluster)
}

/// Nodes, units and a group.
pub(crate) async fn sites() -> Result<Cluster> {
    let cluster = Cluster::upstream().with_controllers().await?;
    cluster.install(definitions()).await?;
    for (unit, nodes) in SITES {
        for name in nodes {
            record_node(&cluster, name, unit).await?;
        }
    }
    cluster
        .kubectl(["label", "node", "sh-1", "site=sh"])
        .await?;
    record_units(&cluster).await?;
    Ok(cluster)
}

/// The unit beijing as its author has it.
pub(crate) fn beijing(set_node: &Value) -> Value {
    json!({ "type": "edge", "nodes": ["bj-1", "bj-2"], "setNode": set_node })
}

/// What units set on their nodes.
fn set_node(unit: &str) -> Value {
    match unit {
        "beijing" => json!({
            "labels": { "tier": "edge" },
            "annotations": { "contact": "beijing" },
            "taints": [{ "key": "edge", "value": "beijing", "effect": "PreferNoSchedule" }],
        }),
        _ => json!({ "annotations": { "contact": unit } }),
    }
}

/// Definitions without our schemas, columns and mark. Grids have no status subresource, sites an
/// older version whose webhook went with site-manager.
fn definitions() -> Vec<CustomResourceDefinition> {
    let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let version = |name: &str, subresources: &Value| {
        json!({
            "name": name, "served": true, "storage": name != OLDER_VERSION, "schema": schema, "subresources": subresources,
        })
    };
    let status = json!({ "status": {} });
    let versions = [OLDER_VERSION, names::SITE_VERSION].map(|name| version(name, &status));
    let theirs = edgegrid_api::crds().into_iter().map(|ours| {
        let (name, spec) = (ours.metadata.name, ours.spec);
        let mut theirs = json!({ "metadata": { "name": name }, "spec": {
            "group": spec.group, "scope": spec.scope, "names": spec.names,
            "versions": [version(names::GRID_VERSION, &Value::Null)],
        } });
        if spec.group == names::SITE_GROUP {
            theirs["spec"]["versions"] = json!(versions);
            theirs["spec"]["conversion"] = webhook();
        }
        serde_json::from_value(theirs).unwrap()
    });
    theirs.collect()
}

/// Site-manager's webhook, when site-manager is gone.
fn webhook() -> Value {
    json!({ "strategy": "Webhook", "webhook": {
        "clientConfig": { "url": "https://127.0.0.1:9/v1" }, "conversionReviewVersions": ["v1"],
    } })
}

/// A node with a taint of somebody else's, and what site-manager put on it.
async fn record_node(cluster: &Cluster, name: &str, unit: &str) -> Result<()> {
    cluster.add_nodes([node(name).label("rack", "r7")]).await?;
    eventually(&format!("Kubernetes lets {name} in"), async || {
        let node = read(cluster, NODE, name).await?;
        ensure!(node["spec"].get("taints").is_none(), "{node:#}");
        Ok(())
    })
    .await?;
    let foreign = ["taint", "node", name, "disk=slow:PreferNoSchedule"];
    cluster.kubectl(foreign).await?;
    let set_node = set_node(unit);
    put(cluster, SITE_MANAGER, (NODE, name), |node| {
        let labels = &mut node["metadata"]["labels"];
        labels[names::UNIT_NODE_ALL] = json!(marker::NODE_UNIT);
        labels[unit] = json!(marker::NODE_UNIT);
        labels["location"] = json!(unit);
        for of in ["labels", "annotations"] {
            for (key, value) in set_node[of].as_object().into_iter().flatten() {
                node["metadata"][of][key] = value.clone();
            }
        }
        let taints = set_node["taints"].as_array().into_iter().flatten();
        let all = node["spec"]["taints"].as_array_mut().unwrap();
        all.extend(taints.cloned());
    })
    .await
}

/// Units and group as their author applies them, and what site-manager adds.
async fn record_units(cluster: &Cluster) -> Result<()> {
    let spec = beijing(&set_node("beijing"));
    apply_site(cluster, (NODE_UNIT, "beijing"), &spec).await?;
    let spec = json!({
        "type": "edge", "selector": { "matchLabels": { "site": "sh" } }, "setNode": set_node("shanghai"),
    });
    apply_site(cluster, (NODE_UNIT, "shanghai"), &spec).await?;
    let group = (NODE_GROUP, "location");
    let units = SITES.map(|(unit, _)| unit);
    apply_site(cluster, group, &json!({ "nodeUnits": units })).await?;
    let all = json!({
        "metadata": { "name": names::UNIT_NODE_ALL, "finalizers": [finalizer::NODE_UNIT] },
        "spec": {
            "type": "other", "selector": { "matchLabels": { "kubernetes.io/os": "linux" } },
            "setNode": { "labels": { names::UNIT_NODE_ALL: marker::NODE_UNIT } },
        },
    });
    post(cluster, SITE_MANAGER, NODE_UNIT, &all).await?;
    for unit in units {
        put(cluster, SITE_MANAGER, (NODE_UNIT, unit), |object| {
            object["metadata"]["finalizers"] = json!([finalizer::NODE_UNIT]);
            object["metadata"]["labels"]["location"] = json!(marker::NODE_GROUP);
            object["spec"]["setNode"]["labels"][unit] = json!(marker::NODE_UNIT);
            object["spec"]["setNode"]["labels"]["location"] = json!(unit);
        })
        .await?;
    }
    put(cluster, SITE_MANAGER, group, |object| {
        object["metadata"]["finalizers"] = json!([finalizer::NODE_GROUP]);
    })
    .await?;
    let counted = json!({ "unitNumber": 2, "nodeUnits": units });
    put_status(cluster, group, &counted).await
}

/// One for each pod of the StatefulSets.
async fn record_volumes(cluster: &Cluster) -> Result<()> {
    let volumes = (0..6).map(|number| json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": format!("disk-{number}") },
        "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/data" } },
    }));
    let volumes: Vec<Value> = volumes.collect();
    let volumes = json!({ "apiVersion": "v1", "kind": "List", "items": volumes }).to_string();
    let create = ["create", "-f", "-"];
    cluster.kubectl_with_input(create, &volumes).await?;
    Ok(())
}

/// The grids of the seeds with a label, claims and a second port, and what SuperEdge made of them.
async fn record_grids(cluster: &Cluster) -> Result<()> {
    let claim = json!({ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": { "requests": { "storage": "1Gi" } },
    } });
    let port = |name: &str, port: u16| json!({ "name": name, "port": port, "targetPort": 8080, "protocol": "TCP" });
    let more = [
        json!({}),
        json!({ "volumeClaimTemplates": [claim] }),
        json!({ "ports": [port("http", 80), port("metrics", 9090)] }),
    ];
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/api/fixtures/seeds");
    for ((kind, name, child), more) in GRIDS.into_iter().zip(more) {
        let seed = seeds.join(format!("001-{}.yaml", kind.2.to_lowercase()));
        let apply = ["apply", "-f", seed.to_str().context("path is not text")?];
        cluster.kubectl(apply).await?;
        let more =
            json!({ "metadata": { "labels": { "team": "edge" } }, "spec": { "template": more } });
        edit(cluster, "merge", (kind, name), &more).await?;
        if kind == SERVICE_GRID {
            record_service(cluster, name, child).await?;
        } else {
            record_workloads(cluster, (kind, name), child).await?;
        }
    }
    Ok(())
}

/// SuperEdge's hash in the grid itself, and one workload per unit.
async fn record_workloads(cluster: &Cluster, grid: (Gvk, &str), kind: Gvk) -> Result<()> {
    put(cluster, GRID_CONTROLLER, grid, |object| {
        let spec = &mut object["spec"];
        spec["defaultTemplateName"] = json!(names::DEFAULT_TEMPLATE);
        let labels = &mut spec["template"]["template"]["metadata"]["labels"];
        labels[label::TEMPLATE_HASH_KEY] = json!(HASH);
    })
    .await?;
    let mut object = child_of(cluster, grid).await?;
    let owner = read(cluster, grid.0, grid.1).await?;
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "superedge.io/v1", "kind": grid.0.2, "name": grid.1, "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    for (unit, _) in SITES {
        object["metadata"]["name"] = json!(names::workload(grid.1, unit));
        object["spec"]["template"]["spec"]["nodeSelector"] = json!({ "location": unit });
        post(cluster, GRID_CONTROLLER, kind, &object).await?;
    }
    Ok(())
}

/// A Service without owner, with all of the grid's annotations.
async fn record_service(cluster: &Cluster, grid: &str, kind: Gvk) -> Result<()> {
    let mut object = child_of(cluster, (SERVICE_GRID, grid)).await?;
    let owner = read(cluster, SERVICE_GRID, grid).await?;
    let metadata = &mut object["metadata"];
    metadata["name"] = json!(names::service(grid));
    metadata["annotations"] = owner["metadata"]["annotations"].clone();
    metadata["annotations"][annotation::TOPOLOGY_KEYS] = json!("[\"location\"]");
    post(cluster, GRID_CONTROLLER, kind, &object).await
}

/// The labels and the template of a grid, as an object of its own.
async fn child_of(cluster: &Cluster, (kind, name): (Gvk, &str)) -> Result<Value> {
    let grid = read(cluster, kind, name).await?;
    let mut labels = grid["metadata"]["labels"].clone();
    labels[label::GRID_SELECTOR] = json!(name);
    labels[label::GRID_UNIQ_KEY] = json!("location");
    Ok(json!({ "metadata": { "labels": labels }, "spec": grid["spec"]["template"] }))
}

async fn post(cluster: &Cluster, by: &str, kind: Gvk, object: &Value) -> Result<()> {
    let name = object["metadata"]["name"].as_str().context("no name")?;
    let mut typed = object.clone();
    typed["apiVersion"] = json!(format!("{}/{}", kind.0, kind.1).trim_start_matches('/'));
    typed["kind"] = json!(kind.2);
    let typed: DynamicObject = serde_json::from_value(typed)?;
    let posted = api(cluster, kind).create(&as_stand_in(), &typed).await;
    posted.with_context(|| format!("create {} {name}", kind.2))?;
    date_back(cluster, by, (kind, name)).await
}

/// Changes an object: all of it is read and written.
async fn put(
    cluster: &Cluster,
    by: &str,
    object: (Gvk, &str),
    change: impl Fn(&mut Value),
) -> Result<()> {
    replace(cluster, object, &change).await?;
    date_back(cluster, by, object).await
}

/// Writes a status as site-manager.
pub(crate) async fn put_status(
    cluster: &Cluster,
    (kind, name): (Gvk, &str),
    status: &Value,
) -> Result<()> {
    let mut object = read(cluster, kind, name).await?;
    object["status"] = status.clone();
    let object: DynamicObject = serde_json::from_value(object)?;
    let api = api(cluster, kind);
    let replaced = api.replace_status(name, &as_stand_in(), &object).await;
    replaced.with_context(|| format!("write the status of {} {name}", kind.2))?;
    date_back(cluster, SITE_MANAGER, (kind, name)).await
}

/// Gives what was just written to a program of SuperEdge's, long ago. Kubernetes sets times itself and takes back a
/// change of nothing but times, so the writer's name changes with them.
async fn date_back(cluster: &Cluster, by: &str, object: (Gvk, &str)) -> Result<()> {
    let stored = replace(cluster, object, &|object: &mut Value| {
        let entries = object["metadata"]["managedFields"].as_array_mut();
        for entry in entries.into_iter().flatten() {
            if entry["manager"] == STAND_IN {
                entry["manager"] = json!(by);
                entry["time"] = json!(THEN);
            }
        }
    })
    .await?;
    let entries = stored["metadata"]["managedFields"].as_array();
    let entries = entries.context("nobody holds anything")?;
    let is_recent = |entry: &&Value| entry["manager"] == by && entry["time"] != THEN;
    ensure!(!entries.iter().any(|entry| is_recent(&entry)), "{stored:#}");
    ensure!(
        entries.iter().any(|entry| entry["manager"] == by),
        "{stored:#}"
    );
    Ok(())
}

/// A PUT at the revision that was read, again if somebody came between.
async fn replace(
    cluster: &Cluster,
    (kind, name): (Gvk, &str),
    change: &impl Fn(&mut Value),
) -> Result<Value> {
    eventually(&format!("{} {name} is written", kind.2), async || {
        let mut object = read(cluster, kind, name).await?;
        change(&mut object);
        let object: DynamicObject = serde_json::from_value(object)?;
        let api = api(cluster, kind);
        let stored = api.replace(name, &as_stand_in(), &object).await?;
        Ok(serde_json::to_value(stored)?)
    })
    .await
}

fn as_stand_in() -> PostParams {
    PostParams {
        field_manager: Some(STAND_IN.into()),
        ..PostParams::default()
    }
}
