//! The controllers on an embedded cluster, over a link of their own.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod snapshot;
pub(crate) mod world;

use std::time::Duration;

use anyhow::Result;
use edgegrid_controllers::process::{self, Process};
use edgegrid_controllers::registration::{Connector, by_token};
use edgegrid_controllers::{Clock, Config, Metrics, Setup};
use edgegrid_runtime::executor::{self, Executor, Limits};
use edgegrid_runtime::shutdown::{self, Trigger};
use edgegrid_runtime::{Elector, Fence, LeaseConfig, Readiness};
use edgegrid_testkit::faults::{Faults, Recorded};
use edgegrid_testkit::{Cluster, eventually};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;

/// Controllers that run until dropped, which stops them as a crash would.
pub(crate) struct Running {
    pub(crate) task: JoinHandle<()>,
    /// Ends them in order.
    pub(crate) trigger: Trigger,
    /// What they still wait for.
    pub(crate) readiness: Readiness,
    /// Faults of the controllers' own link.
    pub(crate) faults: Faults,
    /// What they asked the API server but for watches.
    pub(crate) requests: Recorded,
    /// What they wrote, but for leases.
    pub(crate) writes: Recorded,
    /// What they count.
    pub(crate) registry: Registry,
}

/// How controllers are started.
#[derive(Default)]
pub(crate) struct Start {
    pub(crate) config: Config,
    /// Under this lease; otherwise they are the only ones.
    pub(crate) lease: Option<LeaseConfig>,
    /// Whether they make their definitions themselves.
    pub(crate) manages_definitions: bool,
    /// How a member reaches its control cluster.
    pub(crate) connector: Option<Connector>,
    /// Their wall clock; otherwise the cluster's.
    pub(crate) clock: Option<Clock>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An embedded cluster that knows our kinds.
pub(crate) async fn cluster() -> Result<Cluster> {
    let cluster = Cluster::embedded().await?;
    cluster.install(edgegrid_api::crds()).await?;
    Ok(cluster)
}

/// Starts the controllers and waits until their caches have synced.
pub(crate) async fn start(cluster: &Cluster) -> Result<Running> {
    start_with(cluster, Start::default()).await
}

/// [`start`] with settings of its own.
pub(crate) async fn start_with(cluster: &Cluster, start: Start) -> Result<Running> {
    let running = launch(cluster, start)?;
    running.ready().await?;
    Ok(running)
}

/// Starts the controllers and waits for nothing.
pub(crate) fn launch(cluster: &Cluster, start: Start) -> Result<Running> {
    let (client, faults) = cluster.link()?;
    let requests = faults.record(|_, path| !path.contains("watch="));
    let writes = faults.record(|method, path| method != "GET" && !path.contains("/leases"));
    let (elector, fence) = match start.lease {
        Some(lease) => Elector::new(client.clone(), lease).map(|(e, fence)| (Some(e), fence))?,
        None => (None, Fence::always()),
    };
    let (limits, counts) = (Limits::default(), executor::Metrics::default());
    let mut registry = Registry::default();
    let setup = Setup {
        executor: Executor::new(client.clone(), fence, limits, counts),
        client,
        config: start.config,
        metrics: Metrics::register(&mut registry),
        clock: start.clock.unwrap_or_else(|| cluster.clock()),
        connector: start.connector.unwrap_or_else(|| by_token("test")),
    };
    let (trigger, shutdown) = shutdown::channel();
    let readiness = Readiness::default();
    let process = Process {
        elector,
        manages_definitions: start.manages_definitions,
        readiness: readiness.clone(),
        shutdown,
    };
    #[expect(clippy::disallowed_methods, reason = "aborted by Running")]
    let task = tokio::spawn(process::run(setup, process));
    Ok(Running {
        task,
        trigger,
        readiness,
        faults,
        requests,
        writes,
        registry,
    })
}

impl Running {
    /// A metric's line, as Prometheus reads it.
    pub(crate) fn metric(&self, name: &str) -> Option<String> {
        let mut text = String::new();
        encode(&mut text, &self.registry).ok()?;
        let found = text.lines().find(|line| line.starts_with(name));
        found.map(str::to_owned)
    }

    /// Waits until the caches have synced.
    pub(crate) async fn ready(&self) -> Result<()> {
        eventually("the caches have synced", async || {
            anyhow::ensure!(self.readiness.is_ready(), "something is missing");
            Ok(())
        })
        .await
    }
}

/// Lets the controllers work until they have written nothing for a quarter of a minute, workloads
/// becoming available and garbage being collected meanwhile.
pub(crate) async fn settle(cluster: &Cluster, running: &Running) -> Result<()> {
    settle_all(cluster, std::slice::from_ref(running)).await
}

/// [`settle`] for processes that take turns.
pub(crate) async fn settle_all(cluster: &Cluster, running: &[Running]) -> Result<()> {
    let calm = Duration::from_secs(15);
    let writes = || -> Vec<String> { running.iter().flat_map(|one| one.writes.take()).collect() };
    for _ in 0..40 {
        writes();
        tokio::time::sleep(calm).await;
        world::collect_garbage(cluster).await?;
        let moved = world::roll_out(cluster).await?;
        if writes().is_empty() && !moved {
            return Ok(());
        }
    }
    anyhow::bail!("the controllers never come to rest; last: {:#?}", writes())
}
