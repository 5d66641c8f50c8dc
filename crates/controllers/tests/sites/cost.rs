//! What passes cost in API calls.

use std::time::Duration;

use anyhow::Result;
use edgegrid_api::{NodeGroup, NodeUnit};
use edgegrid_testkit::{group, node, unit};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::harness::{self, settle, start};
use crate::{group_of, three_nodes};

// In SuperEdge every heartbeat led to a pass over every unit of the node, each with nine calls, and to a
// status that differed each time.
#[tokio::test(start_paused = true)]
async fn heartbeats_make_no_calls() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    cluster.apply::<NodeUnit>(unit("u", &["a1", "a2"])).await?;
    cluster.apply::<NodeGroup>(group("g", &["u"])).await?;
    settle(&cluster, &running).await?;
    running.requests.take();
    let nodes: Api<Node> = Api::all(cluster.client());
    for beat in 0..20 {
        let heartbeat = json!({ "status": { "conditions": [{
            "type": "Ready", "status": "True",
            "lastHeartbeatTime": format!("2026-01-01T01:00:{beat:02}Z"),
        }], "images": [{ "names": [format!("image-{beat}")] }] } });
        for name in ["a1", "a2", "b1"] {
            let patch = Patch::Strategic(&heartbeat);
            nodes
                .patch_status(name, &PatchParams::default(), &patch)
                .await?;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(running.requests.take(), Vec::<String>::new());
    Ok(())
}

// In SuperEdge a resync wrote every listed node every 30 s.
#[tokio::test(start_paused = true)]
async fn an_hour_without_changes_and_a_restart_make_no_writes() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    cluster.apply::<NodeUnit>(unit("u", &["a1", "a2"])).await?;
    cluster
        .apply::<NodeGroup>(group_of(
            "g",
            &json!({ "nodeUnits": ["u"], "autoFindNodeKeys": ["zone"] }),
        ))
        .await?;
    settle(&cluster, &running).await?;
    running.requests.take();
    tokio::time::sleep(Duration::from_hours(1)).await;
    let reads = running.requests.take();
    assert!(reads.is_empty(), "{reads:#?}");
    drop(running);
    let running = start(&cluster).await?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(running.writes.take(), Vec::<String>::new());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn first_labelling_makes_one_write_per_node_and_two_per_unit() -> Result<()> {
    let cluster = harness::cluster().await?;
    let names: Vec<String> = (0..20).map(|n| format!("n{n:02}")).collect();
    cluster
        .add_nodes(names.iter().map(|name| node(name)))
        .await?;
    let units: Vec<&str> = vec!["u0", "u1", "u2", "u3"];
    for (index, name) in units.iter().enumerate() {
        let nodes: Vec<&str> = names[index * 5..][..5].iter().map(String::as_str).collect();
        cluster.apply::<NodeUnit>(unit(name, &nodes)).await?;
    }
    cluster.apply::<NodeGroup>(group("g", &units)).await?;
    let running = start(&cluster).await?;
    let nodes = running
        .faults
        .record(|method, path| method != "GET" && path.contains("/nodes/"));
    let rest = running
        .faults
        .record(|method, path| method != "GET" && !path.contains("/nodes/"));
    running.writes.take();
    tokio::time::sleep(Duration::from_mins(1)).await;
    // All units and groups are there at the start, but for unit-node-all, which comes a moment later.
    let nodes = nodes.take();
    assert!(
        nodes.len() <= 2 * names.len(),
        "{}: {nodes:#?}",
        nodes.len()
    );
    let rest = rest.take();
    // Apply and status for four units, unit-node-all and the group; create of unit-node-all, the note on
    // its definition; statuses again as nodes turn up.
    assert!(rest.len() <= 18, "{}: {rest:#?}", rest.len());
    Ok(())
}
