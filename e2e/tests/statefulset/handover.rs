//! Changing hands between kube-controller-manager and ours, and both at once by mistake.

use std::collections::BTreeMap;

use anyhow::ensure;
use edgegrid_statefulset::names;
use edgegrid_testkit::{Cluster, eventually};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::support::{
    Ours, THEIRS, add_nodes, all, api, cluster_without_theirs, create_set, identities, nginx,
    pods_of_event, rolled_out,
};

async fn image(cluster: &Cluster, tag: &str) {
    let containers = json!([{ "name": "nginx", "image": format!("nginx:{tag}") }]);
    let patch = Patch::Strategic(
        json!({ "spec": { "template": { "spec": { "containers": containers } } } }),
    );
    let sets: Api<StatefulSet> = api(cluster);
    sets.patch("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Starts a rollout and lets it get stuck at `web-2`, which is new and not ready.
async fn begin_rollout(cluster: &Cluster, tag: &str) -> BTreeMap<String, (String, String, String)> {
    let before = identities(cluster).await.unwrap();
    cluster.set_ready("default", "web-2", false).await.unwrap();
    // Held, so that it stays as it is when it comes back; the old one must be ready to be replaced.
    let pods: Api<Pod> = api(cluster);
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    pods.patch_status("web-2", &PatchParams::default(), &Patch::Strategic(ready))
        .await
        .unwrap();
    image(cluster, tag).await;
    eventually("the rollout waits for web-2", async || {
        let now = identities(cluster).await?;
        let changed: Vec<_> = now
            .iter()
            .filter(|(name, pod)| before.get(*name).is_none_or(|old| old.0 != pod.0))
            .map(|(name, _)| name.as_str())
            .collect();
        let is_running = now
            .get("web-2")
            .is_some_and(|(_, _, address)| !address.is_empty());
        ensure!(
            changed == ["web-2", "web-3", "web-4"] && is_running,
            "{changed:?}"
        );
        Ok(now)
    })
    .await
    .unwrap()
}

async fn finish_rollout(cluster: &Cluster, frozen: &BTreeMap<String, (String, String, String)>) {
    cluster.set_ready("default", "web-2", true).await.unwrap();
    rolled_out(cluster).await.unwrap();
    let after = identities(cluster).await.unwrap();
    for name in ["web-2", "web-3", "web-4"] {
        assert_eq!(
            after[name].0, frozen[name].0,
            "{name} was new already and must not be restarted"
        );
    }
    for name in ["web-0", "web-1"] {
        assert_ne!(after[name].0, frozen[name].0, "{name} was still to come");
    }
}

async fn revisions(cluster: &Cluster) -> BTreeMap<String, i64> {
    let all: Vec<ControllerRevision> = all(cluster).await.unwrap();
    all.iter()
        .map(|revision| (revision.name_any(), revision.revision.unwrap_or(0)))
        .collect()
}

#[tokio::test]
async fn a_set_changes_hands_in_the_middle_of_a_rollout_and_back() {
    let mut cluster = Cluster::upstream().with_controllers().await.unwrap();
    add_nodes(&cluster).await;
    create_set(&cluster, &nginx(5)).await;
    rolled_out(&cluster).await.unwrap();

    // Theirs begins, ours ends.
    let frozen = begin_rollout(&cluster, "2").await;
    let before = revisions(&cluster).await;
    assert_eq!(before.len(), 2);
    cluster.restart_controller_manager([THEIRS]).unwrap();
    let ours = Ours::start(&cluster).await;
    finish_rollout(&cluster, &frozen).await;
    assert_eq!(
        revisions(&cluster).await,
        before,
        "no revision is added or renumbered"
    );

    // Ours begins, theirs ends.
    let frozen = begin_rollout(&cluster, "3").await;
    let before = revisions(&cluster).await;
    assert_eq!(before.len(), 3);
    ours.stop().await;
    cluster.restart_controller_manager([]).unwrap();
    finish_rollout(&cluster, &frozen).await;
    assert_eq!(revisions(&cluster).await, before);

    // Back to what was before, under theirs: they find our revisions good.
    image(&cluster, "2").await;
    rolled_out(&cluster).await.unwrap();
    let numbers = revisions(&cluster).await;
    assert_eq!(numbers.len(), 3, "a rollback reuses: {numbers:?}");
    assert_eq!(numbers.values().max(), Some(&4));
}

/// The garbage collector patches revisions, and the API server refuses that if their data would change by
/// being read and written again, as it does for text that Go escapes.
#[tokio::test]
async fn a_set_whose_template_has_any_text_is_deleted_without_its_pods_and_made_again() {
    let cluster = cluster_without_theirs().await;
    let ours = Ours::start(&cluster).await;
    let mut web = nginx(1);
    web["spec"]["template"]["metadata"]["annotations"] = json!({ "note": "<b> & \u{2028}é" });
    create_set(&cluster, &web).await;
    rolled_out(&cluster).await.unwrap();
    let (pods, before) = (
        identities(&cluster).await.unwrap(),
        revisions(&cluster).await,
    );
    cluster
        .kubectl([
            "delete",
            "statefulset",
            "web",
            "--cascade=orphan",
            "--timeout=20s",
        ])
        .await
        .unwrap();
    create_set(&cluster, &web).await;
    rolled_out(&cluster).await.unwrap();
    assert_eq!(identities(&cluster).await.unwrap(), pods, "adopted");
    assert_eq!(revisions(&cluster).await, before);
    ours.stop().await;
}

#[tokio::test]
async fn two_controllers_by_mistake_do_not_fight_and_an_event_says_so() {
    let cluster = Cluster::upstream().with_controllers().await.unwrap();
    add_nodes(&cluster).await;
    let ours = Ours::start(&cluster).await;
    let watch = ["get", "pods", "-w", "--output-watch-events", "--no-headers"];
    let watch = cluster.kubectl_in_background(watch).unwrap();
    create_set(&cluster, &nginx(4)).await;
    rolled_out(&cluster).await.unwrap();
    image(&cluster, "2").await;
    rolled_out(&cluster).await.unwrap();
    eventually("the mistake is reported", async || {
        let events: Vec<Event> = all(&cluster).await?;
        let reported = events
            .iter()
            .any(|event| event.reason.as_deref() == Some(names::FOREIGN_CONTROLLER));
        ensure!(reported, "{} events", events.len());
        Ok(())
    })
    .await
    .unwrap();
    image(&cluster, "3").await;
    rolled_out(&cluster).await.unwrap();
    assert_eq!(revisions(&cluster).await.len(), 3);
    // Every pod was made once for each template and nothing was made or deleted besides.
    eventually("kubectl has shown the last pod", async || {
        let (made, gone) = (
            pods_of_event(&watch, "ADDED").len(),
            pods_of_event(&watch, "DELETED").len(),
        );
        ensure!((made, gone) == (12, 8), "{made} made, {gone} deleted");
        Ok(())
    })
    .await
    .unwrap();
    ours.stop().await;
}
