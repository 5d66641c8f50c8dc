//! The program as it is shipped: with its own manifests, and no more rights than they give.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use edgegrid_api::{DeploymentGrid, names};
use edgegrid_testkit::edgegrid::Controller;
use edgegrid_testkit::{Cluster, Patience, eventually, eventually_within, grid, node};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;

/// With every decision and request in its log.
const TALKATIVE: [&str; 2] = ["--log-format=json", "--log-level=debug,hyper_util=info"];

async fn leads(controller: &Controller) -> bool {
    let metrics = controller.get("/metrics").await.unwrap();
    metrics.contains("edgegrid_leading 1")
}

/// What the API server refused it.
fn refusals(controller: &Controller) -> Vec<String> {
    let log = std::fs::read_to_string(controller.process().log()).unwrap();
    log.lines()
        .filter(|line| line.to_lowercase().contains("forbidden"))
        .map(str::to_owned)
        .collect()
}

fn deploy(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    folder.join(file).to_string_lossy().into_owned()
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

/// SuperEdge's controller has every right on secrets and nodes, no health, no metrics, and elects only if asked to.
#[tokio::test]
async fn the_shipped_manifests_run_it_and_a_signal_hands_over() {
    let cluster = Cluster::upstream().await.unwrap();
    let first = Controller::start(&cluster, "first", &TALKATIVE)
        .await
        .unwrap();
    let second = Controller::start(&cluster, "second", &TALKATIVE)
        .await
        .unwrap();
    let deployment = deploy("controller/deployment.yaml");
    let args = ["apply", "--server-side", "-f", &deployment];
    cluster.kubectl(args).await.unwrap();
    assert!(leads(&first).await && !leads(&second).await);
    let zone = node("n1").label("zone", "a");
    cluster.add_nodes([zone]).await.unwrap();
    stamp(&cluster, "web", Duration::from_secs(10)).await;

    first.process().terminate();
    let ended = eventually("the first has ended", async || {
        first.process().exited().context("it runs")
    });
    assert!(
        ended.await.unwrap().success(),
        "{}",
        first.process().tail(20)
    );
    // Far less than the lease's 15 s: it was released.
    stamp(&cluster, "shop", Duration::from_secs(8)).await;
    assert!(leads(&second).await);
    for controller in [&first, &second] {
        assert_eq!(refusals(controller), Vec::<String>::new());
    }
}
