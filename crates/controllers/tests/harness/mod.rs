//! The controllers on an embedded cluster, over a link of their own.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod snapshot;
pub(crate) mod world;

use std::time::Duration;

use anyhow::Result;
use edgegrid_controllers::process::{self, Process};
use edgegrid_controllers::{Config, Metrics, Setup};
use edgegrid_runtime::Readiness;
use edgegrid_runtime::executor::{self, Executor, Limits};
use edgegrid_runtime::fence::Fence;
use edgegrid_runtime::shutdown::{self, Trigger};
use edgegrid_testkit::faults::{Faults, Recorded};
use edgegrid_testkit::{Cluster, eventually};
use tokio::task::JoinHandle;

/// Controllers that run until dropped, which stops them as a crash would.
pub(crate) struct Running {
    task: JoinHandle<()>,
    /// Never pulled; without it the process would end.
    _trigger: Trigger,
    /// Faults of the controllers' own link.
    pub(crate) faults: Faults,
    /// What they asked the API server but for watches.
    pub(crate) requests: Recorded,
    /// What they wrote.
    pub(crate) writes: Recorded,
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
    start_with(cluster, Config::default()).await
}

/// [`start`] with settings of its own.
pub(crate) async fn start_with(cluster: &Cluster, config: Config) -> Result<Running> {
    let (client, faults) = cluster.link()?;
    let requests = faults.record(|_, path| !path.contains("watch="));
    let writes = faults.record(|method, _| method != "GET");
    let executor = Executor::new(
        client.clone(),
        Fence::always(),
        Limits::default(),
        executor::Metrics::default(),
    );
    let setup = Setup {
        client,
        executor,
        config,
        metrics: Metrics::default(),
        clock: cluster.clock(),
    };
    let (trigger, shutdown) = shutdown::channel();
    let readiness = Readiness::default();
    let process = Process {
        elector: None,
        manages_definitions: false,
        readiness: readiness.clone(),
        shutdown,
    };
    #[expect(clippy::disallowed_methods, reason = "aborted by Running")]
    let task = tokio::spawn(process::run(setup, process));
    eventually("the caches have synced", async || {
        anyhow::ensure!(readiness.is_ready(), "something is missing");
        Ok(())
    })
    .await?;
    Ok(Running {
        task,
        _trigger: trigger,
        faults,
        requests,
        writes,
    })
}

/// Lets the controllers work until they have written nothing for a quarter of a minute, workloads
/// becoming available and garbage being collected meanwhile.
pub(crate) async fn settle(cluster: &Cluster, running: &Running) -> Result<()> {
    let calm = Duration::from_secs(15);
    for _ in 0..40 {
        running.writes.take();
        tokio::time::sleep(calm).await;
        world::collect_garbage(cluster).await?;
        let moved = world::roll_out(cluster).await?;
        if running.writes.take().is_empty() && !moved {
            return Ok(());
        }
    }
    anyhow::bail!(
        "the controllers never come to rest; last: {:#?}",
        running.writes.take()
    )
}
