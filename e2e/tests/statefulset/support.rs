//! A cluster without their StatefulSet controller, ours beside it, and what tests look at.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_testkit::edgegrid::Controller;
use edgegrid_testkit::process::Process;
use edgegrid_testkit::{Cluster, Patience, eventually, eventually_within, node};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

pub(crate) const THEIRS: &str = "statefulset-controller";
pub(crate) const SERVICE: &str =
    include_str!("../../../crates/api/fixtures/seeds/004-service.yaml");
pub(crate) const SET: &str =
    include_str!("../../../crates/api/fixtures/seeds/004-statefulset.yaml");

/// Our controller as it is shipped and with no more rights than that, until it is stopped or dropped.
pub(crate) struct Ours(Controller);

impl Ours {
    pub(crate) async fn start(cluster: &Cluster) -> Ours {
        Self::start_as(cluster, "statefulset").await
    }

    /// Starts another one, whose log goes by this name.
    pub(crate) async fn start_as(cluster: &Cluster, name: &str) -> Ours {
        let talkative = ["--log-level=debug,hyper_util=info"];
        let started = Controller::start_statefulset(cluster, name, &talkative).await;
        Ours(started.unwrap())
    }

    /// Asks it to end, waits until it has, and looks whether it missed a right.
    pub(crate) async fn stop(self) {
        let process = self.0.process();
        process.terminate();
        let ended = eventually("ours has ended", async || {
            process.exited().context("it runs")
        });
        assert!(ended.await.unwrap().success(), "{}", process.tail(20));
        let log = std::fs::read_to_string(process.log()).unwrap();
        let refused: Vec<&str> = log
            .lines()
            .filter(|line| line.to_lowercase().contains("forbidden"))
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
    }

    /// What its metrics say.
    pub(crate) async fn metrics(&self) -> String {
        self.0.get("/metrics").await.unwrap()
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

/// A set without claims.
pub(crate) fn nginx(replicas: i32) -> Value {
    let mut set = nginx_with_claims();
    set["spec"]["replicas"] = replicas.into();
    set["spec"]["volumeClaimTemplates"] = Value::Null;
    set
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

/// Pods in the order in which `kubectl get --watch` printed this event of them.
pub(crate) fn pods_of_event(watch: &Process, what: &str) -> Vec<String> {
    let log = watch.tail(1000);
    let lines = log.lines().filter(|line| line.starts_with(what));
    lines
        .filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned))
        .collect()
}
