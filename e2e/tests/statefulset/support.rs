//! A cluster without their StatefulSet controller, ours beside it, and what tests look at.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_statefulset::{Config, run};
use edgegrid_testkit::{Cluster, Patience, eventually_within, node};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

pub(crate) const THEIRS: &str = "statefulset-controller";
pub(crate) const SERVICE: &str =
    include_str!("../../../crates/api/fixtures/seeds/004-service.yaml");
pub(crate) const SET: &str =
    include_str!("../../../crates/api/fixtures/seeds/004-statefulset.yaml");

/// Our controller, until it is stopped or dropped.
pub(crate) struct Ours {
    stop: oneshot::Sender<()>,
    running: JoinSet<()>,
}

impl Ours {
    pub(crate) fn start(cluster: &Cluster) -> Ours {
        let (stop, stopped) = oneshot::channel::<()>();
        let mut running = JoinSet::new();
        let shutdown = async move { drop(stopped.await) };
        running.spawn(run(cluster.client(), Config::default(), shutdown));
        Ours { stop, running }
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn stop(mut self) {
        self.stop.send(()).unwrap();
        while self.running.join_next().await.is_some() {}
    }
}

pub(crate) async fn cluster_without_theirs() -> Cluster {
    let cluster = Cluster::upstream()
        .with_controllers_but([THEIRS])
        .await
        .unwrap();
    add_nodes(&cluster).await;
    cluster
}

pub(crate) async fn add_nodes(cluster: &Cluster) {
    let nodes = ["n1", "n2", "n3", "n4"].map(node);
    cluster.add_nodes(nodes).await.unwrap();
}

pub(crate) fn api<K>(cluster: &Cluster) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    Api::namespaced(cluster.client(), "default")
}

pub(crate) async fn all<K>(cluster: &Cluster) -> Result<Vec<K>>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    Ok(api::<K>(cluster).list(&ListParams::default()).await?.items)
}

pub(crate) async fn set(cluster: &Cluster) -> Result<StatefulSet> {
    Ok(api(cluster).get("web").await?)
}

/// Waits until the set has all its pods at their newest template.
pub(crate) async fn rolled_out(cluster: &Cluster) -> Result<()> {
    let patience = Patience {
        limit: Duration::from_mins(2),
        pause: Duration::from_millis(100),
    };
    eventually_within(patience, "the set is rolled out", async || {
        let set = set(cluster).await?;
        let status = set.status.context("a status")?;
        let wanted = set.spec.replicas.unwrap_or(1);
        ensure!(
            status.observed_generation == set.metadata.generation,
            "{status:?}"
        );
        ensure!(
            status.current_revision == status.update_revision,
            "{status:?}"
        );
        let counts = [
            status.replicas,
            status.ready_replicas.unwrap_or(0),
            status.updated_replicas.unwrap_or(0),
        ];
        ensure!(counts == [wanted; 3], "{status:?}");
        Ok(())
    })
    .await
}

/// Uid, host name and address of every pod.
pub(crate) async fn identities(
    cluster: &Cluster,
) -> Result<BTreeMap<String, (String, String, String)>> {
    let pods: Vec<Pod> = all(cluster).await?;
    let of = |pod: Pod| {
        let hostname = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.hostname.clone())
            .unwrap_or_default();
        let address = pod
            .status
            .as_ref()
            .and_then(|status| status.pod_ip.clone())
            .unwrap_or_default();
        (
            pod.name_any(),
            (pod.uid().unwrap_or_default(), hostname, address),
        )
    };
    Ok(pods.into_iter().map(of).collect())
}

pub(crate) async fn endpoint_addresses(cluster: &Cluster) -> Result<Vec<String>> {
    let slices: Vec<EndpointSlice> = all(cluster).await?;
    let of_nginx = slices
        .into_iter()
        .filter(|slice| slice.labels().get("app").is_some_and(|app| app == "nginx"));
    let mut found: Vec<String> = of_nginx
        .flat_map(|slice| slice.endpoints.unwrap_or_default())
        .flat_map(|e| e.addresses)
        .collect();
    found.sort();
    Ok(found)
}

pub(crate) fn nginx_with_claims() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": {
            "serviceName": "nginx", "replicas": 2,
            "selector": { "matchLabels": { "app": "nginx" } },
            "template": {
                "metadata": { "labels": { "app": "nginx" } },
                "spec": { "terminationGracePeriodSeconds": 1, "containers": [{ "name": "nginx", "image": "nginx:1.9.1" }] },
            },
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            }],
        },
    })
}

pub(crate) async fn create_set(cluster: &Cluster, set: &Value) {
    let set: StatefulSet = serde_json::from_value(set.clone()).unwrap();
    api(cluster)
        .create(&PostParams::default(), &set)
        .await
        .unwrap();
}
