//! Two hundred nodes and two thousand pods: the bench must run them without becoming the load.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::time::Duration;

use anyhow::ensure;
use edgegrid_testkit::{Cluster, Patience, eventually_within, node, workload};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;

const NODES: usize = 200;
const PODS: i32 = 2000;
/// Several heartbeats of every node fall into this.
const WATCHED: Duration = Duration::from_secs(25);

/// Processor time that this process has used so far.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    // After the name in parentheses; user and system time are fields 14 and 15 of the line, in hundredths.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let times = fields.split(' ').skip(11).take(2);
    Duration::from_millis(times.map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
}

#[tokio::test]
async fn two_thousand_pods_run_on_two_hundred_nodes_without_using_a_core() {
    let cluster = Cluster::upstream().with_controllers().await.unwrap();
    let nodes =
        (0..NODES).map(|n| node(&format!("edge-{n}")).label("unit", &format!("u{}", n / 4)));
    cluster.add_nodes(nodes).await.unwrap();
    cluster
        .apply::<Deployment>(workload("web").replicas(PODS))
        .await
        .unwrap();

    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "default");
    let patience = Patience {
        limit: Duration::from_mins(4),
        pause: Duration::from_secs(1),
    };
    eventually_within(patience, "all pods are ready", async || {
        let status = deployments.get("web").await?.status.unwrap_or_default();
        ensure!(
            status.ready_replicas == Some(PODS),
            "{:?} ready",
            status.ready_replicas
        );
        Ok(())
    })
    .await
    .unwrap();

    let before = processor_time();
    tokio::time::sleep(WATCHED).await;
    let used = processor_time().saturating_sub(before);
    println!("ran {PODS} pods on {NODES} nodes: {used:?} of processor time in {WATCHED:?}");
    assert!(
        used < WATCHED,
        "the bench itself used {used:?} of processor time in {WATCHED:?}"
    );

    let nodes = Api::<Node>::all(cluster.client())
        .list(&ListParams::default())
        .await
        .unwrap();
    let ready = nodes.iter().filter(|node| {
        let conditions = node
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
    });
    assert_eq!(
        ready.count(),
        NODES,
        "every node must have kept its heartbeat"
    );
}
