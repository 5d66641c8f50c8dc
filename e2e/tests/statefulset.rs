//! The StatefulSet controller in place of kube-controller-manager's, on unmodified Kubernetes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_statefulset::{Config, names, run};
use edgegrid_testkit::process::Process;
use edgegrid_testkit::{Cluster, Patience, eventually, eventually_within, node};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

const THEIRS: &str = "statefulset-controller";
const SERVICE: &str = include_str!("../../crates/api/fixtures/seeds/004-service.yaml");
const SET: &str = include_str!("../../crates/api/fixtures/seeds/004-statefulset.yaml");

/// Our controller, until it is stopped or dropped.
struct Ours {
    stop: oneshot::Sender<()>,
    running: JoinSet<()>,
}

impl Ours {
    fn start(cluster: &Cluster) -> Ours {
        let (stop, stopped) = oneshot::channel::<()>();
        let mut running = JoinSet::new();
        let shutdown = async move { drop(stopped.await) };
        running.spawn(run(cluster.client(), Config::default(), shutdown));
        Ours { stop, running }
    }

    /// Asks it to end, and waits until it has.
    async fn stop(mut self) {
        self.stop.send(()).unwrap();
        while self.running.join_next().await.is_some() {}
    }
}

async fn cluster_without_theirs() -> Cluster {
    let cluster = Cluster::upstream()
        .with_controllers_but([THEIRS])
        .await
        .unwrap();
    add_nodes(&cluster).await;
    cluster
}

async fn add_nodes(cluster: &Cluster) {
    let nodes = ["n1", "n2", "n3", "n4"].map(node);
    cluster.add_nodes(nodes).await.unwrap();
}

fn api<K>(cluster: &Cluster) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    Api::namespaced(cluster.client(), "default")
}

async fn all<K>(cluster: &Cluster) -> Result<Vec<K>>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    Ok(api::<K>(cluster).list(&ListParams::default()).await?.items)
}

async fn set(cluster: &Cluster) -> Result<StatefulSet> {
    Ok(api(cluster).get("web").await?)
}

/// Waits until the set has all its pods at their newest template.
async fn rolled_out(cluster: &Cluster) -> Result<()> {
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
async fn identities(cluster: &Cluster) -> Result<BTreeMap<String, (String, String, String)>> {
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

async fn endpoint_addresses(cluster: &Cluster) -> Result<Vec<String>> {
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

#[tokio::test]
async fn the_tutorial_runs_as_it_was_written() {
    let cluster = cluster_without_theirs().await;
    let _ours = Ours::start(&cluster);
    let watch = cluster
        .kubectl_in_background(["get", "pods", "-w", "-l", "app=nginx", "--no-headers"])
        .unwrap();
    cluster
        .kubectl_with_input(["create", "-f", "-"], SERVICE)
        .await
        .unwrap();
    cluster
        .kubectl_with_input(["create", "-f", "-"], SET)
        .await
        .unwrap();
    rolled_out(&cluster).await.unwrap();

    let told = eventually("kubectl has told of both", async || {
        let told = watch.tail(100);
        ensure!(
            told.lines()
                .any(|line| line.starts_with("web-1") && line.contains("Running")),
            "{told}"
        );
        Ok(told)
    })
    .await
    .unwrap();
    let position = |pod: &str, state: &str| {
        told.lines()
            .position(|l| l.starts_with(pod) && l.contains(state))
            .unwrap()
    };
    assert!(
        position("web-0", "Running") < position("web-1", "Pending"),
        "{told}"
    );
    let shown = cluster
        .kubectl(["get", "statefulset", "web", "--no-headers"])
        .await
        .unwrap();
    assert!(shown.contains("2/2"), "{shown}");
    let described = eventually("the events are told", async || {
        let described = cluster.kubectl(["describe", "statefulset", "web"]).await?;
        ensure!(
            described.contains("Create Pod web-1 in StatefulSet web successful"),
            "{described}"
        );
        Ok(described)
    })
    .await
    .unwrap();
    let line = described
        .lines()
        .find(|line| line.contains("Create Pod web-0"))
        .unwrap();
    assert!(
        line.contains("Normal")
            && line.contains("SuccessfulCreate")
            && line.contains("statefulset-controller"),
        "{line}"
    );

    let before = identities(&cluster).await.unwrap();
    // Where they run now nothing new may go, so that the addresses must change.
    let pods: Vec<Pod> = all(&cluster).await.unwrap();
    for pod in &pods {
        let node = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .unwrap();
        cluster.kubectl(["cordon", node.as_str()]).await.unwrap();
    }
    cluster
        .kubectl(["delete", "pod", "-l", "app=nginx", "--wait=false"])
        .await
        .unwrap();
    eventually("both are back as new pods of the same name", async || {
        let after = identities(&cluster).await?;
        let names: Vec<_> = after
            .iter()
            .map(|(name, (_, host, _))| (name.as_str(), host.as_str()))
            .collect();
        ensure!(
            names == [("web-0", "web-0"), ("web-1", "web-1")],
            "{after:?}"
        );
        for (name, (uid, _, address)) in &after {
            ensure!(
                *uid != before[name].0 && !address.is_empty() && *address != before[name].2,
                "{after:?}"
            );
        }
        let mut addresses: Vec<_> = after
            .values()
            .map(|(_, _, address)| address.clone())
            .collect();
        addresses.sort();
        ensure!(
            endpoint_addresses(&cluster).await? == addresses,
            "endpoints lag"
        );
        Ok(())
    })
    .await
    .unwrap();
    let told = watch.tail(200);
    let after = told
        .lines()
        .skip_while(|line| !line.contains("Terminating"))
        .collect::<Vec<_>>();
    let position = |pod: &str, state: &str| {
        after
            .iter()
            .position(|l| l.starts_with(pod) && l.contains(state))
            .unwrap()
    };
    assert!(
        position("web-0", "Pending") < position("web-1", "Pending"),
        "{told}"
    );
}

fn nginx_with_claims() -> Value {
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

async fn create_set(cluster: &Cluster, set: &Value) {
    let set: StatefulSet = serde_json::from_value(set.clone()).unwrap();
    api(cluster)
        .create(&PostParams::default(), &set)
        .await
        .unwrap();
}

/// Pods in the order in which kubectl told this of them.
fn told(watch: &Process, what: &str) -> Vec<String> {
    let log = watch.tail(1000);
    let lines = log.lines().filter(|line| line.starts_with(what));
    lines
        .filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned))
        .collect()
}

fn named(ordinals: impl Iterator<Item = i32>) -> Vec<String> {
    ordinals.map(|ordinal| format!("web-{ordinal}")).collect()
}

#[tokio::test]
async fn scaling_with_claims_keeps_the_order_and_the_claims() {
    let cluster = cluster_without_theirs().await;
    let _ours = Ours::start(&cluster);
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    for number in 0..10 {
        let volume = json!({
            "metadata": { "name": format!("pv-{number}") },
            "spec": {
                "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": format!("/tmp/pv-{number}") },
            },
        });
        volumes
            .create(
                &PostParams::default(),
                &serde_json::from_value(volume).unwrap(),
            )
            .await
            .unwrap();
    }
    let watch = [
        "get",
        "pods",
        "-w",
        "-l",
        "app=nginx",
        "--output-watch-events",
        "--no-headers",
    ];
    let watch = cluster.kubectl_in_background(watch).unwrap();
    create_set(&cluster, &nginx_with_claims()).await;
    rolled_out(&cluster).await.unwrap();
    cluster
        .kubectl(["scale", "statefulset", "web", "--replicas=10"])
        .await
        .unwrap();
    rolled_out(&cluster).await.unwrap();
    eventually("all creations are told in order", async || {
        let made = told(&watch, "ADDED");
        ensure!(made == named(0..10), "{made:?}");
        Ok(())
    })
    .await
    .unwrap();
    let claims: Vec<PersistentVolumeClaim> = all(&cluster).await.unwrap();
    let bound = claims
        .iter()
        .filter(|claim| claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound"));
    assert_eq!(bound.count(), 10, "every claim has found a volume");

    let patch = r#"{"spec":{"replicas":2}}"#;
    cluster
        .kubectl(["patch", "statefulset", "web", "-p", patch])
        .await
        .unwrap();
    rolled_out(&cluster).await.unwrap();
    eventually("all deletions are told in order", async || {
        let gone = told(&watch, "DELETED");
        ensure!(gone == named((2..10).rev()), "{gone:?}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(
        all::<PersistentVolumeClaim>(&cluster).await.unwrap().len(),
        10,
        "claims stay"
    );
}

async fn image(cluster: &Cluster, tag: &str) {
    let containers = json!([{ "name": "nginx", "image": format!("nginx:{tag}") }]);
    let patch = Patch::Strategic(
        json!({ "spec": { "template": { "spec": { "containers": containers } } } }),
    );
    let sets: Api<StatefulSet> = api(cluster);
    sets.patch("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Starts a rollout and lets it get stuck at `web-2`, which is new and not ready.
async fn begin_rollout(cluster: &Cluster, tag: &str) -> BTreeMap<String, (String, String, String)> {
    let before = identities(cluster).await.unwrap();
    cluster.set_ready("default", "web-2", false).await.unwrap();
    // Held, so that it stays as it is when it comes back; the old one must be ready to be replaced.
    let pods: Api<Pod> = api(cluster);
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    pods.patch_status("web-2", &PatchParams::default(), &Patch::Strategic(ready))
        .await
        .unwrap();
    image(cluster, tag).await;
    eventually("the rollout waits for web-2", async || {
        let now = identities(cluster).await?;
        let changed: Vec<_> = now
            .iter()
            .filter(|(name, pod)| before.get(*name).is_none_or(|old| old.0 != pod.0))
            .map(|(name, _)| name.as_str())
            .collect();
        let is_running = now
            .get("web-2")
            .is_some_and(|(_, _, address)| !address.is_empty());
        ensure!(
            changed == ["web-2", "web-3", "web-4"] && is_running,
            "{changed:?}"
        );
        Ok(now)
    })
    .await
    .unwrap()
}

async fn finish_rollout(cluster: &Cluster, frozen: &BTreeMap<String, (String, String, String)>) {
    cluster.set_ready("default", "web-2", true).await.unwrap();
    rolled_out(cluster).await.unwrap();
    let after = identities(cluster).await.unwrap();
    for name in ["web-2", "web-3", "web-4"] {
        assert_eq!(
            after[name].0, frozen[name].0,
            "{name} was new already and must not be restarted"
        );
    }
    for name in ["web-0", "web-1"] {
        assert_ne!(after[name].0, frozen[name].0, "{name} was still to come");
    }
}

async fn revisions(cluster: &Cluster) -> BTreeMap<String, i64> {
    let all: Vec<ControllerRevision> = all(cluster).await.unwrap();
    all.iter()
        .map(|revision| (revision.name_any(), revision.revision.unwrap_or(0)))
        .collect()
}

#[tokio::test]
async fn a_set_changes_hands_in_the_middle_of_a_rollout_and_back() {
    let mut cluster = Cluster::upstream().with_controllers().await.unwrap();
    add_nodes(&cluster).await;
    let mut web = nginx_with_claims();
    web["spec"]["replicas"] = 5.into();
    web["spec"]
        .as_object_mut()
        .unwrap()
        .remove("volumeClaimTemplates");
    create_set(&cluster, &web).await;
    rolled_out(&cluster).await.unwrap();

    // Theirs begins, ours ends.
    let frozen = begin_rollout(&cluster, "2").await;
    let before = revisions(&cluster).await;
    assert_eq!(before.len(), 2);
    cluster.restart_controller_manager([THEIRS]).unwrap();
    let ours = Ours::start(&cluster);
    finish_rollout(&cluster, &frozen).await;
    assert_eq!(
        revisions(&cluster).await,
        before,
        "no revision is added or renumbered"
    );

    // Ours begins, theirs ends.
    let frozen = begin_rollout(&cluster, "3").await;
    let before = revisions(&cluster).await;
    assert_eq!(before.len(), 3);
    ours.stop().await;
    cluster.restart_controller_manager([]).unwrap();
    finish_rollout(&cluster, &frozen).await;
    assert_eq!(revisions(&cluster).await, before);

    // Back to what was before, under theirs: they find our revisions good.
    image(&cluster, "2").await;
    rolled_out(&cluster).await.unwrap();
    let numbers = revisions(&cluster).await;
    assert_eq!(numbers.len(), 3, "a rollback reuses: {numbers:?}");
    assert_eq!(numbers.values().max(), Some(&4));
}

#[tokio::test]
async fn two_controllers_by_mistake_do_not_fight_and_the_user_is_told() {
    let cluster = Cluster::upstream().with_controllers().await.unwrap();
    add_nodes(&cluster).await;
    let _ours = Ours::start(&cluster);
    create_set(&cluster, &{
        let mut web = nginx_with_claims();
        web["spec"]
            .as_object_mut()
            .unwrap()
            .remove("volumeClaimTemplates");
        web["spec"]["replicas"] = 4.into();
        web
    })
    .await;
    rolled_out(&cluster).await.unwrap();
    image(&cluster, "2").await;
    rolled_out(&cluster).await.unwrap();
    eventually("the mistake is reported", async || {
        let events: Vec<Event> = all(&cluster).await?;
        let reported = events
            .iter()
            .any(|event| event.reason.as_deref() == Some(names::FOREIGN_CONTROLLER));
        ensure!(reported, "{} events", events.len());
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(revisions(&cluster).await.len(), 2);
    let quiet = set(&cluster).await.unwrap().metadata.resource_version;
    let uids = identities(&cluster).await.unwrap();
    // Several reconciles of either fit into this: were they to fight, it would show.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        set(&cluster).await.unwrap().metadata.resource_version,
        quiet,
        "nobody writes any more"
    );
    assert_eq!(identities(&cluster).await.unwrap(), uids);
}
