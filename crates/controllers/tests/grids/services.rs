//! ServiceGrid: one Service that follows its grid, without losing what was allocated.

use std::time::Duration;

use anyhow::Result;
use edgegrid_api::names::{annotation, condition, label, reason};
use edgegrid_testkit::Cluster;
use serde_json::{Value, json};

use crate::harness::{self, Running};
use crate::stage::*;

fn template() -> Value {
    json!({ "type": "NodePort", "selector": { "app": "web", "tier": "front" }, "ports": [
        { "name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080 },
        { "name": "admin", "protocol": "TCP", "port": 81, "targetPort": 8081 },
    ] })
}

async fn made(grid_object: &Value) -> Result<(Cluster, Running)> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["a-1 zone=a"]).await?;
    let running = harness::start(&cluster).await?;
    stage.create(SERVICE_GRID, "web", grid_object).await?;
    stage
        .condition(SERVICE_GRID, "web", condition::READY, "True")
        .await?;
    Ok((cluster, running))
}

/// In SuperEdge the owner came with a second write, and every update dropped it again.
#[tokio::test(start_paused = true)]
async fn a_service_is_owned_from_its_first_moment() -> Result<()> {
    let (cluster, running) = made(&grid("zone", &template())).await?;
    let stage = Stage(&cluster);
    let writes = running.writes.take();
    let to_service: Vec<_> = writes
        .iter()
        .filter(|write| write.contains("/services/"))
        .collect();
    assert_eq!(to_service.len(), 1, "{writes:#?}");
    let service = stage.read(SERVICE, "web-svc").await?;
    assert_eq!(
        service["metadata"]["ownerReferences"][0]["kind"],
        "ServiceGrid"
    );
    stage
        .edit(
            SERVICE_GRID,
            "web",
            &json!({ "spec": { "template": { "sessionAffinity": "ClientIP" } } }),
        )
        .await?;
    let after = stage
        .until((SERVICE, "web-svc"), json!("ClientIP"), |service| {
            service["spec"]["sessionAffinity"].clone()
        })
        .await?;
    assert_eq!(
        after["metadata"]["ownerReferences"],
        service["metadata"]["ownerReferences"]
    );
    Ok(())
}

/// In SuperEdge removed ports and selector keys, and a changed key, never reached the Service.
#[tokio::test(start_paused = true)]
async fn a_service_follows_its_grid_and_keeps_what_was_allocated() -> Result<()> {
    let (cluster, _running) = made(&grid("zone", &template())).await?;
    let stage = Stage(&cluster);
    let before = stage.read(SERVICE, "web-svc").await?;
    let change = json!({ "spec": { "gridUniqKey": "rack", "template": {
        "selector": { "tier": null },
        "ports": [{ "name": "http", "protocol": "TCP", "port": 80, "targetPort": 9090 }],
    } } });
    stage.edit(SERVICE_GRID, "web", &change).await?;
    let after = stage
        .until((SERVICE, "web-svc"), json!("[\"rack\"]"), |service| {
            service["metadata"]["annotations"][annotation::TOPOLOGY_KEYS].clone()
        })
        .await?;
    assert_eq!(after["spec"]["selector"], json!({ "app": "web" }));
    assert_eq!(after["spec"]["ports"].as_array().unwrap().len(), 1);
    assert_eq!(after["spec"]["ports"][0]["targetPort"], 9090);
    assert_eq!(
        label_of(&after, label::GRID_UNIQ_KEY).as_deref(),
        Some("rack")
    );
    for field in ["clusterIP", "clusterIPs", "ipFamilies"] {
        assert_eq!(after["spec"][field], before["spec"][field], "{field}");
    }
    assert_eq!(
        after["spec"]["ports"][0]["nodePort"],
        before["spec"]["ports"][0]["nodePort"]
    );
    assert!(after["spec"]["clusterIP"].is_string());
    Ok(())
}

/// SuperEdge copied kubectl's last-applied, so that kubectl took the Service for the grid.
#[tokio::test(start_paused = true)]
async fn the_grids_annotations_are_copied_but_for_kubectls_own() -> Result<()> {
    let mut object = grid("zone", &template());
    object["metadata"]["annotations"] = json!({
        annotation::LAST_APPLIED: "{}", "lb.example/size": "small", "edgegrid.io/headless": "open",
    });
    let (cluster, _running) = made(&object).await?;
    let stage = Stage(&cluster);
    let service = stage.read(SERVICE, "web-svc").await?;
    let annotations = &service["metadata"]["annotations"];
    assert_eq!(annotations["lb.example/size"], "small");
    assert_eq!(annotations["edgegrid.io/headless"], "open");
    assert!(annotations.get(annotation::LAST_APPLIED).is_none());
    stage
        .edit(
            SERVICE_GRID,
            "web",
            &json!({ "metadata": { "annotations": { "lb.example/size": null } } }),
        )
        .await?;
    stage
        .until((SERVICE, "web-svc"), Value::Null, |service| {
            service["metadata"]["annotations"]["lb.example/size"].clone()
        })
        .await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_grids_own_list_of_keys_wins_and_a_malformed_one_is_reported_once() -> Result<()> {
    let mut object = grid("zone", &template());
    object["metadata"]["annotations"] =
        json!({ annotation::TOPOLOGY_KEYS: "[\"kubernetes.io/hostname\",\"zone\",\"*\"]" });
    let (cluster, _running) = made(&object).await?;
    let stage = Stage(&cluster);
    let keys =
        |service: &Value| service["metadata"]["annotations"][annotation::TOPOLOGY_KEYS].clone();
    assert_eq!(
        keys(&stage.read(SERVICE, "web-svc").await?),
        "[\"kubernetes.io/hostname\",\"zone\",\"*\"]"
    );

    let malformed =
        json!({ "metadata": { "annotations": { annotation::TOPOLOGY_KEYS: "[\"*\",\"zone\"]" } } });
    stage.edit(SERVICE_GRID, "web", &malformed).await?;
    stage
        .condition(
            SERVICE_GRID,
            "web",
            condition::TOPOLOGY_KEYS_MALFORMED,
            "True",
        )
        .await?;
    stage
        .until((SERVICE, "web-svc"), json!("[\"zone\"]"), keys)
        .await?;
    pass_time(Duration::from_mins(10)).await;
    assert_eq!(
        stage
            .events("web", reason::TOPOLOGY_KEYS_MALFORMED)
            .await?
            .len(),
        1
    );

    stage
        .edit(
            SERVICE_GRID,
            "web",
            &json!({ "metadata": { "annotations": { annotation::TOPOLOGY_KEYS: null } } }),
        )
        .await?;
    stage
        .until((SERVICE_GRID, "web"), None, |grid| {
            condition_of(grid, condition::TOPOLOGY_KEYS_MALFORMED)
        })
        .await?;
    Ok(())
}

/// Kubernetes keeps the old address without a word when the field is dropped, so we must say it.
#[tokio::test(start_paused = true)]
async fn headless_and_clusterip_cannot_be_exchanged_in_place() -> Result<()> {
    for (first, then) in [(json!("None"), Value::Null), (Value::Null, json!("None"))] {
        let ports = json!([{ "port": 80 }]);
        let object = grid(
            "zone",
            &json!({ "selector": { "app": "web" }, "ports": ports, "clusterIP": first }),
        );
        let object = without_null_address(object);
        let (cluster, running) = made(&object).await?;
        let stage = Stage(&cluster);
        let before = stage.read(SERVICE, "web-svc").await?;
        stage
            .edit(
                SERVICE_GRID,
                "web",
                &json!({ "spec": { "template": { "clusterIP": then } } }),
            )
            .await?;
        let said = stage
            .condition(SERVICE_GRID, "web", condition::IMMUTABLE, "True")
            .await?;
        assert!(
            said["message"].as_str().unwrap().contains("spec.clusterIP"),
            "{said}"
        );
        a_while().await;
        running.writes.take();
        pass_time(Duration::from_mins(5)).await;
        assert_eq!(running.writes.take(), [""; 0]);
        assert_eq!(stage.read(SERVICE, "web-svc").await?, before);
        stage.delete(SERVICE, "web-svc").await?;
        stage
            .until((SERVICE_GRID, "web"), None, |grid| {
                condition_of(grid, condition::IMMUTABLE)
            })
            .await?;
        let after = stage.read(SERVICE, "web-svc").await?;
        assert_eq!(after["spec"]["clusterIP"] == "None", then == "None");
    }
    Ok(())
}

fn without_null_address(mut grid: Value) -> Value {
    let template = grid["spec"]["template"].as_object_mut().unwrap();
    template.retain(|_, value| !value.is_null());
    grid
}

#[tokio::test(start_paused = true)]
async fn what_somebody_changed_in_a_service_is_put_back_and_what_they_added_stays() -> Result<()> {
    let (cluster, _running) = made(&grid("zone", &template())).await?;
    let stage = Stage(&cluster);
    let before = stage.read(SERVICE, "web-svc").await?;
    let change = json!({
        "metadata": { "annotations": { annotation::TOPOLOGY_KEYS: "[\"*\"]", "theirs": "x" }, "labels": { label::GRID_SELECTOR: null } },
        "spec": { "selector": { "app": "hacked" } },
    });
    stage.edit(SERVICE, "web-svc", &change).await?;
    a_while().await;
    let after = stage.read(SERVICE, "web-svc").await?;
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    assert_eq!(
        after["metadata"]["annotations"][annotation::TOPOLOGY_KEYS],
        "[\"zone\"]"
    );
    assert_eq!(after["metadata"]["annotations"]["theirs"], "x");
    Ok(())
}

/// SuperEdge's definitions, frozen at an old Kubernetes, dropped newer fields without a word.
#[tokio::test(start_paused = true)]
async fn fields_of_a_newer_kubernetes_reach_the_service() -> Result<()> {
    let mut newer = template();
    newer["trafficDistribution"] = json!("PreferSameZone");
    newer["ports"][0]["appProtocol"] = json!("kubernetes.io/h2c");
    let (cluster, _running) = made(&grid("zone", &newer)).await?;
    let service = Stage(&cluster).read(SERVICE, "web-svc").await?;
    assert_eq!(service["spec"]["trafficDistribution"], "PreferSameZone");
    assert_eq!(
        service["spec"]["ports"][0]["appProtocol"],
        "kubernetes.io/h2c"
    );
    Ok(())
}

/// In SuperEdge a condition once set was never cleared.
#[tokio::test(start_paused = true)]
async fn conditions_go_when_their_reason_does() -> Result<()> {
    let (cluster, _running) = made(&grid("zone", &template())).await?;
    let stage = Stage(&cluster);
    let bad = json!({ "spec": { "template": { "externalTrafficPolicy": "Nonsense" } } });
    stage.edit(SERVICE_GRID, "web", &bad).await?;
    let degraded = stage
        .condition(SERVICE_GRID, "web", condition::DEGRADED, "True")
        .await?;
    assert_eq!(degraded["reason"], reason::REFUSED);
    stage
        .edit(
            SERVICE_GRID,
            "web",
            &json!({ "spec": { "template": { "externalTrafficPolicy": null } } }),
        )
        .await?;
    stage
        .condition(SERVICE_GRID, "web", condition::DEGRADED, "False")
        .await?;
    stage
        .condition(SERVICE_GRID, "web", condition::READY, "True")
        .await?;
    Ok(())
}
