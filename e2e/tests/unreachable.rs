//! A cut that lasts longer than Kubernetes waits, on real Kubernetes: which pods are the same afterwards.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_api::names::label;
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

async fn ready(cluster: &Cluster, node: &str) -> Result<String> {
    let node = Api::<Node>::all(cluster.client()).get(node).await?;
    let conditions = node.status.and_then(|status| status.conditions);
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|one| one.type_ == "Ready");
    Ok(ready.context("a node without readiness")?.status)
}

/// A cluster that does not wait long, and a controller. A node's first letter is its site.
async fn start(nodes: &[&str]) -> (Cluster, Controller) {
    let cluster = Cluster::upstream()
        .with_controllers()
        .evicting(UNREACHABLE_AFTER, EVICTED_AFTER)
        .await
        .unwrap();
    let nodes = nodes
        .iter()
        .map(|name| node(name).label("site", &name[..1]));
    cluster.add_nodes(nodes).await.unwrap();
    let controller = Controller::start(&cluster, "controller", &[]);
    let controller = controller.await.unwrap();
    (cluster, controller)
}

async fn apply(cluster: &Cluster, name: &str, when: Option<WhenUnreachable>) {
    let mut grid: DeploymentGrid = grid(name).by("site").replicas(1).into();
    grid.spec.when_unreachable = when;
    cluster.apply::<DeploymentGrid>(grid).await.unwrap();
}

async fn apply_set(cluster: &Cluster, name: &str) {
    let mut set: StatefulSetGrid = grid(name).by("site").replicas(1).into();
    set.spec.when_unreachable = Some(WhenUnreachable::Keep);
    cluster.apply::<StatefulSetGrid>(set).await.unwrap();
}

#[tokio::test]
async fn a_long_cut_restarts_nothing_that_is_kept_and_all_the_rest() {
    let (cluster, _controller) = start(&[CUT, "b-1", "b-2"]).await;
    apply(&cluster, "kept", Some(WhenUnreachable::Keep)).await;
    apply(&cluster, "evicted", Some(WhenUnreachable::Evict)).await;
    apply(&cluster, "plain", None).await;
    apply_set(&cluster, "kept-set").await;
    let before = eventually("the site runs all four", async || {
        let pods = pods(&cluster).await?;
        ensure!(pods.len() == 4, "{pods:?}");
        Ok(pods)
    });
    let before = before.await.unwrap();
    for kind in ["deploymentgrids", "statefulsetgrids"] {
        let field = format!("{kind}.spec.whenUnreachable");
        // Discovery shows a new kind some time after its objects can be written.
        let explained = eventually("the field's price is explained", async || {
            let explained = cluster.kubectl(["explain", &field]).await?;
            let words: Vec<&str> = explained.split_whitespace().collect();
            let price = "nothing starts elsewhere in the site";
            ensure!(words.join(" ").contains(price), "{explained}");
            Ok(())
        });
        explained.await.unwrap();
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
    assert_eq!(ready(&cluster, CUT).await.unwrap(), "Unknown");
    for name in ["kept", "kept-set"] {
        assert_eq!(
            evicted[name], before[name],
            "{name} is neither gone nor going"
        );
    }

    cluster.reconnect(CUT).await.unwrap();
    let after = eventually("the site runs all four again", async || {
        ensure!(
            ready(&cluster, CUT).await? == "True",
            "the node is not back"
        );
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

/// Node of each pod that is there and not to go, by the unit and the grid it is of.
async fn places(cluster: &Cluster) -> Result<BTreeMap<(String, String), String>> {
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let pods = pods.list(&ListParams::default()).await?;
    let staying = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let of = |pod: &Pod| {
        let value = |key: &str| pod.labels().get(key).cloned().unwrap_or_default();
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        ((value(label::UNIT), value("app")), node.unwrap_or_default())
    };
    Ok(staying.map(of).collect())
}

/// The two commands of the condition `NodeUnreachable`, for a machine that is dead.
#[tokio::test]
async fn pods_of_a_dead_machine_start_elsewhere_in_the_site_once_somebody_says_so() {
    let (cluster, _controller) = start(&["a-1", "a-2", "b-1", "b-2", "c-1"]).await;
    apply(&cluster, "kept", Some(WhenUnreachable::Keep)).await;
    apply_set(&cluster, "kept-set").await;
    let before = eventually("all sites run both", async || {
        let places = places(&cluster).await?;
        ensure!(places.len() == 6 && places.values().all(|node| !node.is_empty()));
        Ok(places)
    });
    let before = before.await.unwrap();
    let at = |places: &BTreeMap<(String, String), String>, site: &str, app: &str| {
        places
            .get(&(site.to_owned(), app.to_owned()))
            .cloned()
            .unwrap_or_default()
    };
    let dead = [at(&before, "a", "kept"), at(&before, "b", "kept-set")];
    for node in &dead {
        cluster.cut_off(node);
    }
    let patience = Patience {
        limit: Duration::from_mins(2),
        pause: Duration::from_millis(500),
    };
    let unknown = eventually_within(patience, "both are given up", async || {
        for node in &dead {
            let ready = ready(&cluster, node).await?;
            ensure!(ready == "Unknown", "{node}: {ready}");
        }
        Ok(())
    });
    unknown.await.unwrap();
    let down = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
    cluster
        .kubectl(["taint", "node", &dead[0], down])
        .await
        .unwrap();
    cluster.kubectl(["delete", "node", &dead[1]]).await.unwrap();
    let moved = eventually_within(patience, "their pods run elsewhere", async || {
        let now = places(&cluster).await?;
        let is_moved = now
            .values()
            .all(|node| !node.is_empty() && !dead.contains(node));
        ensure!(now.len() == 6 && is_moved, "dead {dead:?}: {now:?}");
        Ok(now)
    });
    let moved = moved.await.unwrap();
    assert_eq!(&at(&moved, "a", "kept")[..1], "a");
    assert_eq!(&at(&moved, "b", "kept-set")[..1], "b");
}
