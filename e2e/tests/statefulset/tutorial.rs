//! The walk-throughs that people learn StatefulSets with, on real Kubernetes with real kubectl.

use std::collections::BTreeMap;

use anyhow::ensure;
use edgegrid_testkit::process::Process;
use edgegrid_testkit::{Cluster, eventually};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::support::{
    Ours, SERVICE, SET, all, cluster_without_theirs, create_set, endpoint_addresses, identities,
    nginx_with_claims, pods_of_event, rolled_out,
};

/// Where kubectl first showed a pod in a state.
fn position(output: &[&str], pod: &str, state: &str) -> usize {
    let found = output
        .iter()
        .position(|line| line.starts_with(pod) && line.contains(state));
    found.unwrap_or_else(|| panic!("{pod} was never {state}: {output:#?}"))
}

#[tokio::test]
async fn the_tutorial_runs_as_it_was_written() {
    let cluster = cluster_without_theirs().await;
    let ours = Ours::start(&cluster).await;
    let watch = cluster
        .kubectl_in_background(["get", "pods", "-w", "-l", "app=nginx", "--no-headers"])
        .unwrap();
    for manifest in [SERVICE, SET] {
        let created = cluster.kubectl_with_input(["create", "-f", "-"], manifest);
        created.await.unwrap();
    }
    rolled_out(&cluster).await.unwrap();
    shows_the_order(&watch).await;
    shows_the_events(&cluster).await;

    let before = identities(&cluster).await.unwrap();
    cordon_where_pods_run(&cluster).await;
    cluster
        .kubectl(["delete", "pod", "-l", "app=nginx", "--wait=false"])
        .await
        .unwrap();
    come_back(&cluster, &before).await;
    let output = watch.tail(200);
    let after: Vec<&str> = output
        .lines()
        .skip_while(|line| !line.contains("Terminating"))
        .collect();
    assert!(
        position(&after, "web-0", "Pending") < position(&after, "web-1", "Pending"),
        "{output}"
    );
    ours.stop().await;
}

/// `kubectl get pods -w` showed `web-0` running before there was a `web-1`.
async fn shows_the_order(watch: &Process) {
    let output = eventually("kubectl has shown both", async || {
        let output = watch.tail(100);
        let shows_it = |line: &str| line.starts_with("web-1") && line.contains("Running");
        ensure!(output.lines().any(shows_it), "{output}");
        Ok(output)
    });
    let output = output.await.unwrap();
    let lines: Vec<&str> = output.lines().collect();
    assert!(
        position(&lines, "web-0", "Running") < position(&lines, "web-1", "Pending"),
        "{output}"
    );
}

/// `kubectl get` and `kubectl describe` show the set and its events as the tutorial has them.
async fn shows_the_events(cluster: &Cluster) {
    let shown = cluster
        .kubectl(["get", "statefulset", "web", "--no-headers"])
        .await
        .unwrap();
    assert!(shown.contains("2/2"), "{shown}");
    let described = eventually("the events are shown", async || {
        let described = cluster.kubectl(["describe", "statefulset", "web"]).await?;
        let last = "Create Pod web-1 in StatefulSet web successful";
        ensure!(described.contains(last), "{described}");
        Ok(described)
    });
    let described = described.await.unwrap();
    let mut lines = described.lines();
    let line = lines.find(|line| line.contains("Create Pod web-0"));
    let line = line.unwrap();
    for word in ["Normal", "SuccessfulCreate", "statefulset-controller"] {
        assert!(line.contains(word), "{line}");
    }
}

/// Nothing new may go where the pods run now, so that their addresses must change.
async fn cordon_where_pods_run(cluster: &Cluster) {
    let pods: Vec<Pod> = all(cluster).await.unwrap();
    for pod in &pods {
        let spec = pod.spec.as_ref().unwrap();
        let node = spec.node_name.clone().unwrap();
        cluster.kubectl(["cordon", node.as_str()]).await.unwrap();
    }
}

/// Waits for new pods with the names and host names of before, and with new addresses.
async fn come_back(cluster: &Cluster, before: &BTreeMap<String, (String, String, String)>) {
    eventually("both are back as new pods of the same name", async || {
        let after = identities(cluster).await?;
        let names: Vec<_> = after
            .iter()
            .map(|(name, (_, host, _))| (name.as_str(), host.as_str()))
            .collect();
        let wanted = [("web-0", "web-0"), ("web-1", "web-1")];
        ensure!(names == wanted, "{after:?}");
        for (name, (uid, _, address)) in &after {
            let is_new = *uid != before[name].0 && *address != before[name].2;
            ensure!(is_new && !address.is_empty(), "{after:?}");
        }
        let mut addresses: Vec<_> = after
            .values()
            .map(|(_, _, address)| address.clone())
            .collect();
        addresses.sort();
        let seen = endpoint_addresses(cluster).await?;
        ensure!(seen == addresses, "endpoints lag");
        Ok(())
    })
    .await
    .unwrap();
}

fn named(ordinals: impl Iterator<Item = i32>) -> Vec<String> {
    ordinals.map(|ordinal| format!("web-{ordinal}")).collect()
}

#[tokio::test]
async fn scaling_with_claims_keeps_the_order_and_the_claims() {
    let cluster = cluster_without_theirs().await;
    let ours = Ours::start(&cluster).await;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    for number in 0..10 {
        let volume = json!({
            "metadata": { "name": format!("pv-{number}") },
            "spec": {
                "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": format!("/tmp/pv-{number}") },
            },
        });
        volumes
            .create(
                &PostParams::default(),
                &serde_json::from_value(volume).unwrap(),
            )
            .await
            .unwrap();
    }
    let watch = [
        "get",
        "pods",
        "-w",
        "-l",
        "app=nginx",
        "--output-watch-events",
        "--no-headers",
    ];
    let watch = cluster.kubectl_in_background(watch).unwrap();
    create_set(&cluster, &nginx_with_claims()).await;
    rolled_out(&cluster).await.unwrap();
    cluster
        .kubectl(["scale", "statefulset", "web", "--replicas=10"])
        .await
        .unwrap();
    rolled_out(&cluster).await.unwrap();
    eventually("all creations are shown in order", async || {
        let made = pods_of_event(&watch, "ADDED");
        ensure!(made == named(0..10), "{made:?}");
        Ok(())
    })
    .await
    .unwrap();
    let claims: Vec<PersistentVolumeClaim> = all(&cluster).await.unwrap();
    let bound = claims
        .iter()
        .filter(|claim| claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound"));
    assert_eq!(bound.count(), 10, "every claim has found a volume");

    let patch = r#"{"spec":{"replicas":2}}"#;
    cluster
        .kubectl(["patch", "statefulset", "web", "-p", patch])
        .await
        .unwrap();
    rolled_out(&cluster).await.unwrap();
    eventually("all deletions are shown in order", async || {
        let gone = pods_of_event(&watch, "DELETED");
        ensure!(gone == named((2..10).rev()), "{gone:?}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(
        all::<PersistentVolumeClaim>(&cluster).await.unwrap().len(),
        10,
        "claims stay"
    );
    ours.stop().await;
}
