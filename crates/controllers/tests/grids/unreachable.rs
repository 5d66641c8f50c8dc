//! Nodes that the cluster no longer reaches: with `whenUnreachable: Keep` pods stay there, and people are told.

use std::time::Duration;

use anyhow::Result;
use edgegrid_api::names::{condition, reason};
use edgegrid_testkit::Cluster;
use serde_json::{Value, json};

use crate::harness::{self, Running};
use crate::stage::*;

const UNITS: [&str; 2] = ["a", "b"];
const GRIDS: [(Gvk, Gvk, &str); 2] = [
    (DEPLOYMENT_GRID, DEPLOYMENT, "web"),
    (STATEFUL_SET_GRID, STATEFUL_SET, "db"),
];

/// A grid of each kind in two units, stamped and Available. The nodes have no kubelet.
async fn stamped(fields: &Value) -> Result<(Cluster, Running)> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    for unit in UNITS {
        let name = format!("{unit}-1");
        let labels = json!({ "metadata": { "labels": { "zone": unit } } });
        stage.create(NODE, &name, &labels).await?;
        report(&stage, &name, "True").await?;
    }
    let running = harness::start(&cluster).await?;
    for (grid_kind, kind, name) in GRIDS {
        let template = if kind.2 == STATEFUL_SET.2 {
            stateful_set_spec("web:1", Some(1))
        } else {
            deployment_spec("web:1", Some(1))
        };
        let mut object = grid("zone", &template);
        for (field, value) in fields.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        stage.create(grid_kind, name, &object).await?;
        let children = UNITS.map(|unit| format!("{name}-{unit}"));
        stage
            .children(kind, &children.each_ref().map(String::as_str))
            .await?;
        for child in &children {
            stage.make_available(kind, child).await?;
        }
        stage
            .condition(grid_kind, name, condition::READY, "True")
            .await?;
    }
    a_while().await;
    Ok((cluster, running))
}

/// Writes a node's readiness, as its kubelet does or, for `Unknown`, the control plane.
async fn report(stage: &Stage<'_>, node: &str, ready: &str) -> Result<()> {
    let now = stage.0.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({ "type": "Ready", "status": ready, "lastTransitionTime": now });
    let status = json!({ "conditions": [condition] });
    stage.set_status(NODE, node, &status).await
}

fn tolerations(workload: &Value) -> Value {
    workload["spec"]["template"]["spec"]["tolerations"].clone()
}

fn forever() -> Value {
    json!([{ "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute" }])
}

fn is_told(grid: &Value) -> bool {
    condition_of(grid, condition::NODE_UNREACHABLE).is_some()
}

/// Sets the field and follows the change from unit to unit; each workload is changed once.
async fn change(stage: &Stage<'_>, when: Option<&str>, wanted: &Value) -> Result<()> {
    for (grid_kind, kind, name) in GRIDS {
        let children = UNITS.map(|unit| format!("{name}-{unit}"));
        let mut before = Vec::new();
        for child in &children {
            before.push(stage.read(kind, child).await?);
        }
        let edit = json!({ "spec": { "whenUnreachable": when } });
        stage.edit(grid_kind, name, &edit).await?;
        for (index, child) in children.iter().enumerate() {
            stage
                .until((kind, child.as_str()), wanted.clone(), tolerations)
                .await?;
            a_while().await;
            for waiting in index + 1..children.len() {
                let now = stage.read(kind, &children[waiting]).await?;
                assert_eq!(now["spec"], before[waiting]["spec"], "waits for {child}");
            }
            stage.make_available(kind, child).await?;
        }
        pass_time(Duration::from_hours(1)).await;
        for (child, before) in children.iter().zip(&before) {
            let generation = |object: &Value| object["metadata"]["generation"].as_i64();
            let now = stage.read(kind, child).await?;
            let once = generation(before).map(|generation| generation + 1);
            assert_eq!(generation(&now), once, "{child}");
            assert_eq!(now["metadata"]["uid"], before["metadata"]["uid"]);
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_field_reaches_the_units_once_and_by_the_rollout() -> Result<()> {
    let rollout = json!({ "rollout": { "maxConcurrentUnits": 1 } });
    let (cluster, _running) = stamped(&rollout).await?;
    let stage = Stage(&cluster);
    change(&stage, Some("Keep"), &forever()).await?;
    change(&stage, Some("Evict"), &Value::Null).await?;
    change(&stage, Some("Keep"), &forever()).await?;
    change(&stage, None, &Value::Null).await
}

/// Evict is what templates without tolerations mean already.
#[tokio::test(start_paused = true)]
async fn evict_restarts_nothing_that_is_evicted_anyway() -> Result<()> {
    let (cluster, running) = stamped(&json!({})).await?;
    let stage = Stage(&cluster);
    let before = stage.read(DEPLOYMENT, "web-a").await?;
    running.writes.take();
    let edit = json!({ "spec": { "whenUnreachable": "Evict" } });
    stage.edit(DEPLOYMENT_GRID, "web", &edit).await?;
    a_while().await;
    let after = stage.read(DEPLOYMENT, "web-a").await?;
    assert_eq!(after, before);
    let writes = running.writes.take();
    assert!(
        writes.iter().all(|line| !line.contains("/deployments/")),
        "{writes:#?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_out_of_reach_is_told_of_after_ten_minutes_and_until_it_is_back() -> Result<()> {
    let (cluster, _running) = stamped(&json!({ "whenUnreachable": "Keep" })).await?;
    let stage = Stage(&cluster);
    report(&stage, "a-1", "Unknown").await?;
    pass_time(Duration::from_secs(9 * 60 + 50)).await;
    for (grid_kind, _, name) in GRIDS {
        assert!(!is_told(&stage.read(grid_kind, name).await?), "too early");
    }
    pass_time(Duration::from_secs(20)).await;
    for (grid_kind, _, name) in GRIDS {
        let told = stage
            .condition(grid_kind, name, condition::NODE_UNREACHABLE, "True")
            .await?;
        let message = told["message"].as_str().unwrap_or_default();
        for words in ["units a:", "nodes a-1 ", "kubectl delete node a-1"] {
            assert!(message.contains(words), "{words}: {message}");
        }
        let events = stage.events(name, reason::NODE_UNREACHABLE).await?;
        assert_eq!(events.len(), 1, "{events:?}");
    }
    report(&stage, "a-1", "True").await?;
    for (grid_kind, _, name) in GRIDS {
        stage.until((grid_kind, name), false, is_told).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_said_to_be_down_or_deleted_is_no_longer_told_of() -> Result<()> {
    let (cluster, _running) = stamped(&json!({ "whenUnreachable": "Keep" })).await?;
    let stage = Stage(&cluster);
    for node in ["a-1", "b-1"] {
        report(&stage, node, "Unknown").await?;
    }
    pass_time(Duration::from_mins(11)).await;
    let nodes = |grid: &Value| {
        let told = condition_of(grid, condition::NODE_UNREACHABLE)?;
        let message = told["message"].as_str()?;
        Some(["nodes a-1, b-1 ", "nodes b-1 "].map(|words| message.contains(words)))
    };
    let web = (DEPLOYMENT_GRID, "web");
    stage.until(web, Some([true, false]), nodes).await?;
    let down = json!([{ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" }]);
    stage
        .edit(NODE, "a-1", &json!({ "spec": { "taints": down } }))
        .await?;
    stage.until(web, Some([false, true]), nodes).await?;
    stage.delete(NODE, "b-1").await?;
    stage.until(web, false, is_told).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_starts_later_tells_at_once() -> Result<()> {
    let (cluster, running) = stamped(&json!({ "whenUnreachable": "Keep" })).await?;
    let stage = Stage(&cluster);
    report(&stage, "a-1", "Unknown").await?;
    drop(running);
    pass_time(Duration::from_mins(20)).await;
    let _running = harness::start(&cluster).await?;
    a_while().await;
    assert!(is_told(&stage.read(DEPLOYMENT_GRID, "web").await?));
    Ok(())
}

/// Without the field nobody promised to keep anything.
#[tokio::test(start_paused = true)]
async fn where_pods_are_evicted_nothing_is_told() -> Result<()> {
    for fields in [json!({}), json!({ "whenUnreachable": "Evict" })] {
        let (cluster, running) = stamped(&fields).await?;
        let stage = Stage(&cluster);
        running.writes.take();
        report(&stage, "a-1", "Unknown").await?;
        pass_time(Duration::from_mins(30)).await;
        assert!(!is_told(&stage.read(DEPLOYMENT_GRID, "web").await?));
        let writes = running.writes.take();
        assert!(
            writes.iter().all(|line| !line.contains("grids/")),
            "{writes:#?}"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_day_out_of_reach_writes_the_status_once() -> Result<()> {
    let (cluster, running) = stamped(&json!({ "whenUnreachable": "Keep" })).await?;
    let stage = Stage(&cluster);
    running.writes.take();
    running.requests.take();
    report(&stage, "a-1", "Unknown").await?;
    for _ in 0..24 {
        pass_time(Duration::from_hours(1)).await;
        // As the control plane does when it says again what it said.
        let again =
            json!({ "metadata": { "annotations": { "heartbeat": cluster.now().to_string() } } });
        stage
            .edit_as("node-controller", NODE, "a-1", &again)
            .await?;
    }
    let writes = running.writes.take();
    for (plural, name) in [("deploymentgrids", "web"), ("statefulsetgrids", "db")] {
        let path = format!("/{plural}/{name}");
        let written: Vec<_> = writes.iter().filter(|line| line.contains(&path)).collect();
        assert_eq!(written.len(), 1, "{writes:#?}");
    }
    let workloads =
        |line: &&String| line.contains("/deployments/") || line.contains("/statefulsets/");
    assert_eq!(writes.iter().filter(workloads).count(), 0, "{writes:#?}");
    assert!(is_told(&stage.read(DEPLOYMENT_GRID, "web").await?));
    Ok(())
}
