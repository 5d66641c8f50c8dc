//! What others added stays, what we set and somebody changed is put back, what we no longer set goes.

use std::time::Duration;

use anyhow::Result;
use edgegrid_api::names::{annotation, label};
use edgegrid_testkit::Cluster;
use serde_json::{Value, json};

use crate::harness::{self, Running};
use crate::stage::*;

const IMAGE: &str = "superedge/echoserver:2.2";

/// A grid `web` in units `a` and `b`, stamped.
async fn stamped(template: &Value) -> Result<(Cluster, Running)> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["a-1 zone=a", "b-1 zone=b"]).await?;
    let running = harness::start(&cluster).await?;
    stage
        .create(DEPLOYMENT_GRID, "web", &grid("zone", template))
        .await?;
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
    a_while().await;
    Ok((cluster, running))
}

#[tokio::test(start_paused = true)]
async fn what_we_set_and_somebody_changed_is_put_back() -> Result<()> {
    let (cluster, _running) = stamped(&deployment_spec(IMAGE, Some(2))).await?;
    let stage = Stage(&cluster);
    let before = stage.read(DEPLOYMENT, "web-a").await?;
    for change in [
        json!({ "spec": { "replicas": 9 } }),
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "echo", "image": "hacked:1" }] } } } }),
        json!({ "spec": { "template": { "spec": { "nodeSelector": { "zone": "b" } } } } }),
        json!({ "metadata": { "labels": { label::UNIT: null } } }),
        json!({ "metadata": { "annotations": { annotation::APPLIED: null } } }),
        json!({ "metadata": { "ownerReferences": [] } }),
    ] {
        stage.edit(DEPLOYMENT, "web-a", &change).await?;
        a_while().await;
        let after = stage.read(DEPLOYMENT, "web-a").await?;
        assert_eq!(after["spec"], before["spec"], "{change}");
        assert_eq!(
            after["metadata"]["labels"], before["metadata"]["labels"],
            "{change}"
        );
        assert_eq!(
            after["metadata"]["ownerReferences"], before["metadata"]["ownerReferences"],
            "{change}"
        );
    }
    Ok(())
}

/// SuperEdge replaced the whole object: annotations were lost, and `kubectl rollout restart` was undone.
#[tokio::test(start_paused = true)]
async fn what_others_added_stays() -> Result<()> {
    let (cluster, running) = stamped(&deployment_spec(IMAGE, Some(2))).await?;
    let stage = Stage(&cluster);
    let change = json!({
        "metadata": { "annotations": { "deployment.kubernetes.io/revision": "3" }, "labels": { "gitops": "yes" } },
        "spec": { "template": { "metadata": { "annotations": { "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z" } } } },
    });
    stage.edit(DEPLOYMENT, "web-a", &change).await?;
    running.writes.take();
    pass_time(Duration::from_mins(5)).await;
    assert!(
        running
            .writes
            .take()
            .iter()
            .all(|write| !write.contains("/deployments/")),
        "no write for what is not ours"
    );
    // And it survives a change of the template.
    stage
        .edit(
            DEPLOYMENT_GRID,
            "web",
            &json!({ "spec": { "template": { "minReadySeconds": 3 } } }),
        )
        .await?;
    let after = stage
        .until((DEPLOYMENT, "web-a"), json!(3), |child| {
            child["spec"]["minReadySeconds"].clone()
        })
        .await?;
    assert_eq!(
        after["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "3"
    );
    assert_eq!(after["metadata"]["labels"]["gitops"], "yes");
    let stamp =
        &after["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"];
    assert_eq!(stamp, "2026-01-01T00:00:00Z");
    Ok(())
}

/// The "deep contains" of SuperEdge never removed a list's tail, a map's key or a true.
#[tokio::test(start_paused = true)]
async fn what_the_template_no_longer_has_goes_away() -> Result<()> {
    let mut template = deployment_spec(IMAGE, Some(2));
    template["paused"] = json!(true);
    template["template"]["spec"]["containers"][0]["args"] = json!(["-v", "-x"]);
    template["template"]["metadata"]["annotations"] = json!({ "note": "x" });
    let (cluster, _running) = stamped(&template).await?;
    let stage = Stage(&cluster);
    assert_eq!(
        stage.read(DEPLOYMENT, "web-a").await?["spec"]["paused"],
        true
    );
    let plain = json!([{ "op": "replace", "path": "/spec/template", "value": deployment_spec(IMAGE, Some(2)) }]);
    let patch = kube::api::Patch::<()>::Json(serde_json::from_value(plain)?);
    stage
        .api(DEPLOYMENT_GRID)
        .patch("web", &kube::api::PatchParams::default(), &patch)
        .await?;
    let after = stage
        .until((DEPLOYMENT, "web-a"), Value::Null, |child| {
            child["spec"]["paused"].clone()
        })
        .await?;
    assert_eq!(
        after["spec"]["template"]["spec"]["containers"][0]["args"],
        Value::Null
    );
    assert_eq!(
        after["spec"]["template"]["metadata"]["annotations"],
        Value::Null
    );
    Ok(())
}

/// In SuperEdge a nodeSelector in the template was shared by all units, and the last unit's value won.
#[tokio::test(start_paused = true)]
async fn a_templates_own_node_selector_is_added_to_each_units() -> Result<()> {
    let mut template = deployment_spec(IMAGE, Some(1));
    template["template"]["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    let (cluster, _running) = stamped(&template).await?;
    let stage = Stage(&cluster);
    for unit in ["a", "b"] {
        let child = stage.read(DEPLOYMENT, &format!("web-{unit}")).await?;
        assert_eq!(
            child["spec"]["template"]["spec"]["nodeSelector"],
            json!({ "disk": "ssd", "zone": unit })
        );
    }
    let grid = stage.read(DEPLOYMENT_GRID, "web").await?;
    assert_eq!(
        grid["spec"]["template"]["template"]["spec"]["nodeSelector"],
        json!({ "disk": "ssd" })
    );
    Ok(())
}

/// SuperEdge wrote hashes, defaults and labels into the user's own object.
#[tokio::test(start_paused = true)]
async fn the_users_grid_is_not_written_but_for_its_status() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["a-1 zone=a"]).await?;
    let _running = harness::start(&cluster).await?;
    let before = stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid("zone", &deployment_spec(IMAGE, Some(2))),
        )
        .await?;
    stage.children(DEPLOYMENT, &["web-a"]).await?;
    pass_time(Duration::from_mins(5)).await;
    let after = stage.read(DEPLOYMENT_GRID, "web").await?;
    assert_eq!(after["spec"], before["spec"]);
    for part in ["labels", "annotations", "generation", "finalizers"] {
        assert_eq!(after["metadata"][part], before["metadata"][part], "{part}");
    }
    let child = stage.read(DEPLOYMENT, "web-a").await?;
    assert!(
        child["spec"]["template"]["metadata"]["labels"]
            .get(label::TEMPLATE_HASH_KEY)
            .is_none()
    );
    Ok(())
}

/// The grid's own labels are on its children, and follow it.
#[tokio::test(start_paused = true)]
async fn the_grids_labels_are_copied_and_taken_back() -> Result<()> {
    let (cluster, _running) = stamped(&deployment_spec(IMAGE, Some(2))).await?;
    let stage = Stage(&cluster);
    stage
        .edit(
            DEPLOYMENT_GRID,
            "web",
            &json!({ "metadata": { "labels": { "team": "x" } } }),
        )
        .await?;
    stage
        .until((DEPLOYMENT, "web-b"), Some("x".to_owned()), |child| {
            label_of(child, "team")
        })
        .await?;
    stage
        .edit(
            DEPLOYMENT_GRID,
            "web",
            &json!({ "metadata": { "labels": { "team": null } } }),
        )
        .await?;
    stage
        .until((DEPLOYMENT, "web-b"), None, |child| label_of(child, "team"))
        .await?;
    Ok(())
}

/// Without `replicas` SuperEdge crashed; with it every scale was undone.
#[tokio::test(start_paused = true)]
async fn replicas_that_the_template_does_not_name_are_left_to_whoever_scales() -> Result<()> {
    let (cluster, _running) = stamped(&deployment_spec(IMAGE, None)).await?;
    let stage = Stage(&cluster);
    assert_eq!(
        stage.read(DEPLOYMENT, "web-a").await?["spec"]["replicas"],
        1
    );
    scale(&stage, "web-a", 6).await?;
    pass_time(Duration::from_mins(5)).await;
    stage
        .edit(
            DEPLOYMENT_GRID,
            "web",
            &json!({ "spec": { "template": { "minReadySeconds": 3 } } }),
        )
        .await?;
    let after = stage
        .until((DEPLOYMENT, "web-a"), json!(3), |child| {
            child["spec"]["minReadySeconds"].clone()
        })
        .await?;
    assert_eq!(after["spec"]["replicas"], 6);
    Ok(())
}

/// Dropping an owned `replicas: 10` scales to 1; handing it over first never moves the count.
#[tokio::test(start_paused = true)]
async fn replicas_are_handed_over_without_the_count_ever_moving() -> Result<()> {
    let (cluster, _running) = stamped(&deployment_spec(IMAGE, Some(10))).await?;
    let stage = Stage(&cluster);
    let counts = watch_replicas(&cluster, "web-a").await?;
    stage
        .edit(
            DEPLOYMENT_GRID,
            "web",
            &json!({ "spec": { "template": { "replicas": null } } }),
        )
        .await?;
    a_while().await;
    scale(&stage, "web-a", 12).await?;
    a_while().await;
    // And back: the template's word counts again.
    stage
        .edit(
            DEPLOYMENT_GRID,
            "web",
            &json!({ "spec": { "template": { "replicas": 4 } } }),
        )
        .await?;
    stage
        .until((DEPLOYMENT, "web-a"), json!(4), |child| {
            child["spec"]["replicas"].clone()
        })
        .await?;
    a_while().await;
    counts.abort();
    let mut seen = counts.taken();
    seen.dedup();
    assert_eq!(seen, [10, 12, 4]);
    Ok(())
}

/// As an autoscaler does it.
async fn scale(stage: &Stage<'_>, name: &str, replicas: i64) -> Result<()> {
    let params = kube::api::PatchParams {
        field_manager: Some("hpa".into()),
        ..kube::api::PatchParams::default()
    };
    let change = json!({ "spec": { "replicas": replicas } });
    stage
        .api(DEPLOYMENT)
        .patch_scale(name, &params, &kube::api::Patch::Merge(&change))
        .await?;
    Ok(())
}

/// Every number of replicas that a watch shows.
struct Counts {
    task: tokio::task::JoinHandle<()>,
    seen: std::sync::Arc<std::sync::Mutex<Vec<i64>>>,
}

impl Counts {
    fn abort(&self) {
        self.task.abort();
    }

    fn taken(&self) -> Vec<i64> {
        self.seen.lock().unwrap().clone()
    }
}

async fn watch_replicas(cluster: &Cluster, name: &str) -> Result<Counts> {
    use futures::StreamExt;
    use kube::api::{WatchEvent, WatchParams};
    let api = Stage(cluster).api(DEPLOYMENT);
    let first = api.get(name).await?;
    let seen = std::sync::Arc::new(std::sync::Mutex::new(vec![
        first.data["spec"]["replicas"].as_i64().unwrap(),
    ]));
    let version = first.metadata.resource_version.unwrap();
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = api.watch(&params, &version).await?.boxed();
    let into = seen.clone();
    #[expect(clippy::disallowed_methods, reason = "aborted by the test")]
    let task = tokio::spawn(async move {
        while let Some(Ok(event)) = events.next().await {
            if let WatchEvent::Modified(child) = event {
                into.lock()
                    .unwrap()
                    .push(child.data["spec"]["replicas"].as_i64().unwrap());
            }
        }
    });
    Ok(Counts { task, seen })
}

/// In SuperEdge every node of a unit made its own write, and every pass listed the namespace.
#[tokio::test(start_paused = true)]
async fn stamping_costs_one_write_per_unit_however_many_nodes_it_has() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    let nodes: Vec<String> = (0..12)
        .map(|number| format!("n-{number} zone=z-{}", number % 3))
        .collect();
    stage
        .add_nodes(&nodes.iter().map(String::as_str).collect::<Vec<_>>())
        .await?;
    let running = harness::start(&cluster).await?;
    running.requests.take();
    stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid("zone", &deployment_spec(IMAGE, Some(1))),
        )
        .await?;
    stage
        .children(DEPLOYMENT, &["web-z-0", "web-z-1", "web-z-2"])
        .await?;
    a_while().await;
    let requests = running.requests.take();
    let count = |part: &str| {
        requests
            .iter()
            .filter(|request| request.contains(part))
            .count()
    };
    assert_eq!(
        count("PATCH /apis/apps/v1/namespaces/default/deployments/"),
        3,
        "{requests:#?}"
    );
    assert_eq!(
        count("GET /apis/apps/v1/namespaces/default/deployments"),
        1,
        "one look: {requests:#?}"
    );
    assert!(
        requests.len() <= 3 + 5,
        "objects and a constant: {requests:#?}"
    );

    // Heartbeats of all nodes, and one child's new status: no call, one status.
    pass_time(Duration::from_mins(2)).await;
    assert_eq!(running.requests.take(), [""; 0]);
    stage.make_available(DEPLOYMENT, "web-z-1").await?;
    pass_time(Duration::from_mins(1)).await;
    let requests = running.requests.take();
    assert_eq!(requests.len(), 1, "{requests:#?}");
    assert!(
        requests[0].contains("/deploymentgrids/web/status"),
        "{requests:#?}"
    );
    Ok(())
}
