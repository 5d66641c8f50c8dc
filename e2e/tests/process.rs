//! The program as it is shipped: with its own manifests, and no more rights than they give.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_api::{DeploymentGrid, names};
use edgegrid_testkit::process::Process;
use edgegrid_testkit::{Cluster, Patience, eventually, eventually_within, grid, node};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A controller and where it shows its health.
struct Controller {
    process: Process,
    admin: SocketAddr,
}

/// The program, which cargo puts beside the folder of the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let program = folder.join("edgegrid");
    assert!(
        program.exists(),
        "no {}: run `cargo build --bin edgegrid`",
        program.display()
    );
    program
}

fn deploy(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    folder.join(file).to_string_lossy().into_owned()
}

async fn start(cluster: &Cluster, name: &str) -> Controller {
    let kubeconfig = cluster
        .kubeconfig_as_service_account(names::SYSTEM_NAMESPACE, names::CONTROLLER)
        .await
        .unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = free.local_addr().unwrap();
    drop(free);
    let mut command = Command::new(program());
    command
        .args([
            "controller",
            "--log-format=json",
            "--log-level=debug,hyper_util=info",
        ])
        .arg(format!("--bind-address={admin}"))
        .arg("--kubeconfig")
        .arg(kubeconfig);
    let process = Process::start(name, &mut command, cluster.folder().unwrap()).unwrap();
    Controller { process, admin }
}

impl Controller {
    async fn page(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.admin).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: edgegrid\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    async fn ready(&self) {
        eventually("the controller is ready", async || {
            self.process.expect_alive()?;
            let answer = self.page("/readyz").await?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn leads(&self) -> bool {
        let metrics = self.page("/metrics").await.unwrap();
        metrics.contains("edgegrid_leading 1")
    }

    /// What the API server refused it.
    fn refusals(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.process.log()).unwrap();
        log.lines()
            .filter(|line| line.to_lowercase().contains("forbidden"))
            .map(str::to_owned)
            .collect()
    }
}

async fn stamp(cluster: &Cluster, name: &str, within: Duration) {
    let wanted = grid(name).by("zone").replicas(1);
    cluster.apply::<DeploymentGrid>(wanted).await.unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let patience = Patience {
        limit: within,
        ..Patience::default()
    };
    eventually_within(patience, "the grid is stamped", async || {
        let name = names::workload(name, "a");
        deployments
            .get(&name)
            .await
            .map(drop)
            .context("no workload")
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn the_shipped_manifests_run_it_and_a_signal_hands_over() {
    let cluster = Cluster::upstream().await.unwrap();
    for file in ["rbac/controller.yaml", "controller/deployment.yaml"] {
        let args = ["apply", "--server-side", "-f", &deploy(file)];
        cluster.kubectl(args).await.unwrap();
    }
    let first = start(&cluster, "first").await;
    first.ready().await;
    let second = start(&cluster, "second").await;
    second.ready().await;
    assert!(first.leads().await && !second.leads().await);
    let zone = node("n1").label("zone", "a");
    cluster.add_nodes([zone]).await.unwrap();
    stamp(&cluster, "web", Duration::from_secs(10)).await;

    first.process.terminate();
    let ended = eventually("the first has ended", async || {
        first.process.exited().context("it runs")
    });
    assert!(ended.await.unwrap().success(), "{}", first.process.tail(20));
    // Far less than the lease's 15 s: it was released.
    stamp(&cluster, "shop", Duration::from_secs(8)).await;
    assert!(second.leads().await);
    for controller in [&first, &second] {
        assert_eq!(controller.refusals(), Vec::<String>::new());
    }
}
