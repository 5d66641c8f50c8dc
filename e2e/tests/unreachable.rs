//! A cut that lasts longer than Kubernetes waits, on real Kubernetes: which pods are the same afterwards.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_api::{DeploymentGrid, StatefulSetGrid, WhenUnreachable};
use edgegrid_testkit::edgegrid::Controller;
use edgegrid_testkit::{Cluster, Patience, eventually, eventually_within, grid, node};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

/// Twice the pause between two heartbeats; Kubernetes itself waits for 50 s.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(20);
/// Kubernetes itself waits for 300 s.
const EVICTED_AFTER: Duration = Duration::from_secs(10);
const CUT: &str = "a-1";

/// Uid of each pod of the site that is cut off, by the grid it is of; and whether it is to go.
async fn pods(cluster: &Cluster) -> Result<BTreeMap<String, (String, bool)>> {
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let here = ListParams::default().fields(&format!("spec.nodeName={CUT}"));
    let of = |pod: &Pod| {
        let app = pod.labels().get("app").cloned().unwrap_or_default();
        let is_leaving = pod.metadata.deletion_timestamp.is_some();
        (app, (pod.uid().unwrap_or_default(), is_leaving))
    };
    Ok(pods.list(&here).await?.iter().map(of).collect())
}

async fn ready(cluster: &Cluster) -> Result<String> {
    let node = Api::<Node>::all(cluster.client()).get(CUT).await?;
    let conditions = node.status.and_then(|status| status.conditions);
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|one| one.type_ == "Ready");
    Ok(ready.context("a node without readiness")?.status)
}

async fn start() -> (Cluster, Controller) {
    let cluster = Cluster::upstream()
        .with_controllers()
        .evicting(UNREACHABLE_AFTER, EVICTED_AFTER)
        .await
        .unwrap();
    let nodes = [CUT, "b-1", "b-2"].map(|name| node(name).label("site", &name[..1]));
    cluster.add_nodes(nodes).await.unwrap();
    let controller = Controller::start(&cluster, "controller", &[]);
    let controller = controller.await.unwrap();
    for (name, when) in [
        ("kept", Some(WhenUnreachable::Keep)),
        ("evicted", Some(WhenUnreachable::Evict)),
        ("plain", None),
    ] {
        let mut grid: DeploymentGrid = grid(name).by("site").replicas(1).into();
        grid.spec.when_unreachable = when;
        cluster.apply::<DeploymentGrid>(grid).await.unwrap();
    }
    let mut set: StatefulSetGrid = grid("kept-set").by("site").replicas(1).into();
    set.spec.when_unreachable = Some(WhenUnreachable::Keep);
    cluster.apply::<StatefulSetGrid>(set).await.unwrap();
    (cluster, controller)
}

#[tokio::test]
async fn a_long_cut_restarts_nothing_that_is_kept_and_all_the_rest() {
    let (cluster, _controller) = start().await;
    let before = eventually("the site runs all four", async || {
        let pods = pods(&cluster).await?;
        ensure!(pods.len() == 4, "{pods:?}");
        Ok(pods)
    });
    let before = before.await.unwrap();
    for kind in ["deploymentgrids", "statefulsetgrids"] {
        let field = format!("{kind}.spec.whenUnreachable");
        let explained = cluster.kubectl(["explain", &field]).await.unwrap();
        let words: Vec<&str> = explained.split_whitespace().collect();
        let price = "nothing starts elsewhere in the site";
        assert!(words.join(" ").contains(price), "{explained}");
    }

    cluster.cut_off(CUT);
    let patience = Patience {
        limit: (UNREACHABLE_AFTER + EVICTED_AFTER) * 3,
        pause: Duration::from_millis(500),
    };
    let evicted = eventually_within(patience, "two pods are evicted", async || {
        let pods = pods(&cluster).await?;
        let leaving = ["evicted", "plain"].map(|name| pods.get(name).map(|(_, leaving)| *leaving));
        ensure!(leaving == [Some(true); 2], "{pods:?}");
        Ok(pods)
    });
    let evicted = evicted.await.unwrap();
    assert_eq!(ready(&cluster).await.unwrap(), "Unknown");
    for name in ["kept", "kept-set"] {
        assert_eq!(
            evicted[name], before[name],
            "{name} is neither gone nor going"
        );
    }

    cluster.reconnect(CUT).await.unwrap();
    let after = eventually("the site runs all four again", async || {
        ensure!(ready(&cluster).await? == "True", "the node is not back");
        let pods = pods(&cluster).await?;
        let is_leaving = pods.values().any(|(_, leaving)| *leaving);
        ensure!(pods.len() == 4 && !is_leaving, "{pods:?}");
        Ok(pods)
    });
    let after = after.await.unwrap();
    for (name, is_same) in [
        ("kept", true),
        ("kept-set", true),
        ("evicted", false),
        ("plain", false),
    ] {
        assert_eq!(after[name] == before[name], is_same, "{name}");
    }
}
