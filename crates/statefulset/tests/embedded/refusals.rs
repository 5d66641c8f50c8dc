//! Bad input: what is refused is reported in an event and tried again, and blocks nothing else.

use anyhow::{Context, bail, ensure};
use edgegrid_statefulset::rules::{self, Set, revision_name};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::fixtures::{NS, SET, image, web, web_with_claims};

/// First of eleven ordinals of which the last has a digit more.
const START: i64 = 999_999_990;

/// Makes a set whose last pod has a name that is too long for a host, and no other.
///
/// With its revision's name, which every pod carries as a label, a name of 53 has one letter to spare, if
/// the hash is a short one: so the template changes until it is.
async fn create_long_named(bench: &Bench) -> anyhow::Result<String> {
    let name = "x".repeat(53);
    let mut set = web(0);
    set["metadata"]["name"] = name.clone().into();
    set["spec"]["podManagementPolicy"] = "Parallel".into();
    set["spec"]["ordinals"] = json!({ "start": START });
    for labels in [
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        *set.pointer_mut(labels).context("labels")? = json!({ "app": "long" });
    }
    bench.create(&set).await?;
    for tag in 0..100 {
        patch_spec(bench, &name, image(tag)).await?;
        let kind = ApiResource::erase::<StatefulSet>(&());
        let sets: Api<DynamicObject> = Api::namespaced_with(bench.cluster.client(), NS, &kind);
        let hash = rules::hash(&rules::payload(&Set::parse(&sets.get(&name).await?)?), 0);
        if revision_name(&name, &hash).len() == 63 {
            patch_spec(bench, &name, json!({ "replicas": 11 })).await?;
            return Ok(name);
        }
    }
    bail!("no template has a short hash")
}

async fn patch_spec(bench: &Bench, name: &str, spec: Value) -> anyhow::Result<()> {
    let sets: Api<StatefulSet> = bench.api();
    let patch = Patch::Merge(json!({ "spec": spec }));
    sets.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_has_an_event_and_blocks_neither_other_sets_nor_scaling_down() {
    let bench = Bench::start().await.unwrap();
    let name = create_long_named(&bench).await.unwrap();
    bench.create(&web(2)).await.unwrap();
    bench
        .eventually("all but the refused pod are there", async || {
            let count = bench.pods().await?.len();
            ensure!(count == 12, "{count} pods");
            let events = bench.events().await?;
            let pod = rules::pod_name(&name, START + 10);
            let refused = format!("Create Pod {pod} in StatefulSet {name} failed error:");
            let is_reported = events.iter().any(|event| event.contains(&refused));
            ensure!(is_reported, "{events:?}");
            Ok(())
        })
        .await
        .unwrap();
    patch_spec(&bench, &name, json!({ "replicas": 3 }))
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
async fn a_pod_waits_for_an_old_claim_to_go_and_is_created_when_it_has() {
    let bench = Bench::start().await.unwrap();
    bench.create(&web_with_claims(1)).await.unwrap();
    bench.settled().await.unwrap();
    let claims: Api<PersistentVolumeClaim> = bench.api();
    let leaving = json!({
        "metadata": { "name": "data-web-1", "finalizers": ["test/wait"] },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let leaving = serde_json::from_value(leaving).unwrap();
    let made = claims
        .create(&PostParams::default(), &leaving)
        .await
        .unwrap();
    let uid = made.uid().unwrap();
    bench.monitor.lock().expect_deletion(&uid);
    claims
        .delete("data-web-1", &DeleteParams::default())
        .await
        .unwrap();
    bench.spec(json!({ "replicas": 2 })).await.unwrap();
    let waits = "Create Pod web-1 in StatefulSet web failed error: pvc data-web-1 is being deleted";
    bench
        .eventually("an event says what is waited for", async || {
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
    bench.check_promises().unwrap();
    let claim = claims.get("data-web-1").await.unwrap();
    assert!(claim.finalizers().is_empty(), "a new one");
}
