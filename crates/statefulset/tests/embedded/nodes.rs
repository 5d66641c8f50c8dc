//! The nodes: they bind pods, make them ready, let them go, and collect what nobody owns any more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use edgegrid_testkit::Cluster;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::request::Request;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::fixtures::{NS, stamp};

/// How the nodes treat pods.
#[derive(Default)]
pub(crate) struct Nodes {
    /// Pods that do not become ready, by name.
    pub(crate) unready: BTreeSet<String>,
    /// Pods that do not even start, by name.
    pub(crate) stalled: BTreeSet<String>,
    /// How long a pod takes to start, and to end.
    pub(crate) start: Duration,
    pub(crate) stop: Duration,
}

/// Binds pods, makes them ready, and lets them go.
pub(crate) async fn run_pods(cluster: Arc<Cluster>, nodes: Arc<Mutex<Nodes>>) {
    let client = cluster.client();
    let mut events = watch(
        Api::<Pod>::namespaced(client.clone(), NS),
        watcher::Config::default(),
    )
    .default_backoff()
    .boxed();
    let mut work = JoinSet::new();
    let mut known: BTreeSet<(String, bool)> = BTreeSet::new();
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event else {
            continue;
        };
        let uid = pod.uid().unwrap_or_default();
        let is_leaving = pod.metadata.deletion_timestamp.is_some();
        if !known.insert((uid, is_leaving)) {
            continue;
        }
        let (cluster, nodes) = (cluster.clone(), nodes.clone());
        if is_leaving {
            work.spawn(async move { end_pod(&cluster, &nodes, &pod).await });
        } else {
            work.spawn(async move { start_pod(&cluster, &nodes, &pod).await });
        }
    }
}

async fn start_pod(cluster: &Cluster, nodes: &Mutex<Nodes>, pod: &Pod) {
    let client = cluster.client();
    let name = pod.name_any();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
        "target": { "apiVersion": "v1", "kind": "Node", "name": "n1" },
    });
    let path = Pod::url_path(&(), Some(NS));
    let request = Request::new(path).create_subresource(
        "binding",
        &name,
        &PostParams::default(),
        binding.to_string().into(),
    );
    if let Ok(request) = request {
        let _ = client.request::<Value>(request).await;
    }
    loop {
        let pause = nodes.lock().start;
        sleep(pause).await;
        let (is_stalled, is_unready) = {
            let nodes = nodes.lock();
            (nodes.stalled.contains(&name), nodes.unready.contains(&name))
        };
        let pods: Api<Pod> = Api::namespaced(client.clone(), NS);
        let current = pods.get_opt(&name).await.ok().flatten();
        let Some(current) = current.filter(|current| current.uid() == pod.uid()) else {
            return;
        };
        let phase = current
            .status
            .as_ref()
            .and_then(|status| status.phase.clone());
        if current.metadata.deletion_timestamp.is_some()
            || matches!(phase.as_deref(), Some("Failed" | "Succeeded"))
        {
            return;
        }
        if is_stalled {
            continue;
        }
        let _ = patch_status(&client, &name, running(!is_unready, cluster)).await;
        if !is_unready {
            return;
        }
    }
}

async fn end_pod(cluster: &Cluster, nodes: &Mutex<Nodes>, pod: &Pod) {
    let pause = nodes.lock().stop;
    sleep(pause).await;
    let params = DeleteParams::default()
        .grace_period(0)
        .preconditions(Preconditions {
            uid: pod.uid(),
            resource_version: None,
        });
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NS);
    let _ = pods.delete(&pod.name_any(), &params).await;
}

/// Status of a pod that runs.
pub(crate) fn running(is_ready: bool, cluster: &Cluster) -> Value {
    let ready = if is_ready { "True" } else { "False" };
    json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": stamp(cluster.now()) }] })
}

pub(crate) async fn patch_status(client: &Client, name: &str, status: Value) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NS);
    let patch = Patch::Strategic(json!({ "status": status }));
    ignore_not_found(
        pods.patch_status(name, &PatchParams::default(), &patch)
            .await
            .map(drop),
    )?;
    Ok(())
}

/// Deletes claims when the last of their owners has gone, as the garbage collector does.
pub(crate) async fn collect_garbage(client: Client) {
    let (pods, sets): (Api<Pod>, Api<StatefulSet>) = (
        Api::namespaced(client.clone(), NS),
        Api::namespaced(client.clone(), NS),
    );
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, NS);
    loop {
        sleep(Duration::from_millis(4700)).await;
        let Ok(listed) = claims.list(&ListParams::default()).await else {
            continue;
        };
        for claim in listed
            .items
            .iter()
            .filter(|claim| !claim.owner_references().is_empty())
        {
            let mut is_orphan = true;
            for owner in claim.owner_references() {
                let uid = match owner.kind.as_str() {
                    "Pod" => pods
                        .get_opt(&owner.name)
                        .await
                        .ok()
                        .flatten()
                        .and_then(|pod| pod.uid()),
                    _ => sets
                        .get_opt(&owner.name)
                        .await
                        .ok()
                        .flatten()
                        .and_then(|set| set.uid()),
                };
                is_orphan &= uid.as_ref() != Some(&owner.uid);
            }
            if is_orphan {
                let _ = claims
                    .delete(&claim.name_any(), &DeleteParams::default())
                    .await;
            }
        }
    }
}

pub(crate) fn ignore_not_found(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other,
    }
}
