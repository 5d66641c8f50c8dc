//! The program as it is shipped: who works, who stands by, and how the work is handed on.

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::{Ours, api, cluster_without_theirs, create_set, nginx, rolled_out};

async fn leads(ours: &Ours) -> bool {
    ours.metrics().await.contains("edgegrid_leading 1")
}

#[tokio::test]
async fn of_two_processes_one_works_and_a_signal_hands_over_at_once() {
    let cluster = cluster_without_theirs().await;
    let first = Ours::start_as(&cluster, "first").await;
    let second = Ours::start_as(&cluster, "second").await;
    create_set(&cluster, &nginx(2)).await;
    rolled_out(&cluster).await.unwrap();
    assert!(leads(&first).await && !leads(&second).await);
    let counted = first.metrics().await;
    let passes = "edgegrid_statefulset_passes_total{outcome=\"completed\"}";
    assert!(counted.contains(passes), "{counted}");

    first.stop().await;
    let sets: Api<k8s_openapi::api::apps::v1::StatefulSet> = api(&cluster);
    let patch = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    sets.patch("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
    rolled_out(&cluster).await.unwrap();
    assert!(leads(&second).await);
    second.stop().await;
}
