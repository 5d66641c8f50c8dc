//! One of the two controllers, and the life of a set under it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_testkit::edgegrid::Controller;
use edgegrid_testkit::{Cluster, Patience, eventually, eventually_within, node};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod};
use kube::api::{
    DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, PropagationPolicy,
};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch as signal;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::scenario::{SET, Scenario, Step};
use crate::snapshot::{Snapshot, snapshot};

/// Nothing happens for so long: nothing more will.
const QUIET: Duration = Duration::from_millis(2500);
/// Longer than any step takes that comes to an end.
const LIMIT: Duration = Duration::from_secs(90);

/// A cluster with one of the two controllers.
pub(crate) struct Side {
    cluster: Cluster,
    ours: Option<Controller>,
}

/// What a scenario showed: a picture after each step.
pub(crate) type Course = Vec<Snapshot>;

impl Side {
    /// kube-controller-manager as it is.
    pub(crate) async fn theirs() -> Result<Side> {
        let cluster = Cluster::upstream().with_controllers().await?;
        cluster.add_nodes([node("n1")]).await?;
        Ok(Side {
            cluster,
            ours: None,
        })
    }

    /// Ours in the place of its StatefulSet controller, with the shipped rights and no more.
    pub(crate) async fn ours() -> Result<Side> {
        let cluster = Cluster::upstream()
            .with_controllers_but(["statefulset-controller"])
            .await?;
        cluster.add_nodes([node("n1")]).await?;
        let ours = Controller::start_statefulset(&cluster, "ours", &["--concurrency=20"]).await?;
        Ok(Side {
            cluster,
            ours: Some(ours),
        })
    }

    /// Fails if ours was refused a right.
    pub(crate) fn check_rights(&self) -> Result<()> {
        let Some(ours) = &self.ours else {
            return Ok(());
        };
        let log = std::fs::read_to_string(ours.process().log())?;
        let refused = log.lines().find(|line| line.contains("orbidden"));
        ensure!(refused.is_none(), "a right is missing: {refused:?}");
        Ok(())
    }

    /// Lives a scenario in a namespace of its own.
    pub(crate) async fn live(&self, scenario: &Scenario) -> Result<Course> {
        let client = self.cluster.client();
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(scenario.name.clone()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        let life = Life::start(&self.cluster, &scenario.name);
        life.create(scenario).await?;
        let mut course = vec![life.settled().await?];
        for step in &scenario.steps {
            life.take(scenario, step)
                .await
                .with_context(|| format!("{step:?}"))?;
            course.push(life.settled().await?);
        }
        life.end().await?;
        Ok(course)
    }
}

/// A set that is looked at.
struct Life<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    log: Arc<Mutex<Vec<String>>>,
    changed: signal::Receiver<Instant>,
    unready: Mutex<Vec<String>>,
    _watches: JoinSet<()>,
}

impl<'a> Life<'a> {
    fn start(cluster: &'a Cluster, namespace: &'a str) -> Self {
        let (notify, changed) = signal::channel(Instant::now());
        let notify = Arc::new(notify);
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut watches = JoinSet::new();
        let (client, written) = (cluster.client(), log.clone());
        let mut seen = BTreeSet::new();
        let note = move |event: &Event<Pod>| {
            // Each creation and each deletion once, however often a pod changes.
            let news = news(event).filter(|news| seen.insert(news.clone()));
            let mut log = written.lock();
            log.extend(news.and_then(|news| news.split_once(' ').map(|(what, _)| what.to_owned())));
        };
        observe(
            &mut watches,
            (client.clone(), namespace),
            notify.clone(),
            note,
        );
        observe::<StatefulSet>(
            &mut watches,
            (client.clone(), namespace),
            notify.clone(),
            |_| {},
        );
        observe::<PersistentVolumeClaim>(
            &mut watches,
            (client.clone(), namespace),
            notify.clone(),
            |_| {},
        );
        observe::<ControllerRevision>(&mut watches, (client, namespace), notify, |_| {});
        Self {
            cluster,
            namespace,
            log,
            changed,
            unready: Mutex::default(),
            _watches: watches,
        }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), self.namespace)
    }

    async fn create(&self, scenario: &Scenario) -> Result<()> {
        let set: StatefulSet = serde_json::from_value(scenario.set.clone())?;
        self.api().create(&PostParams::default(), &set).await?;
        Ok(())
    }

    async fn take(&self, scenario: &Scenario, step: &Step) -> Result<()> {
        let name = |ordinal: &i64| format!("{SET}-{ordinal}");
        let (sets, pods): (Api<StatefulSet>, Api<Pod>) = (self.api(), self.api());
        let params = PatchParams::default();
        match step {
            Step::Spec(spec) => {
                let patch = Patch::Merge(json!({ "spec": spec }));
                sets.patch(SET, &params, &patch).await?;
            }
            Step::Hold(ordinal) => {
                self.unready.lock().push(name(ordinal));
                self.cluster
                    .set_ready(self.namespace, &name(ordinal), false)
                    .await?;
            }
            Step::Free => {
                let unready = std::mem::take(&mut *self.unready.lock());
                for pod in unready {
                    self.cluster.set_ready(self.namespace, &pod, true).await?;
                }
            }
            Step::End(ordinal, phase) => {
                let patch = Patch::Strategic(json!({ "status": { "phase": phase } }));
                gone_is_fine(
                    pods.patch_status(&name(ordinal), &params, &patch)
                        .await
                        .map(drop),
                )?;
            }
            Step::Delete(ordinal) => {
                gone_is_fine(
                    pods.delete(&name(ordinal), &DeleteParams::default())
                        .await
                        .map(drop),
                )?;
            }
            Step::Relabel(ordinal, app) => {
                let patch = Patch::Merge(json!({ "metadata": { "labels": { "app": app } } }));
                gone_is_fine(pods.patch(&name(ordinal), &params, &patch).await.map(drop))?;
            }
            Step::Remake => self.remake(scenario).await?,
            Step::Condition => {
                let condition = json!({ "type": "Theirs", "status": "True" });
                let patch = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
                sets.patch_status(SET, &params, &patch).await?;
            }
        }
        Ok(())
    }

    async fn remake(&self, scenario: &Scenario) -> Result<()> {
        let sets: Api<StatefulSet> = self.api();
        let orphan = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        sets.delete(SET, &orphan).await?;
        eventually("the set is gone without its pods", async || {
            ensure!(sets.get_opt(SET).await?.is_none(), "it is there");
            Ok(())
        })
        .await?;
        self.quiet().await;
        self.create(scenario).await
    }

    /// Waits until the set has been looked at and nothing happens any more, and takes a picture.
    async fn settled(&self) -> Result<Snapshot> {
        let sets: Api<StatefulSet> = self.api();
        eventually("the controller has seen the set", async || {
            let set = sets.get(SET).await?;
            let seen = set.status.and_then(|status| status.observed_generation);
            ensure!(seen == set.metadata.generation, "{seen:?}");
            Ok(())
        })
        .await?;
        self.nodes_are_done().await?;
        let order = std::mem::take(&mut *self.log.lock());
        snapshot(&self.cluster.client(), self.namespace, order).await
    }

    /// Waits until the simulated node has started and ended all that it was told to, however busy it is.
    async fn nodes_are_done(&self) -> Result<()> {
        let pods: Api<Pod> = self.api();
        let patience = Patience {
            limit: LIMIT,
            pause: Duration::from_millis(500),
        };
        eventually_within(patience, "the node is done", async || {
            self.quiet().await;
            for pod in pods.list(&ListParams::default()).await?.items {
                let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
                let is_done = phase != Some("Pending") && pod.metadata.deletion_timestamp.is_none();
                ensure!(is_done, "{} is {phase:?}", pod.name_any());
            }
            Ok(())
        })
        .await
    }

    async fn quiet(&self) {
        let mut changed = self.changed.clone();
        let end = Instant::now() + LIMIT;
        changed.mark_unchanged();
        while Instant::now() < end && timeout(QUIET, changed.changed()).await.is_ok() {}
    }

    async fn end(&self) -> Result<()> {
        let sets: Api<StatefulSet> = self.api();
        sets.delete(SET, &DeleteParams::foreground()).await?;
        Ok(())
    }
}

/// Rings the notify at every event.
fn observe<K>(
    tasks: &mut JoinSet<()>,
    (client, namespace): (Client, &str),
    notify: Arc<signal::Sender<Instant>>,
    mut note: impl FnMut(&Event<K>) + Send + 'static,
) where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Send
        + serde::de::DeserializeOwned
        + 'static,
{
    let events = watch(
        Api::<K>::namespaced(client, namespace),
        watcher::Config::default(),
    )
    .default_backoff();
    tasks.spawn(events.for_each(move |event| {
        if let Ok(event) = event {
            note(&event);
            notify.send_replace(Instant::now());
        }
        std::future::ready(())
    }));
}

/// That a pod is there or leaves, with its uid.
fn news(event: &Event<Pod>) -> Option<String> {
    let (pod, is_leaving) = match event {
        Event::Apply(pod) | Event::InitApply(pod) => {
            (pod, pod.metadata.deletion_timestamp.is_some())
        }
        Event::Delete(pod) => (pod, true),
        Event::Init | Event::InitDone => return None,
    };
    let mark = if is_leaving { '-' } else { '+' };
    Some(format!(
        "{mark}{} {}",
        pod.name_any(),
        pod.uid().unwrap_or_default()
    ))
}

fn gone_is_fine(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other,
    }
}
