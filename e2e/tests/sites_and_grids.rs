//! The walk-through on real Kubernetes: `edgegrid controller` with the shipped rights and nothing
//! more, kube-controller-manager, kube-scheduler, simulated nodes, kubectl.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use anyhow::{Context, Result, ensure};
use edgegrid_api::DeploymentGrid;
use edgegrid_testkit::edgegrid::Controller;
use edgegrid_testkit::{Cluster, eventually, grid, node};
use serde_json::Value;

const NODES: [&str; 6] = ["bj-1", "bj-2", "bj-3", "gz-1", "gz-2", "gz-3"];

async fn cluster() -> (Cluster, Controller) {
    let cluster = Cluster::upstream().with_controllers().await.unwrap();
    cluster.add_nodes(NODES.map(node)).await.unwrap();
    let controller = Controller::start(&cluster, &[]).await.unwrap();
    (cluster, controller)
}

async fn apply(cluster: &Cluster, fixture: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/api/fixtures")
        .join(fixture);
    cluster
        .kubectl(["apply", "-f", path.to_str().unwrap()])
        .await
        .unwrap();
}

/// The lines of a kubectl table without its head, blanks made one, ages cut off.
async fn table(cluster: &Cluster, what: &[&str]) -> Result<Vec<String>> {
    let output = cluster.kubectl(what).await?;
    let lines = output
        .lines()
        .skip(1)
        .filter(|line| !line.trim().is_empty());
    Ok(lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[..words.len() - 1].join(" ")
        })
        .collect())
}

async fn shows(cluster: &Cluster, what: &[&str], wanted: &[&str]) {
    let wish = format!("`kubectl {}` shows {wanted:#?}", what.join(" "));
    eventually(&wish, async || {
        let seen = table(cluster, what).await?;
        ensure!(seen == wanted, "{seen:#?}");
        Ok(())
    })
    .await
    .unwrap();
}

async fn json(cluster: &Cluster, what: &[&str]) -> Result<Value> {
    let output = cluster
        .kubectl(what.iter().copied().chain(["-o", "json"]))
        .await?;
    serde_json::from_str(&output).context("read JSON of kubectl")
}

#[tokio::test]
async fn the_walk_through_of_sites_deployments_and_services() {
    let (cluster, _controller) = cluster().await;
    sites(&cluster).await;
    deployments(&cluster).await;
    services(&cluster).await;
    a_new_unit_and_its_end(&cluster).await;
}

/// Mission 2.1.
async fn sites(cluster: &Cluster) {
    apply(cluster, "walkthrough/sites.yaml").await;
    let wanted = [
        "beijing edge 3/3",
        "guangzhou edge 3/3",
        "unit-node-all other 6/6",
    ];
    shows(cluster, &["get", "nodeunit"], &wanted).await;
    shows(cluster, &["get", "nodegroup"], &["location 2"]).await;
    let group = json(cluster, &["get", "ng", "location"]).await.unwrap();
    assert_eq!(
        group["status"]["nodeUnits"],
        serde_json::json!(["beijing", "guangzhou"])
    );
    for name in NODES {
        let unit = if name.starts_with("bj") {
            "beijing"
        } else {
            "guangzhou"
        };
        let node = json(cluster, &["get", "node", name]).await.unwrap();
        let labels = &node["metadata"]["labels"];
        assert_eq!(labels[unit], "nodeunits.superedge.io", "{name}");
        assert_eq!(labels["location"], unit, "{name}");
    }
    let described = cluster
        .kubectl(["describe", "nodeunit", "beijing"])
        .await
        .unwrap();
    for line in ["Beijing:", "nodeunits.superedge.io", "Location:"] {
        assert!(described.contains(line), "{described}");
    }
}

/// Mission 2.2.
async fn deployments(cluster: &Cluster) {
    let grid = grid("deploymentgrid-demo").by("location").replicas(2);
    cluster.apply::<DeploymentGrid>(grid).await.unwrap();
    let wanted = [
        "deploymentgrid-demo-beijing 2/2 2 2",
        "deploymentgrid-demo-guangzhou 2/2 2 2",
    ];
    shows(cluster, &["get", "deployment"], &wanted).await;
    shows(
        cluster,
        &["get", "dg"],
        &["deploymentgrid-demo location 2 2/2 True"],
    )
    .await;
    let pods = json(cluster, &["get", "pods"]).await.unwrap();
    for pod in pods["items"].as_array().unwrap() {
        let (name, node) = (
            pod["metadata"]["name"].as_str().unwrap(),
            pod["spec"]["nodeName"].as_str().unwrap(),
        );
        let home = if name.contains("beijing") {
            "bj-"
        } else {
            "gz-"
        };
        assert!(node.starts_with(home), "{name} runs on {node}");
    }
}

/// Mission 2.3.
async fn services(cluster: &Cluster) {
    apply(cluster, "seeds/001-servicegrid.yaml").await;
    let service = eventually("the Service is there", async || {
        json(cluster, &["get", "service", "servicegrid-demo-svc"]).await
    })
    .await
    .unwrap();
    let metadata = &service["metadata"];
    assert_eq!(
        metadata["labels"]["superedge.io/grid-selector"],
        "servicegrid-demo"
    );
    assert_eq!(metadata["labels"]["superedge.io/grid-uniq-key"], "location");
    assert_eq!(metadata["annotations"]["topologyKeys"], r#"["location"]"#);
    assert_eq!(metadata["ownerReferences"][0]["kind"], "ServiceGrid");
    assert!(
        metadata["annotations"]
            .get("kubectl.kubernetes.io/last-applied-configuration")
            .is_none()
    );
}

/// Mission 2.5.
async fn a_new_unit_and_its_end(cluster: &Cluster) {
    cluster
        .add_nodes([node("sh-1").label("location", "shanghai")])
        .await
        .unwrap();
    let all = ["beijing", "guangzhou", "shanghai"]
        .map(|unit| format!("deploymentgrid-demo-{unit} 2/2 2 2"));
    shows(
        cluster,
        &["get", "deployment"],
        &all.each_ref().map(String::as_str),
    )
    .await;
    cluster
        .kubectl(["label", "node", "sh-1", "location-"])
        .await
        .unwrap();
    shows(
        cluster,
        &["get", "deployment"],
        &all[..2].iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .await;
}
