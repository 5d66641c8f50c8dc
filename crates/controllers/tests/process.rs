//! The whole process in virtual time: elections, outages, shutdown.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use anyhow::ensure;
use edgegrid_api::{DeploymentGrid, names};
use edgegrid_controllers::process::{self, Process};
use edgegrid_controllers::{Config, Metrics, Setup};
use edgegrid_runtime::executor;
use edgegrid_runtime::shutdown::{self, Trigger};
use edgegrid_runtime::{Elector, Executor, LeaseConfig, Limits, Readiness};
use edgegrid_testkit::faults::{Fault, Faults, Recorded};
use edgegrid_testkit::{Cluster, eventually, grid, node};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const HOUR: Duration = Duration::from_hours(1);

/// A controller process on a link of its own.
struct Running {
    faults: Faults,
    writes: Recorded,
    readiness: Readiness,
    trigger: Trigger,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn start(cluster: &Cluster, name: &str) -> Running {
    let (client, faults) = cluster.link().unwrap();
    let writes = faults.record(|method, path| method != "GET" && !path.contains("/leases"));
    let lease = LeaseConfig::new("default", names::CONTROLLER, name);
    let (elector, fence) = Elector::new(client.clone(), lease).unwrap();
    let (limits, counts) = (Limits::default(), executor::Metrics::default());
    let setup = Setup {
        executor: Executor::new(client.clone(), fence, limits, counts),
        client,
        config: Config::default(),
        metrics: Metrics::default(),
        clock: cluster.clock(),
    };
    let (trigger, shutdown) = shutdown::channel();
    let readiness = Readiness::default();
    let process = Process {
        elector: Some(elector),
        manages_definitions: true,
        readiness: readiness.clone(),
        shutdown,
    };
    #[expect(clippy::disallowed_methods, reason = "aborted when dropped")]
    let task = tokio::spawn(process::run(setup, process));
    Running {
        faults,
        writes,
        readiness,
        trigger,
        task,
    }
}

async fn ready(running: &Running) {
    eventually("the process is ready", async || {
        ensure!(running.readiness.is_ready(), "something is missing");
        Ok(())
    })
    .await
    .unwrap();
}

/// Who holds the lease.
async fn holder(cluster: &Cluster) -> Option<String> {
    let leases: Api<Lease> = Api::default_namespaced(cluster.client());
    let lease = leases.get_opt(names::CONTROLLER).await.unwrap()?;
    lease.spec?.holder_identity
}

async fn add_grid(cluster: &Cluster, name: &str) {
    let grid = grid(name).by("zone").replicas(1);
    cluster.apply::<DeploymentGrid>(grid).await.unwrap();
}

/// Waits until the grid has its workload in zone `a`.
async fn stamped(cluster: &Cluster, grid: &str) {
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let name = names::workload(grid, "a");
    eventually("the grid is stamped", async || {
        ensure!(deployments.get_opt(&name).await?.is_some(), "no {name}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_bare_cluster_gets_its_definitions_and_is_worked_on() {
    let cluster = Cluster::embedded().await.unwrap();
    let running = start(&cluster, "a");
    assert!(!running.readiness.is_ready());
    ready(&running).await;
    let zone = node("n1").label("zone", "a");
    cluster.add_nodes([zone]).await.unwrap();
    add_grid(&cluster, "web").await;
    stamped(&cluster, "web").await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_is_ready_writes_nothing_and_takes_over_from_a_crash() {
    let cluster = Cluster::embedded().await.unwrap();
    let first = start(&cluster, "a");
    ready(&first).await;
    let second = start(&cluster, "b");
    ready(&second).await;
    let zone = node("n1").label("zone", "a");
    cluster.add_nodes([zone]).await.unwrap();
    add_grid(&cluster, "web").await;
    stamped(&cluster, "web").await;
    assert_eq!(second.writes.take(), Vec::<String>::new());

    first.task.abort();
    add_grid(&cluster, "shop").await;
    stamped(&cluster, "shop").await;
    assert_eq!(holder(&cluster).await.as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn the_api_server_away_for_an_hour_is_survived_without_a_restart() {
    for fault in [Fault::LoseRequest, Fault::Hang] {
        let cluster = Cluster::embedded().await.unwrap();
        let running = start(&cluster, "a");
        ready(&running).await;
        running.faults.break_off(fault);
        let zone = node("n1").label("zone", "a");
        cluster.add_nodes([zone]).await.unwrap();
        add_grid(&cluster, "web").await;
        sleep(HOUR).await;
        running.faults.restore();
        stamped(&cluster, "web").await;
        assert!(!running.task.is_finished());
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_at_start_is_waited_for() {
    let cluster = Cluster::embedded().await.unwrap();
    let running = start(&cluster, "a");
    running.faults.break_off(Fault::LoseRequest);
    sleep(HOUR).await;
    assert!(!running.task.is_finished() && !running.readiness.is_ready());
    running.faults.restore();
    ready(&running).await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_what_runs_and_hands_over_at_once() {
    let cluster = Cluster::embedded().await.unwrap();
    let mut first = start(&cluster, "a");
    ready(&first).await;
    let zone = node("n1").label("zone", "a");
    cluster.add_nodes([zone]).await.unwrap();
    // The first write of the workload takes effect only after the shutdown was asked for.
    let slow = Fault::Lag(Duration::from_secs(3));
    let is_workload =
        |method: &str, path: &str| method == "PATCH" && path.contains("/deployments/");
    first.faults.inject(1, slow, is_workload);
    add_grid(&cluster, "web").await;
    eventually("the write is under way", async || {
        ensure!(first.faults.pending() == 0, "not sent");
        Ok(())
    })
    .await
    .unwrap();
    first.trigger.pull();
    (&mut first.task).await.unwrap();
    assert_eq!(holder(&cluster).await.as_deref(), Some(""));
    stamped(&cluster, "web").await;

    let second = start(&cluster, "b");
    ready(&second).await;
    assert_eq!(holder(&cluster).await.as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_process_that_still_waits() {
    let cluster = Cluster::embedded().await.unwrap();
    let mut running = start(&cluster, "a");
    running.faults.break_off(Fault::LoseRequest);
    sleep(Duration::from_mins(1)).await;
    running.trigger.pull();
    (&mut running.task).await.unwrap();
}
