//! Bad input: what is refused is told and tried again, and holds up nothing else.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::bench::{Bench, SET, web, web_with_claims};

/// A set whose pods from ordinal 10 on have names that are too long for a host.
fn long_named(replicas: i64) -> (String, Value) {
    let name = "x".repeat(61);
    let mut set = web(replicas);
    set["metadata"]["name"] = name.clone().into();
    set["spec"]["podManagementPolicy"] = "Parallel".into();
    for labels in [
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        *set.pointer_mut(labels).unwrap() = json!({ "app": "long" });
    }
    (name, set)
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_is_told_and_holds_up_neither_other_sets_nor_scaling_down() {
    let bench = Bench::start().await.unwrap();
    let (name, long) = long_named(11);
    bench.create(&long).await.unwrap();
    bench.create(&web(2)).await.unwrap();
    bench
        .eventually("all but the refused pod are there", async || {
            let count = bench.pods().await?.len();
            ensure!(count == 12, "{count} pods");
            let events = bench.events().await?;
            let refused = format!("Create Pod {name}-10 in StatefulSet {name} failed error:");
            let is_told = events.iter().any(|event| event.contains(&refused));
            ensure!(is_told, "{events:?}");
            Ok(())
        })
        .await
        .unwrap();
    let sets: Api<StatefulSet> = bench.api();
    let patch = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    sets.patch(&name, &PatchParams::default(), &patch)
        .await
        .unwrap();
    bench
        .eventually("it is scaled down", async || {
            let count = bench.pods().await?.len();
            ensure!(count == 5, "{count} pods");
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_an_old_claim_to_go_and_comes_when_it_has() {
    let bench = Bench::start().await.unwrap();
    bench.create(&web_with_claims(1)).await.unwrap();
    bench.settled().await.unwrap();
    let claims: Api<PersistentVolumeClaim> = bench.api();
    let leaving = json!({
        "metadata": { "name": "data-web-1", "finalizers": ["test/hold"] },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let leaving = serde_json::from_value(leaving).unwrap();
    claims
        .create(&PostParams::default(), &leaving)
        .await
        .unwrap();
    claims
        .delete("data-web-1", &DeleteParams::default())
        .await
        .unwrap();
    bench.spec(json!({ "replicas": 2 })).await.unwrap();
    let waits = "Create Pod web-1 in StatefulSet web failed error: pvc data-web-1 is being deleted";
    bench
        .eventually("the wait is told", async || {
            let events = bench.events().await?;
            ensure!(events.iter().any(|event| event == waits), "{events:?}");
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(bench.names().await.unwrap(), [format!("{SET}-0")]);

    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    claims
        .patch("data-web-1", &PatchParams::default(), &patch)
        .await
        .unwrap();
    bench.settled().await.unwrap();
    bench.verdict().unwrap();
    let claim = claims.get("data-web-1").await.unwrap();
    assert!(claim.finalizers().is_empty(), "a new one");
}
