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
    let controller = Controller::start(&cluster, "controller", &[])
        .await
        .unwrap();
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
    let expectation = format!("`kubectl {}` shows {wanted:#?}", what.join(" "));
    eventually(&expectation, async || {
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
    an_ordinary_service(&cluster).await;
    a_new_unit_and_its_end(&cluster).await;
}

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

async fn deployments(cluster: &Cluster) {
    apply(cluster, "seeds/001-deploymentgrid.yaml").await;
    let wanted = [
        "deploymentgrid-demo-beijing 2/2 2 2",
        "deploymentgrid-demo-guangzhou 2/2 2 2",
    ];
    shows(cluster, &["get", "deployment"], &wanted).await;
    shows(
        cluster,
        &["get", "dg"],
        &["deploymentgrid-demo location 2 2/2"],
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

/// Both Services have the pods of all units.
async fn an_ordinary_service(cluster: &Cluster) {
    let plain = ["create", "service", "clusterip", "plain", "--tcp=80:8080"];
    cluster.kubectl(plain).await.unwrap();
    let selector = r#"{"spec":{"selector":{"app":null,"appGrid":"echo"}}}"#;
    let patch = ["patch", "service", "plain", "--type=merge", "-p", selector];
    cluster.kubectl(patch).await.unwrap();
    for service in ["plain", "servicegrid-demo-svc"] {
        let of_service = format!("kubernetes.io/service-name={service}");
        eventually("all pods are endpoints", async || {
            let slices = json(cluster, &["get", "endpointslice", "-l", &of_service]).await?;
            let slices = slices["items"].as_array().context("no list")?;
            let endpoints = slices
                .iter()
                .filter_map(|slice| slice["endpoints"].as_array());
            let nodes: Vec<&str> = endpoints
                .flatten()
                .filter_map(|endpoint| endpoint["nodeName"].as_str())
                .collect();
            let of = |site: &str| nodes.iter().filter(|node| node.starts_with(site)).count();
            ensure!((of("bj-"), of("gz-")) == (2, 2), "{service}: {nodes:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
    let service = json(cluster, &["get", "service", "plain"]).await.unwrap();
    assert!(
        service["metadata"].get("annotations").is_none(),
        "{service}"
    );
}

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

#[tokio::test]
async fn stateful_sets_canaries_scalers_and_objects_of_others() {
    let (cluster, _controller) = cluster().await;
    apply(&cluster, "walkthrough/sites.yaml").await;
    stateful_sets(&cluster).await;
    a_canary_on_nodes_labelled_by_hand(&cluster).await;
    a_scaler_per_unit(&cluster).await;
    objects_of_others(&cluster).await;
}

async fn stateful_sets(cluster: &Cluster) {
    apply(cluster, "seeds/001-servicegrid.yaml").await;
    apply(cluster, "seeds/001-statefulsetgrid.yaml").await;
    let wanted = [
        "statefulsetgrid-demo-beijing 3/3",
        "statefulsetgrid-demo-guangzhou 3/3",
    ];
    shows(cluster, &["get", "statefulset"], &wanted).await;
    let pods = json(cluster, &["get", "pods", "-l", "edgegrid.io/unit=beijing"])
        .await
        .unwrap();
    let pods = pods["items"].as_array().unwrap();
    let names: Vec<&str> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [0, 1, 2].map(|n| format!("statefulsetgrid-demo-beijing-{n}"))
    );
    cluster
        .kubectl(["delete", "ssg", "statefulsetgrid-demo"])
        .await
        .unwrap();
    shows(cluster, &["get", "statefulset"], &[]).await;
}

/// Key `zone`, no NodeUnit, SuperEdge's own manifest.
async fn a_canary_on_nodes_labelled_by_hand(cluster: &Cluster) {
    for (node, zone) in [("bj-1", "zone1"), ("gz-1", "zone2"), ("gz-2", "zone3")] {
        cluster
            .kubectl(["label", "node", node, &format!("zone={zone}")])
            .await
            .unwrap();
    }
    apply(cluster, "seeds/001-deploymentgrid-canary.yaml").await;
    let wanted = [
        "zone1 superedge/echoserver:2.2",
        "zone2 superedge/echoserver:2.3",
        "zone3 superedge/echoserver:2.2",
    ];
    eventually("every zone runs its own template", async || {
        let all = json(cluster, &["get", "deployment"]).await?;
        let items = all["items"].as_array().context("a list")?;
        let seen: Vec<String> = items
            .iter()
            .map(|item| {
                let spec = &item["spec"]["template"]["spec"];
                let (zone, image) = (
                    &spec["nodeSelector"]["zone"],
                    &spec["containers"][0]["image"],
                );
                format!(
                    "{} {}",
                    zone.as_str().unwrap_or("?"),
                    image.as_str().unwrap_or("?")
                )
            })
            .collect();
        ensure!(seen == wanted, "{seen:?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// An autoscaler per unit: with one selector for all units Kubernetes calls it ambiguous.
async fn a_scaler_per_unit(cluster: &Cluster) {
    for zone in ["zone1", "zone2"] {
        let deployment = format!("deployment/deploymentgrid-demo-{zone}");
        let scaler = ["autoscale", &deployment, "--min=1", "--max=3", "--cpu=50%"];
        cluster.kubectl(scaler).await.unwrap();
    }
    eventually(
        "both scalers have the condition ScalingActive, and neither is ambiguous",
        async || {
            let all = json(cluster, &["get", "hpa"]).await?;
            for scaler in all["items"].as_array().context("a list")? {
                let conditions = scaler["status"]["conditions"]
                    .as_array()
                    .context("no condition ScalingActive yet")?;
                let active = conditions.iter().find(|one| one["type"] == "ScalingActive");
                let reason = active.context("no condition ScalingActive yet")?["reason"]
                    .as_str()
                    .unwrap_or_default();
                assert_ne!(reason, "AmbiguousSelector", "{scaler:#}");
            }
            Ok(())
        },
    )
    .await
    .unwrap();
}

/// Somebody else's objects of the wanted names stay as they are.
async fn objects_of_others(cluster: &Cluster) {
    cluster
        .kubectl([
            "create",
            "deployment",
            "mine-beijing",
            "--image=nginx",
            "--replicas=3",
        ])
        .await
        .unwrap();
    cluster
        .kubectl(["create", "service", "clusterip", "mine-svc", "--tcp=80:80"])
        .await
        .unwrap();
    let spec = async |what: &str| {
        let object = json(cluster, &["get", what]).await.unwrap();
        (
            object["metadata"]["uid"].clone(),
            object["metadata"]["labels"].clone(),
            object["spec"].clone(),
        )
    };
    let (deployment, service) = (
        spec("deployment/mine-beijing").await,
        spec("service/mine-svc").await,
    );
    cluster
        .apply::<DeploymentGrid>(grid("mine").by("location"))
        .await
        .unwrap();
    cluster
        .apply::<edgegrid_api::ServiceGrid>(
            edgegrid_testkit::service("mine", "mine")
                .by("location")
                .port(80, 80),
        )
        .await
        .unwrap();
    for kind in ["dg", "sg"] {
        eventually("the grid says that the name is taken", async || {
            let grid = json(cluster, &["get", kind, "mine"]).await?;
            let conditions = grid["status"]["conditions"]
                .as_array()
                .context("no conditions yet")?;
            ensure!(
                conditions.iter().any(|one| one["type"] == "NameTaken"),
                "{conditions:#?}"
            );
            Ok(())
        })
        .await
        .unwrap();
    }
    assert_eq!(spec("deployment/mine-beijing").await, deployment);
    assert_eq!(spec("service/mine-svc").await, service);
}
