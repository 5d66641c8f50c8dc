//! What Kubernetes refuses stops one unit only, is said once, and is not tried in a loop.

use std::time::Duration;

use anyhow::Result;
use edgegrid_api::names::{condition, reason};
use edgegrid_testkit::Cluster;
use edgegrid_testkit::faults::Fault;
use serde_json::{Value, json};

use crate::harness::{self, Running};
use crate::stage::*;

const IMAGE: &str = "superedge/echoserver:2.2";

async fn stamped(kind: Gvk, child: Gvk, template: &Value) -> Result<(Cluster, Running)> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["a-1 zone=a", "b-1 zone=b"]).await?;
    let running = harness::start(&cluster).await?;
    stage.create(kind, "web", &grid("zone", template)).await?;
    stage.children(child, &["web-a", "web-b"]).await?;
    a_while().await;
    Ok((cluster, running))
}

/// Writes to workloads in ten minutes.
async fn writes_in_ten_minutes(running: &Running) -> usize {
    running.writes.take();
    pass_time(Duration::from_mins(10)).await;
    let writes = running.writes.take();
    writes
        .iter()
        .filter(|write| write.contains("/apps/v1/"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_changed_selector_is_immutable_and_not_tried_again() -> Result<()> {
    let (cluster, running) = stamped(
        DEPLOYMENT_GRID,
        DEPLOYMENT,
        &deployment_spec(IMAGE, Some(1)),
    )
    .await?;
    let stage = Stage(&cluster);
    let before = stage.read(DEPLOYMENT, "web-a").await?;
    let labels = json!({ "appGrid": "other" });
    let change = json!({ "spec": { "template": { "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels } } } } });
    stage.edit(DEPLOYMENT_GRID, "web", &change).await?;
    let immutable = stage
        .condition(DEPLOYMENT_GRID, "web", condition::IMMUTABLE, "True")
        .await?;
    let message = immutable["message"].as_str().unwrap();
    assert!(
        message.contains("units a, b") && message.contains("spec.selector"),
        "{message}"
    );
    assert_eq!(writes_in_ten_minutes(&running).await, 0);
    assert_eq!(stage.read(DEPLOYMENT, "web-a").await?, before);
    // The way out that the message names.
    stage.delete(DEPLOYMENT, "web-a").await?;
    stage
        .until((DEPLOYMENT, "web-a"), json!("other"), |child| {
            child["spec"]["selector"]["matchLabels"]["appGrid"].clone()
        })
        .await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_stateful_set_may_not_change_is_immutable() -> Result<()> {
    let claims = |size: &str| {
        json!([{ "metadata": { "name": "data" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } },
        } }])
    };
    let mut template = stateful_set_spec(IMAGE, Some(1));
    template["volumeClaimTemplates"] = claims("1Gi");
    for (field, change) in [
        ("serviceName", json!("another-svc")),
        ("volumeClaimTemplates", claims("2Gi")),
        ("volumeClaimTemplates", Value::Null),
    ] {
        let (cluster, running) = stamped(STATEFUL_SET_GRID, STATEFUL_SET, &template).await?;
        let stage = Stage(&cluster);
        let before = stage.read(STATEFUL_SET, "web-a").await?;
        stage
            .edit(
                STATEFUL_SET_GRID,
                "web",
                &json!({ "spec": { "template": { field: change } } }),
            )
            .await?;
        let immutable = stage
            .condition(STATEFUL_SET_GRID, "web", condition::IMMUTABLE, "True")
            .await?;
        assert!(
            immutable["message"].as_str().unwrap().contains(field),
            "{immutable}"
        );
        assert_eq!(writes_in_ten_minutes(&running).await, 0, "{field}");
        assert_eq!(stage.read(STATEFUL_SET, "web-a").await?, before);
        assert_eq!(stage.events("web", reason::IMMUTABLE).await?.len(), 1);
        // Put back, all is well again.
        let back = json!({ "spec": { "template": { field: template[field] } } });
        stage.edit(STATEFUL_SET_GRID, "web", &back).await?;
        stage
            .until((STATEFUL_SET_GRID, "web"), None, |grid| {
                condition_of(grid, condition::IMMUTABLE)
            })
            .await?;
    }
    Ok(())
}

/// A typo must neither vanish, as with create, nor loop.
#[tokio::test(start_paused = true)]
async fn a_template_that_apply_cannot_express_names_the_path_and_keeps_what_there_is() -> Result<()>
{
    let (cluster, running) = stamped(
        DEPLOYMENT_GRID,
        DEPLOYMENT,
        &deployment_spec(IMAGE, Some(1)),
    )
    .await?;
    let stage = Stage(&cluster);
    let before = stage.read(DEPLOYMENT, "web-a").await?;
    let typo =
        json!({ "spec": { "template": { "template": { "spec": { "dnsPolici": "Default" } } } } });
    stage.edit(DEPLOYMENT_GRID, "web", &typo).await?;
    let said = stage
        .condition(DEPLOYMENT_GRID, "web", condition::NOT_APPLICABLE, "True")
        .await?;
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .contains(".spec.template.spec.dnsPolici"),
        "{said}"
    );
    assert_eq!(writes_in_ten_minutes(&running).await, 0);
    assert_eq!(stage.read(DEPLOYMENT, "web-a").await?, before);
    let mended = json!({ "spec": { "template": { "template": { "spec": { "dnsPolici": null, "dnsPolicy": "Default" } } } } });
    stage.edit(DEPLOYMENT_GRID, "web", &mended).await?;
    stage
        .until((DEPLOYMENT, "web-a"), json!("Default"), |child| {
            child["spec"]["template"]["spec"]["dnsPolicy"].clone()
        })
        .await?;
    stage
        .until((DEPLOYMENT_GRID, "web"), None, |grid| {
            condition_of(grid, condition::NOT_APPLICABLE)
        })
        .await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn duplicate_names_of_variables_are_not_applicable() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["a-1 zone=a"]).await?;
    let _running = harness::start(&cluster).await?;
    let mut template = deployment_spec(IMAGE, Some(1));
    template["template"]["spec"]["containers"][0]["env"] =
        json!([{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }]);
    stage
        .create(DEPLOYMENT_GRID, "web", &grid("zone", &template))
        .await?;
    let said = stage
        .condition(DEPLOYMENT_GRID, "web", condition::NOT_APPLICABLE, "True")
        .await?;
    assert!(said["message"].as_str().unwrap().contains("env"), "{said}");
    stage.children(DEPLOYMENT, &[]).await
}

#[tokio::test(start_paused = true)]
async fn a_refused_object_stops_its_own_unit_only_and_is_tried_again_ever_more_seldom() -> Result<()>
{
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["a-1 zone=a", "b-1 zone=b"]).await?;
    let running = harness::start(&cluster).await?;
    let mut bad = deployment_spec(IMAGE, Some(1));
    bad["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = json!(99_999_999);
    let mut web = grid("zone", &deployment_spec(IMAGE, Some(1)));
    web["spec"]["templatePool"] = json!({ "bad": bad });
    web["spec"]["templates"] = json!({ "a": "bad" });
    stage.create(DEPLOYMENT_GRID, "web", &web).await?;
    stage.children(DEPLOYMENT, &["web-b"]).await?;
    let degraded = stage
        .condition(DEPLOYMENT_GRID, "web", condition::DEGRADED, "True")
        .await?;
    assert_eq!(degraded["reason"], reason::REFUSED);
    let stored = stage.read(DEPLOYMENT_GRID, "web").await?;
    assert_eq!(stored["status"]["failingUnits"][0]["unit"], "a");
    pass_time(Duration::from_mins(10)).await;
    assert!(
        writes_in_ten_minutes(&running).await <= 3,
        "five minutes between tries by then"
    );
    assert_eq!(
        stage.events("web", reason::REFUSED).await?.len(),
        1,
        "published once"
    );
    Ok(())
}

/// In SuperEdge a conflict was taken for success and not repeated.
#[tokio::test(start_paused = true)]
async fn a_conflict_or_a_lost_request_is_repeated() -> Result<()> {
    for fault in [
        Fault::Conflict,
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::Hang,
    ] {
        let cluster = harness::cluster().await?;
        let stage = Stage(&cluster);
        stage.add_nodes(&["a-1 zone=a", "b-1 zone=b"]).await?;
        let running = harness::start(&cluster).await?;
        for path in [
            "/deployments/web-a",
            "/services/web-svc",
            "/deploymentgrids/web/status",
        ] {
            running.faults.inject(1, fault.clone(), move |method, at| {
                method == "PATCH" && at.contains(path)
            });
        }
        stage
            .create(
                DEPLOYMENT_GRID,
                "web",
                &grid("zone", &deployment_spec(IMAGE, Some(1))),
            )
            .await?;
        let template = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
        stage
            .create(SERVICE_GRID, "web", &grid("zone", &template))
            .await?;
        stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
        stage
            .condition(SERVICE_GRID, "web", condition::READY, "True")
            .await?;
        for unit in ["web-a", "web-b"] {
            stage.make_available(DEPLOYMENT, unit).await?;
        }
        stage
            .condition(DEPLOYMENT_GRID, "web", condition::READY, "True")
            .await?;
        assert_eq!(running.faults.pending(), 0, "{fault:?}");
    }
    Ok(())
}

/// Stamping that succeeds makes one summary per pass, not one word per unit.
#[tokio::test(start_paused = true)]
async fn stamping_is_published_in_one_event() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    let nodes: Vec<String> = (0..12)
        .map(|number| format!("n-{number} zone=z{number}"))
        .collect();
    stage
        .add_nodes(&nodes.iter().map(String::as_str).collect::<Vec<_>>())
        .await?;
    let _running = harness::start(&cluster).await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid("zone", &deployment_spec(IMAGE, Some(1))),
        )
        .await?;
    stage
        .until((DEPLOYMENT_GRID, "web"), json!(12), |grid| {
            grid["status"]["units"].clone()
        })
        .await?;
    a_while().await;
    let said = stage.events("web", reason::STAMPED).await?;
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].starts_with("made 12: z0, z1"), "{said:#?}");
    Ok(())
}
