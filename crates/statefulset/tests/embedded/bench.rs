//! An embedded cluster with the controller under test, nodes that run its pods in virtual time, and a
//! garbage collector for its claims: what the controller expects around it, and no more.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use edgegrid_statefulset::{Config, run};
use edgegrid_testkit::faults::Faults;
use edgegrid_testkit::{Cluster, Patience, eventually_within};
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fixtures::{NS, SET};
use crate::monitor::Monitor;
use crate::nodes::{Nodes, collect_garbage, ignore_not_found, patch_status, run_pods};

/// A cluster with one set in it.
pub(crate) struct Bench {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) monitor: Arc<Mutex<Monitor>>,
    pub(crate) nodes: Arc<Mutex<Nodes>>,
    controller: JoinSet<()>,
    _environment: JoinSet<()>,
}

impl Bench {
    pub(crate) async fn start() -> Result<Bench> {
        let cluster = Arc::new(Cluster::embedded().await?);
        let client = cluster.client();
        let monitor = Arc::new(Mutex::new(Monitor::new()));
        let nodes = Arc::new(Mutex::new(Nodes {
            start: Duration::from_secs(2),
            stop: Duration::from_secs(1),
            ..Nodes::default()
        }));
        let mut environment = JoinSet::new();
        environment.spawn(observe(cluster.clone(), monitor.clone()));
        environment.spawn(run_pods(cluster.clone(), nodes.clone()));
        environment.spawn(collect_garbage(client));
        let mut bench = Bench {
            cluster,
            monitor,
            nodes,
            controller: JoinSet::new(),
            _environment: environment,
        };
        bench.start_controller()?;
        Ok(bench)
    }

    /// Starts the controller, if it was not yet or crashed; returns the faults of its link.
    pub(crate) fn start_controller(&mut self) -> Result<Faults> {
        let (client, faults) = self.cluster.link()?;
        let config = Config {
            clock: self.cluster.clock(),
            ..Config::default()
        };
        self.controller.abort_all();
        self.controller
            .spawn(run(client, config, std::future::pending()));
        Ok(faults)
    }

    /// Ends the controller as a power cut would.
    pub(crate) async fn crash(&mut self) {
        self.controller.shutdown().await;
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), NS)
    }

    pub(crate) async fn create(&self, set: &Value) -> Result<()> {
        let set: StatefulSet = serde_json::from_value(set.clone())?;
        self.api().create(&PostParams::default(), &set).await?;
        Ok(())
    }

    /// Changes the set by a merge patch of its spec.
    pub(crate) async fn spec(&self, spec: Value) -> Result<StatefulSet> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let sets: Api<StatefulSet> = self.api();
        Ok(sets.patch(SET, &PatchParams::default(), &patch).await?)
    }

    pub(crate) async fn set(&self) -> Result<StatefulSet> {
        Ok(self.api().get(SET).await?)
    }

    pub(crate) async fn pods(&self) -> Result<Vec<Pod>> {
        Ok(self.api().list(&ListParams::default()).await?.items)
    }

    pub(crate) async fn claims(&self) -> Result<Vec<PersistentVolumeClaim>> {
        Ok(self.api().list(&ListParams::default()).await?.items)
    }

    pub(crate) async fn revisions(&self) -> Result<Vec<ControllerRevision>> {
        Ok(self.api().list(&ListParams::default()).await?.items)
    }

    /// Messages of all events about the set.
    pub(crate) async fn events(&self) -> Result<Vec<String>> {
        let events: Vec<Event> = self.api().list(&ListParams::default()).await?.items;
        Ok(events
            .into_iter()
            .filter_map(|event| event.message)
            .collect())
    }

    /// Names of the pods that are there, by ordinal.
    pub(crate) async fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self
            .pods()
            .await?
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        names.sort_by_key(|name| name.rsplit('-').next().and_then(|n| n.parse::<i64>().ok()));
        Ok(names)
    }

    /// Writes a pod's status.
    pub(crate) async fn set_pod(&self, name: &str, status: Value) -> Result<()> {
        patch_status(&self.cluster.client(), name, status).await
    }

    /// Deletes a pod as a user would.
    pub(crate) async fn delete_pod(&self, name: &str) -> Result<()> {
        let pods: Api<Pod> = self.api();
        let Some(pod) = pods.get_opt(name).await? else {
            return Ok(());
        };
        self.monitor
            .lock()
            .expect_deletion(&pod.uid().unwrap_or_default());
        ignore_not_found(pods.delete(name, &DeleteParams::default()).await.map(drop))?;
        Ok(())
    }

    /// Waits, in virtual time, until the set is as its spec says and its status says so.
    pub(crate) async fn settled(&self) -> Result<()> {
        self.eventually("the set is as wanted", async || {
            let set = self.set().await?;
            let status = set.status.clone().unwrap_or_default();
            let wanted = set.spec.replicas.unwrap_or(1);
            let start = set
                .spec
                .ordinals
                .as_ref()
                .and_then(|o| o.start)
                .unwrap_or(0);
            let names: Vec<String> = (start..start + wanted)
                .map(|n| format!("{SET}-{n}"))
                .collect();
            let seen = self.names().await?;
            ensure!(seen == names, "pods {seen:?}, wanted {names:?}");
            ensure!(
                status.observed_generation == set.metadata.generation,
                "generation not observed"
            );
            let counts = (
                status.replicas,
                status.ready_replicas.unwrap_or(0),
                status.available_replicas.unwrap_or(0),
            );
            ensure!(counts == (wanted, wanted, wanted), "{counts:?} of {wanted}");
            Ok(())
        })
        .await
    }

    /// [`Bench::settled`], and every pod has the template.
    pub(crate) async fn rolled_out(&self) -> Result<()> {
        self.settled().await?;
        self.eventually("the rollout is over", async || {
            let status = self.set().await?.status.context("a status")?;
            ensure!(
                status.current_revision == status.update_revision,
                "{status:?}"
            );
            ensure!(
                status.updated_replicas.unwrap_or(0) == status.replicas,
                "{status:?}"
            );
            Ok(())
        })
        .await
    }

    pub(crate) async fn eventually<T>(
        &self,
        what: &str,
        check: impl AsyncFn() -> Result<T>,
    ) -> Result<T> {
        let patience = Patience {
            limit: Duration::from_hours(2),
            pause: Duration::from_secs(5),
        };
        eventually_within(patience, what, check).await
    }

    /// Fails with the first promise that was broken.
    pub(crate) fn check_promises(&self) -> Result<()> {
        self.monitor.lock().check()
    }
}

/// Feeds every event about claims, pods, revisions and the set to the monitor, in the order it happened.
async fn observe(cluster: Arc<Cluster>, monitor: Arc<Mutex<Monitor>>) {
    let mut sets = events::<StatefulSet>(&cluster);
    let mut revisions = events::<ControllerRevision>(&cluster);
    let mut claims = events::<PersistentVolumeClaim>(&cluster);
    let mut pods = events::<Pod>(&cluster);
    loop {
        // Sets before pods: what a user asked for counts from the moment it was accepted.
        tokio::select! {
            biased;
            Some(Ok(event)) = sets.next() => monitor.lock().observe_set(event, cluster.now()),
            Some(Ok(event)) = revisions.next() => monitor.lock().observe_revision(event),
            Some(Ok(event)) = claims.next() => monitor.lock().observe_claim(event, cluster.now()),
            Some(Ok(event)) = pods.next() => monitor.lock().observe_pod(event, cluster.now()),
        }
    }
}

fn events<K>(cluster: &Cluster) -> BoxStream<'static, watcher::Result<watcher::Event<K>>>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Send
        + serde::de::DeserializeOwned
        + 'static,
{
    let api = Api::<K>::namespaced(cluster.client(), NS);
    watch(api, watcher::Config::default())
        .default_backoff()
        .boxed()
}
