//! Simulated nodes: they send heartbeats, make the pods bound to them Running and Ready,
//! and let terminating ones go.
//!
//! ```text
//! watch pods ─► action(pod), pure ─► PodRuntime start/stop ─► PATCH status, DELETE
//! every 10 s ─► renew each node's Lease; write Ready again where it was lost
//! ```
//!
//! One watch and one timer serve all nodes, so that hundreds cost little.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::params::Preconditions;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, ResourceExt};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::builders::NodeBuilder;
use crate::runtime::{PodKey, PodRuntime};

/// Where nodes keep their leases.
const LEASES: &str = "kube-node-lease";
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Seconds for which others believe in a heartbeat.
const LEASE_SECONDS: i32 = 40;
/// Requests under way at once.
const CONCURRENCY: usize = 16;

/// The kubelets of all simulated nodes; dropping it is like pulling all their plugs.
pub(crate) struct Kubelet {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

struct Shared {
    client: Client,
    pods: Arc<dyn PodRuntime>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: BTreeSet<String>,
    /// Pods (`namespace/name`) that a test keeps from being ready.
    kept_unready: BTreeSet<String>,
}

/// What a kubelet does next about a pod.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Start,
    Complete,
    End,
}

impl Kubelet {
    pub(crate) fn start(client: Client, pods: Arc<dyn PodRuntime>) -> Kubelet {
        let shared = Arc::new(Shared {
            client,
            pods,
            state: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(run_pods(shared.clone()));
        tasks.spawn(send_heartbeats(shared.clone()));
        Kubelet {
            shared,
            _tasks: tasks,
        }
    }

    pub(crate) async fn add(&self, node: NodeBuilder) -> Result<()> {
        let node: Node = node.into();
        let name = node.name_any();
        self.shared.state().nodes.insert(name.clone());
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(name.clone()),
                lease_duration_seconds: Some(LEASE_SECONDS),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        };
        let create = PostParams::default();
        self.shared
            .leases()
            .create(&create, &lease)
            .await
            .with_context(|| format!("create lease of node {name}"))?;
        self.shared
            .nodes()
            .create(&create, &node)
            .await
            .with_context(|| format!("create node {name}"))?;
        Ok(())
    }

    pub(crate) fn cut_off(&self, node: &str) {
        self.shared.state().nodes.remove(node);
    }

    pub(crate) async fn reconnect(&self, node: &str) -> Result<()> {
        self.shared.state().nodes.insert(node.to_owned());
        self.shared.heartbeat(node).await?;
        let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods: Api<Pod> = Api::all(self.shared.client.clone());
        let pods = pods.list(&here).await;
        for pod in pods.with_context(|| format!("list pods of node {node}"))? {
            self.shared.catch_up(pod).await?;
        }
        Ok(())
    }

    pub(crate) async fn set_ready(&self, namespace: &str, pod: &str, ready: bool) -> Result<()> {
        let key = format!("{namespace}/{pod}");
        if ready {
            self.shared.state().kept_unready.remove(&key);
        } else {
            self.shared.state().kept_unready.insert(key);
        }
        let status = Patch::Strategic(json!({ "status": { "conditions": readiness(ready) } }));
        let pods = self.shared.api(namespace);
        gone_is_fine(
            pods.patch_status(pod, &PatchParams::default(), &status)
                .await
                .map(drop),
        )
        .with_context(|| format!("set readiness of pod {namespace}/{pod}"))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn api(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), LEASES)
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Where a pod of one of our nodes runs.
    fn pod_key(&self, pod: &Pod) -> Option<PodKey> {
        let node = pod.spec.as_ref()?.node_name.clone()?;
        let pod = format!("{}/{}", pod.namespace()?, pod.name_any());
        self.state()
            .nodes
            .contains(&node)
            .then_some(PodKey { node, pod })
    }

    /// Does about a pod what was missed, and reports it anew: the control plane said that it is not ready.
    async fn catch_up(&self, pod: Pod) -> Result<()> {
        let key = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        if action(&pod).is_some() {
            self.handle(&Event::Apply(pod)).await;
            return Ok(());
        }
        let ready = !self.state().kept_unready.contains(&key);
        self.write(&pod, json!({ "conditions": readiness(ready) }))
            .await
    }

    async fn handle(&self, event: &Event<Pod>) {
        let (Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod)) = event else {
            return;
        };
        let Some(key) = self.pod_key(pod) else { return };
        let done = match (event, action(pod)) {
            (Event::Delete(_), _) => self.pods.stop(&key).await,
            (_, Some(Action::Start)) => self.start(pod, &key).await,
            (_, Some(Action::Complete)) => self.write(pod, completed()).await,
            (_, Some(Action::End)) => self.end(pod, &key).await,
            (_, None) => {
                self.adopt(pod, &key);
                Ok(())
            }
        };
        if let Err(error) = done {
            // The next event about the pod, or the next list, tries again.
            tracing::warn!(
                pod = key.pod,
                node = key.node,
                "simulated kubelet: {error:#}"
            );
        }
    }

    async fn start(&self, pod: &Pod, key: &PodKey) -> Result<()> {
        let address = self.pods.start(key).await?;
        let ready = !self.state().kept_unready.contains(&key.pod);
        self.write(pod, running(pod, &address.to_string(), ready))
            .await
    }

    /// Not ready first: others keep a pod by a finalizer and look at it.
    async fn end(&self, pod: &Pod, key: &PodKey) -> Result<()> {
        self.write(
            pod,
            json!({ "phase": "Succeeded", "conditions": readiness(false) }),
        )
        .await?;
        self.pods.stop(key).await?;
        let params = DeleteParams::default()
            .grace_period(0)
            .preconditions(Preconditions {
                uid: pod.uid(),
                resource_version: None,
            });
        let namespace = pod.namespace().unwrap_or_default();
        gone_is_fine(
            self.api(&namespace)
                .delete(&pod.name_any(), &params)
                .await
                .map(drop),
        )
        .context("delete a terminating pod")
    }

    fn adopt(&self, pod: &Pod, key: &PodKey) {
        let address = pod
            .status
            .as_ref()
            .and_then(|status| status.pod_ip.as_ref()?.parse().ok());
        if let Some(address) = address {
            self.pods.adopt(key, address);
        }
    }

    async fn write(&self, pod: &Pod, status: Value) -> Result<()> {
        let namespace = pod.namespace().unwrap_or_default();
        let patch = Patch::Strategic(json!({ "metadata": { "uid": pod.uid() }, "status": status }));
        let params = PatchParams::default();
        gone_is_fine(
            self.api(&namespace)
                .patch_status(&pod.name_any(), &params, &patch)
                .await
                .map(drop),
        )
        .context("write a pod's status")
    }

    async fn heartbeat(&self, node: &str) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "renewTime": MicroTime(Timestamp::now()) } }));
        self.leases()
            .patch(node, &PatchParams::default(), &patch)
            .await
            .context("renew lease")?;
        Ok(())
    }

    /// A lease alone does not bring back a node that was given up.
    async fn revive(&self, node: &Node) -> Result<()> {
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": now(), "lastTransitionTime": now(),
        });
        let patch = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
        self.nodes()
            .patch_status(&node.name_any(), &PatchParams::default(), &patch)
            .await
            .context("write Ready")?;
        Ok(())
    }
}

async fn run_pods(shared: Arc<Shared>) {
    let bound = watcher::Config::default().fields("spec.nodeName!=");
    let events = watch(Api::<Pod>::all(shared.client.clone()), bound).default_backoff();
    // What is there at once is handled together, each pod's last word only: so no pod is
    // ever handled twice at the same time.
    let mut chunks = Box::pin(events.ready_chunks(256));
    while let Some(chunk) = chunks.next().await {
        let latest: BTreeMap<String, Event<Pod>> = chunk
            .into_iter()
            .filter_map(|event| match event {
                Ok(event) => Some((uid(&event)?, event)),
                Err(error) => {
                    tracing::warn!("simulated kubelet: watch pods: {error}");
                    None
                }
            })
            .collect();
        stream::iter(latest.values())
            .for_each_concurrent(CONCURRENCY, |event| shared.handle(event))
            .await;
    }
}

async fn send_heartbeats(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(HEARTBEAT);
    loop {
        ticks.tick().await;
        let names = shared.state().nodes.clone();
        stream::iter(&names)
            .for_each_concurrent(CONCURRENCY, async |name| {
                report(name, shared.heartbeat(name).await);
            })
            .await;
        let Ok(nodes) = shared.nodes().list(&ListParams::default()).await else {
            continue;
        };
        for node in nodes
            .iter()
            .filter(|node| names.contains(&node.name_any()) && !is_ready(node))
        {
            report(&node.name_any(), shared.revive(node).await);
        }
    }
}

fn report(node: &str, result: Result<()>) {
    if let Err(error) = result {
        tracing::warn!(node, "simulated kubelet: {error:#}");
    }
}

fn uid(event: &Event<Pod>) -> Option<String> {
    match event {
        Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod) => pod.uid(),
        Event::Init | Event::InitDone => None,
    }
}

fn action(pod: &Pod) -> Option<Action> {
    let status = pod.status.as_ref();
    let phase = status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending");
    let ended = matches!(phase, "Succeeded" | "Failed");
    if pod.metadata.deletion_timestamp.is_some() {
        // Held back by a finalizer only: nothing left for us to do.
        let released = ended && pod.metadata.deletion_grace_period_seconds == Some(0);
        return (!released).then_some(Action::End);
    }
    if ended {
        return None;
    }
    let is_job = pod
        .owner_references()
        .iter()
        .any(|owner| owner.kind == "Job");
    match status.and_then(|status| status.pod_ip.as_ref()) {
        _ if is_job => Some(Action::Complete),
        None => Some(Action::Start),
        Some(_) => None,
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

fn running(pod: &Pod, address: &str, ready: bool) -> Value {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let containers: Vec<Value> = containers
        .map(|container| {
            json!({
                "name": container.name,
                "image": container.image,
                "imageID": "",
                "ready": ready,
                "started": true,
                "restartCount": 0,
                "state": { "running": { "startedAt": now() } },
            })
        })
        .collect();
    json!({
        "phase": "Running",
        "podIP": address,
        "podIPs": [{ "ip": address }],
        "startTime": now(),
        "conditions": readiness(ready),
        "containerStatuses": containers,
    })
}

fn completed() -> Value {
    json!({ "phase": "Succeeded", "startTime": now(), "conditions": readiness(false) })
}

fn readiness(ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    let condition = |type_: &str, status: &str| json!({ "type": type_, "status": status, "lastTransitionTime": now() });
    json!([
        condition("Initialized", "True"),
        condition("ContainersReady", status),
        condition("Ready", status),
    ])
}

/// Now, in the whole seconds of Kubernetes' time.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Somebody else removed or replaced the pod meanwhile: that is what was wanted.
fn gone_is_fine(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_new_pod_is_started_once() {
        assert_eq!(action(&pod(json!({ "metadata": {} }))), Some(Action::Start));
        let running =
            json!({ "metadata": {}, "status": { "phase": "Running", "podIP": "10.0.0.1" } });
        assert_eq!(action(&pod(running)), None);
    }

    #[test]
    fn a_jobs_pod_completes_and_stays_completed() {
        let owner = json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u" }]);
        let fresh = json!({ "metadata": { "ownerReferences": owner } });
        assert_eq!(action(&pod(fresh)), Some(Action::Complete));
        let done =
            json!({ "metadata": { "ownerReferences": owner }, "status": { "phase": "Succeeded" } });
        assert_eq!(action(&pod(done)), None);
    }

    #[test]
    fn a_terminating_pod_is_ended_until_only_a_finalizer_keeps_it() {
        let terminating = |phase: &str, grace: i64| {
            pod(json!({
                "metadata": {
                    "deletionTimestamp": "2026-01-01T00:00:00Z",
                    "deletionGracePeriodSeconds": grace,
                },
                "status": { "phase": phase, "podIP": "10.0.0.1" },
            }))
        };
        assert_eq!(action(&terminating("Running", 30)), Some(Action::End));
        assert_eq!(action(&terminating("Succeeded", 30)), Some(Action::End));
        assert_eq!(action(&terminating("Succeeded", 0)), None);
    }
}
