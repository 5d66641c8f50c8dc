//! A cluster of two sites, and objects as its controllers would write them.

use anyhow::Result;
use edgegrid_testkit::Cluster;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A pod as a slice shows it.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) node: String,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
    pub(crate) hostname: bool,
}

pub(crate) fn pod(name: &str, address: &str, node: &str) -> Pod {
    Pod {
        name: name.to_owned(),
        address: address.to_owned(),
        node: node.to_owned(),
        ready: true,
        terminating: false,
        hostname: true,
    }
}

/// Nodes bj-1 and bj-2 in beijing, gz-1 in guangzhou; grid `db` with a set and two pods in each, and
/// its headless service `db-svc`, closed by location.
pub(crate) async fn two_sites() -> Result<Cluster> {
    let cluster = Cluster::embedded().await?;
    for (name, unit) in [
        ("bj-1", "beijing"),
        ("bj-2", "beijing"),
        ("gz-1", "guangzhou"),
    ] {
        let node = json!({ "metadata": { "name": name, "labels": { "location": unit } } });
        put::<Node>(&cluster, node).await?;
    }
    put::<Service>(
        &cluster,
        service(
            "db-svc",
            "None",
            &json!({ "topologyKeys": "[\"location\"]" }),
        ),
    )
    .await?;
    for unit in ["beijing", "guangzhou"] {
        put::<StatefulSet>(&cluster, set("db", unit)).await?;
    }
    put::<EndpointSlice>(&cluster, slice("db-svc-x", "db-svc", &both())).await?;
    Ok(cluster)
}

/// The pods of grid `db`.
pub(crate) fn both() -> [Pod; 4] {
    [
        pod("db-beijing-0", "10.0.1.10", "bj-1"),
        pod("db-beijing-1", "10.0.1.11", "bj-2"),
        pod("db-guangzhou-0", "10.0.2.10", "gz-1"),
        pod("db-guangzhou-1", "10.0.2.11", "gz-1"),
    ]
}

pub(crate) async fn put<K>(cluster: &Cluster, object: Value) -> Result<()>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + DeserializeOwned,
{
    let object: K = serde_json::from_value(object)?;
    cluster.apply::<K>(object).await?;
    Ok(())
}

pub(crate) async fn delete<K>(cluster: &Cluster, name: &str) -> Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let objects: Api<K> = Api::namespaced(cluster.client(), "default");
    objects.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

pub(crate) async fn annotate_service(cluster: &Cluster, name: &str, notes: &Value) -> Result<()> {
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let patch = Patch::Merge(json!({ "metadata": { "annotations": notes } }));
    services
        .patch(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

pub(crate) async fn relabel(cluster: &Cluster, node: &str, unit: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client());
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "location": unit } } }));
    nodes.patch(node, &PatchParams::default(), &patch).await?;
    Ok(())
}

pub(crate) fn service(name: &str, address: &str, annotations: &Value) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "default", "annotations": annotations },
        "spec": { "clusterIP": address, "selector": { "app": name }, "ports": [{ "name": "http", "port": 80 }] },
    })
}

/// The set of a grid in a unit, as edgegrid stamps it.
pub(crate) fn set(grid: &str, unit: &str) -> Value {
    let mut set = superedge_set(grid, unit);
    set["metadata"]["labels"]["edgegrid.io/unit"] = unit.into();
    let note = json!({ "grid": grid, "unit": unit }).to_string();
    set["metadata"]["annotations"] = json!({ "edgegrid.io/grid": note });
    set
}

/// The same as SuperEdge stamps it.
pub(crate) fn superedge_set(grid: &str, unit: &str) -> Value {
    let labels =
        json!({ "superedge.io/grid-selector": grid, "superedge.io/grid-uniq-key": "location" });
    let pod = json!({
        "metadata": { "labels": { "app": grid } },
        "spec": {
            "nodeSelector": { "location": unit },
            "containers": [{ "name": "echo", "image": "echo" }],
        },
    });
    json!({
        "metadata": { "name": format!("{grid}-{unit}"), "namespace": "default", "labels": labels },
        "spec": {
            "serviceName": "db-svc", "replicas": 2,
            "selector": { "matchLabels": { "app": grid } }, "template": pod,
        },
    })
}

pub(crate) fn slice(name: &str, service: &str, pods: &[Pod]) -> Value {
    let endpoint = |pod: &Pod| {
        let mut endpoint = json!({
            "addresses": [pod.address], "nodeName": pod.node,
            "conditions": { "ready": pod.ready, "terminating": pod.terminating },
            "targetRef": { "kind": "Pod", "namespace": "default", "name": pod.name },
        });
        if pod.hostname {
            endpoint["hostname"] = pod.name.clone().into();
        }
        endpoint
    };
    let family = match pods.first() {
        Some(pod) if pod.address.contains(':') => "IPv6",
        _ => "IPv4",
    };
    json!({
        "metadata": {
            "name": name, "namespace": "default",
            "labels": { "kubernetes.io/service-name": service, "service.kubernetes.io/headless": "" },
        },
        "addressType": family,
        "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    })
}
