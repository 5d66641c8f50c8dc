//! The walk-throughs that people learn StatefulSets with, on real Kubernetes with real kubectl.

use anyhow::ensure;
use edgegrid_testkit::eventually;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::support::{
    Ours, SERVICE, SET, all, cluster_without_theirs, create_set, endpoint_addresses, identities,
    nginx_with_claims, rolled_out, told,
};

#[tokio::test]
async fn the_tutorial_runs_as_it_was_written() {
    let cluster = cluster_without_theirs().await;
    let ours = Ours::start(&cluster).await;
    let watch = cluster
        .kubectl_in_background(["get", "pods", "-w", "-l", "app=nginx", "--no-headers"])
        .unwrap();
    cluster
        .kubectl_with_input(["create", "-f", "-"], SERVICE)
        .await
        .unwrap();
    cluster
        .kubectl_with_input(["create", "-f", "-"], SET)
        .await
        .unwrap();
    rolled_out(&cluster).await.unwrap();

    let told = eventually("kubectl has told of both", async || {
        let told = watch.tail(100);
        ensure!(
            told.lines()
                .any(|line| line.starts_with("web-1") && line.contains("Running")),
            "{told}"
        );
        Ok(told)
    })
    .await
    .unwrap();
    let position = |pod: &str, state: &str| {
        told.lines()
            .position(|l| l.starts_with(pod) && l.contains(state))
            .unwrap()
    };
    assert!(
        position("web-0", "Running") < position("web-1", "Pending"),
        "{told}"
    );
    let shown = cluster
        .kubectl(["get", "statefulset", "web", "--no-headers"])
        .await
        .unwrap();
    assert!(shown.contains("2/2"), "{shown}");
    let described = eventually("the events are told", async || {
        let described = cluster.kubectl(["describe", "statefulset", "web"]).await?;
        ensure!(
            described.contains("Create Pod web-1 in StatefulSet web successful"),
            "{described}"
        );
        Ok(described)
    })
    .await
    .unwrap();
    let line = described
        .lines()
        .find(|line| line.contains("Create Pod web-0"))
        .unwrap();
    assert!(
        line.contains("Normal")
            && line.contains("SuccessfulCreate")
            && line.contains("statefulset-controller"),
        "{line}"
    );

    let before = identities(&cluster).await.unwrap();
    // Where they run now nothing new may go, so that the addresses must change.
    let pods: Vec<Pod> = all(&cluster).await.unwrap();
    for pod in &pods {
        let node = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .unwrap();
        cluster.kubectl(["cordon", node.as_str()]).await.unwrap();
    }
    cluster
        .kubectl(["delete", "pod", "-l", "app=nginx", "--wait=false"])
        .await
        .unwrap();
    eventually("both are back as new pods of the same name", async || {
        let after = identities(&cluster).await?;
        let names: Vec<_> = after
            .iter()
            .map(|(name, (_, host, _))| (name.as_str(), host.as_str()))
            .collect();
        ensure!(
            names == [("web-0", "web-0"), ("web-1", "web-1")],
            "{after:?}"
        );
        for (name, (uid, _, address)) in &after {
            ensure!(
                *uid != before[name].0 && !address.is_empty() && *address != before[name].2,
                "{after:?}"
            );
        }
        let mut addresses: Vec<_> = after
            .values()
            .map(|(_, _, address)| address.clone())
            .collect();
        addresses.sort();
        ensure!(
            endpoint_addresses(&cluster).await? == addresses,
            "endpoints lag"
        );
        Ok(())
    })
    .await
    .unwrap();
    let told = watch.tail(200);
    let after = told
        .lines()
        .skip_while(|line| !line.contains("Terminating"))
        .collect::<Vec<_>>();
    let position = |pod: &str, state: &str| {
        after
            .iter()
            .position(|l| l.starts_with(pod) && l.contains(state))
            .unwrap()
    };
    assert!(
        position("web-0", "Pending") < position("web-1", "Pending"),
        "{told}"
    );
    ours.stop().await;
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
    eventually("all creations are told in order", async || {
        let made = told(&watch, "ADDED");
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
    eventually("all deletions are told in order", async || {
        let gone = told(&watch, "DELETED");
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
