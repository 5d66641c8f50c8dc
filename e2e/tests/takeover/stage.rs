//! What the tests of the takeover look at: objects as JSON, pods and what they come from, nodes.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use edgegrid_api::names::{self, annotation};
use edgegrid_testkit::{Cluster, eventually};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// Group, version and name of a kind.
pub(crate) type Gvk = (&'static str, &'static str, &'static str);
/// What is looked at of objects, by their names.
pub(crate) type Snapshots = BTreeMap<String, Value>;

pub(crate) const NODE: Gvk = ("", "v1", "Node");
pub(crate) const POD: Gvk = ("", "v1", "Pod");
pub(crate) const SERVICE: Gvk = ("", "v1", "Service");
pub(crate) const SLICE: Gvk = ("discovery.k8s.io", "v1", "EndpointSlice");
pub(crate) const DEPLOYMENT: Gvk = ("apps", "v1", "Deployment");
pub(crate) const REPLICA_SET: Gvk = ("apps", "v1", "ReplicaSet");
pub(crate) const STATEFUL_SET: Gvk = ("apps", "v1", "StatefulSet");
pub(crate) const REVISION: Gvk = ("apps", "v1", "ControllerRevision");
pub(crate) const NODE_UNIT: Gvk = (names::SITE_GROUP, names::SITE_VERSION, "NodeUnit");
pub(crate) const NODE_GROUP: Gvk = (names::SITE_GROUP, names::SITE_VERSION, "NodeGroup");
pub(crate) const DEPLOYMENT_GRID: Gvk = (names::GRID_GROUP, names::GRID_VERSION, "DeploymentGrid");
pub(crate) const STATEFUL_SET_GRID: Gvk =
    (names::GRID_GROUP, names::GRID_VERSION, "StatefulSetGrid");
pub(crate) const SERVICE_GRID: Gvk = (names::GRID_GROUP, names::GRID_VERSION, "ServiceGrid");

/// The grids of the seeds, and what they are made into.
pub(crate) const GRIDS: [(Gvk, &str, Gvk); 3] = [
    (DEPLOYMENT_GRID, "deploymentgrid-demo", DEPLOYMENT),
    (STATEFUL_SET_GRID, "statefulsetgrid-demo", STATEFUL_SET),
    (SERVICE_GRID, "servicegrid-demo", SERVICE),
];
/// Units and the nodes that carry their labels; sh-2 left its unit long ago.
pub(crate) const SITES: [(&str, [&str; 2]); 2] = [
    ("beijing", ["bj-1", "bj-2"]),
    ("shanghai", ["sh-1", "sh-2"]),
];
/// What a unit runs: two pods of the Deployment, three of the StatefulSet.
const PODS_OF_UNIT: usize = 5;

/// What the grids are made into, and the unit of each workload.
pub(crate) fn children() -> Vec<(Gvk, String, Option<&'static str>)> {
    let mut children = vec![(SERVICE, names::service("servicegrid-demo"), None)];
    for (_, grid, kind) in &GRIDS[..2] {
        let of_grid = SITES.map(|(unit, _)| (*kind, names::workload(grid, unit), Some(unit)));
        children.extend(of_grid);
    }
    children
}

pub(crate) fn api(cluster: &Cluster, kind: Gvk) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.0, kind.1, kind.2));
    if [NODE, NODE_UNIT, NODE_GROUP].contains(&kind) {
        Api::all_with(cluster.client(), &resource)
    } else {
        Api::default_namespaced_with(cluster.client(), &resource)
    }
}

pub(crate) async fn read(cluster: &Cluster, kind: Gvk, name: &str) -> Result<Value> {
    let object = api(cluster, kind).get(name).await;
    let object = object.with_context(|| format!("read {} {name}", kind.2))?;
    Ok(serde_json::to_value(object)?)
}

pub(crate) async fn list(cluster: &Cluster, kind: Gvk) -> Result<Vec<Value>> {
    let objects = api(cluster, kind).list(&ListParams::default()).await?;
    let objects = objects.items.into_iter().map(serde_json::to_value);
    Ok(objects.collect::<Result<_, _>>()?)
}

/// A patch by kubectl, `merge` or `json`.
pub(crate) async fn edit(
    cluster: &Cluster,
    how: &str,
    (kind, name): (Gvk, &str),
    change: &Value,
) -> Result<()> {
    let (how, change) = (format!("--type={how}"), change.to_string());
    let patch = ["patch", kind.2, name, &how, "-p", &change];
    cluster.kubectl(patch).await?;
    Ok(())
}

/// A unit or group as its author applies it.
pub(crate) async fn apply_site(
    cluster: &Cluster,
    (kind, name): (Gvk, &str),
    spec: &Value,
) -> Result<()> {
    let site = json!({
        "apiVersion": format!("{}/{}", kind.0, kind.1), "kind": kind.2, "metadata": { "name": name }, "spec": spec,
    });
    let apply = ["apply", "-f", "-"];
    cluster.kubectl_with_input(apply, &site.to_string()).await?;
    Ok(())
}

/// Who owns fields and how: `edgegrid Apply`, `site-manager Update status`.
pub(crate) fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let words = |entry: &Value| {
        let words = ["manager", "operation", "subresource"].map(|word| entry[word].as_str());
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    entries.into_iter().flatten().map(words).collect()
}

/// Waits until Kubernetes has seen to every workload, this many units have their pods, and no other pod is left.
pub(crate) async fn until_rolled_out(cluster: &Cluster, units: usize) -> Result<()> {
    eventually(&format!("the pods of {units} units run"), async || {
        for kind in [DEPLOYMENT, STATEFUL_SET] {
            for workload in list(cluster, kind).await? {
                let (metadata, status) = (&workload["metadata"], &workload["status"]);
                let is_seen = status["observedGeneration"] == metadata["generation"];
                let counts = ["replicas", "updatedReplicas", "availableReplicas"];
                let wanted = &workload["spec"]["replicas"];
                let is_complete = counts.iter().all(|count| status[*count] == *wanted);
                ensure!(is_seen && is_complete, "{workload:#}");
            }
        }
        let pods = list(cluster, POD).await?;
        ensure!(pods.len() == units * PODS_OF_UNIT, "{} pods", pods.len());
        Ok(())
    })
    .await
}

/// Pods as a whole, and what must not change of what they come from.
///
/// Kubernetes itself copies a Deployment's annotations to each ReplicaSet of it, counts them in its generation, and
/// copies a Service's labels to its slices.
pub(crate) async fn running(cluster: &Cluster) -> Result<Snapshots> {
    let mut seen = Snapshots::new();
    let kinds = [
        POD,
        REPLICA_SET,
        REVISION,
        DEPLOYMENT,
        STATEFUL_SET,
        SERVICE,
        SLICE,
    ];
    for kind in kinds {
        for object in list(cluster, kind).await? {
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().context("an object has no name")?;
            let name = format!("{}/{name}", kind.2);
            let mut look = json!({ "uid": metadata["uid"] });
            for part in ["spec", "data", "endpoints"] {
                look[part] = object[part].clone();
            }
            if [REPLICA_SET, STATEFUL_SET].contains(&kind) {
                look["generation"] = metadata["generation"].clone();
            }
            seen.insert(name, if kind == POD { object } else { look });
        }
    }
    Ok(seen)
}

/// Labels, annotations and taints of all nodes, but those of Kubernetes and our own note; taints as kubectl prints them.
pub(crate) async fn nodes(cluster: &Cluster) -> Result<Snapshots> {
    let mut seen = Snapshots::new();
    for node in list(cluster, NODE).await? {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let mut look = json!({ "labels": {}, "annotations": {}, "taints": {} });
        for of in ["labels", "annotations"] {
            for (key, value) in node["metadata"][of].as_object().into_iter().flatten() {
                if !key.contains("kubernetes.io/") && key != annotation::TAINTS {
                    look[of][key] = value.clone();
                }
            }
        }
        for taint in node["spec"]["taints"].as_array().into_iter().flatten() {
            let [key, value, effect] = ["key", "value", "effect"].map(|part| taint[part].as_str());
            let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
            if !key.contains("kubernetes.io/") {
                let taint = format!("{key}={value}:{}", effect.unwrap_or_default());
                look["taints"][taint] = json!({});
            }
        }
        seen.insert(name.to_owned(), look);
    }
    Ok(seen)
}

/// Strikes out what a node is to lose.
pub(crate) fn take(nodes: &mut Snapshots, node: &str, part: &str, key: &str) {
    let node = nodes.get_mut(node).unwrap();
    let taken = node[part].as_object_mut().unwrap().remove(key);
    assert!(taken.is_some(), "no {key} in the {part} of {node:#}");
}

/// Waits until nodes carry this and nothing else.
pub(crate) async fn until_nodes(cluster: &Cluster, wanted: &Snapshots) {
    eventually("nodes carry what they should", async || {
        for (name, seen) in nodes(cluster).await? {
            let wanted = &wanted[&name];
            ensure!(seen == *wanted, "{name}: {seen:#} is not {wanted:#}");
        }
        Ok(())
    })
    .await
    .unwrap();
}
