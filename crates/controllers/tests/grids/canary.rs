//! Canary by unit, the same for both kinds.

use std::time::Duration;

use anyhow::Result;
use edgegrid_api::names::{condition, reason};
use edgegrid_testkit::Cluster;
use serde_json::{Value, json};

use crate::harness;
use crate::stage::*;

type Template = fn(&str, Option<i64>) -> Value;

const KINDS: [(Gvk, Gvk, Template); 2] = [
    (DEPLOYMENT_GRID, DEPLOYMENT, deployment_spec),
    (STATEFUL_SET_GRID, STATEFUL_SET, stateful_set_spec),
];

fn canary(template: Template) -> Value {
    json!({ "spec": {
        "gridUniqKey": "zone",
        "template": template("plain:1", Some(1)),
        "templatePool": { "test1": template("test:1", Some(1)), "test2": template("test:2", Some(1)), "test3": template("test:3", Some(1)) },
        "templates": { "zone1": "test1", "zone2": "test2", "zone4": "default" },
        "defaultTemplateName": "test1",
    } })
}

async fn four_zones() -> Result<Cluster> {
    let cluster = harness::cluster().await?;
    Stage(&cluster)
        .add_nodes(&[
            "n-1 zone=zone1",
            "n-2 zone=zone2",
            "n-3 zone=zone3",
            "n-4 zone=zone4",
        ])
        .await?;
    Ok(cluster)
}

async fn runs(stage: &Stage<'_>, child: Gvk, images: [&str; 4]) -> Result<()> {
    for (number, wanted) in (1..).zip(images) {
        let name = format!("web-zone{number}");
        stage
            .until((child, &name), wanted.to_owned(), image)
            .await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_unit_runs_the_template_chosen_for_it() -> Result<()> {
    for (kind, child, template) in KINDS {
        let cluster = four_zones().await?;
        let stage = Stage(&cluster);
        let _running = harness::start(&cluster).await?;
        stage.create(kind, "web", &canary(template)).await?;
        let names = ["web-zone1", "web-zone2", "web-zone3", "web-zone4"];
        stage.children(child, &names).await?;
        runs(&stage, child, ["test:1", "test:2", "test:1", "plain:1"]).await?;
        let change =
            json!({ "spec": { "templates": { "zone1": "test2" }, "defaultTemplateName": "" } });
        stage.edit(kind, "web", &change).await?;
        runs(&stage, child, ["test:2", "test:2", "plain:1", "plain:1"]).await?;
        let grid = stage.read(kind, "web").await?;
        assert_eq!(
            grid["spec"]["templatePool"].as_object().unwrap().len(),
            3,
            "nobody asked to drop any"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn unused_templates_are_dropped_only_when_asked_for_and_never_one_in_use() -> Result<()> {
    for (kind, child, template) in KINDS {
        let cluster = four_zones().await?;
        let stage = Stage(&cluster);
        let _running = harness::start(&cluster).await?;
        stage.create(kind, "web", &canary(template)).await?;
        stage
            .edit(
                kind,
                "web",
                &json!({ "spec": { "autoDeleteUnusedTemplate": true } }),
            )
            .await?;
        let pool = |grid: &Value| -> Vec<String> {
            grid["spec"]["templatePool"]
                .as_object()
                .map(|pool| pool.keys().cloned().collect())
                .unwrap_or_default()
        };
        stage
            .until(
                (kind, "web"),
                vec!["test1".to_owned(), "test2".to_owned()],
                pool,
            )
            .await?;
        let change = json!({ "spec": { "templates": { "zone1": null, "zone2": null, "gone": "test1" }, "defaultTemplateName": "default" } });
        stage.edit(kind, "web", &change).await?;
        stage
            .until((kind, "web"), vec!["test1".to_owned()], pool)
            .await?;
        runs(&stage, child, ["plain:1", "plain:1", "plain:1", "plain:1"]).await?;
        // A stranger's later edit of the grid is not lost in it.
        let grid = stage
            .edit(
                kind,
                "web",
                &json!({ "metadata": { "labels": { "a": "b" } } }),
            )
            .await?;
        assert_eq!(pool(&grid), ["test1"]);
    }
    Ok(())
}

/// In SuperEdge one typo in `templates` froze the application everywhere, without a word. Definitions of
/// SuperEdge let such objects in, so they may be stored.
#[tokio::test(start_paused = true)]
async fn a_missing_template_stops_its_own_unit_only_and_is_reported() -> Result<()> {
    let cluster = Cluster::embedded().await?;
    cluster
        .install(edgegrid_api::crds().into_iter().map(without_rules))
        .await?;
    let stage = Stage(&cluster);
    stage
        .add_nodes(&["n-1 zone=zone1", "n-2 zone=zone2"])
        .await?;
    let _running = harness::start(&cluster).await?;
    let mut grid = canary(deployment_spec);
    grid["spec"]["templates"] = json!({ "zone1": "typo" });
    stage.create(DEPLOYMENT_GRID, "web", &grid).await?;
    stage.children(DEPLOYMENT, &["web-zone2"]).await?;
    let degraded = stage
        .condition(DEPLOYMENT_GRID, "web", condition::DEGRADED, "True")
        .await?;
    assert_eq!(degraded["reason"], reason::TEMPLATE_MISSING);
    let stored = stage.read(DEPLOYMENT_GRID, "web").await?;
    assert_eq!(stored["status"]["failingUnits"][0]["unit"], "zone1");
    assert!(
        stored["status"]["failingUnits"][0]["message"]
            .as_str()
            .unwrap()
            .contains("typo")
    );
    pass_time(Duration::from_mins(10)).await;
    assert_eq!(
        stage.events("web", reason::TEMPLATE_MISSING).await?.len(),
        1,
        "published once"
    );

    stage
        .edit(
            DEPLOYMENT_GRID,
            "web",
            &json!({ "spec": { "templates": { "zone1": "test2" } } }),
        )
        .await?;
    stage
        .children(DEPLOYMENT, &["web-zone1", "web-zone2"])
        .await?;
    stage
        .condition(DEPLOYMENT_GRID, "web", condition::DEGRADED, "False")
        .await?;
    Ok(())
}

/// An empty key on a stored object: a Warning, a condition, nothing else.
#[tokio::test(start_paused = true)]
async fn a_grid_without_a_key_reports_it_and_does_nothing() -> Result<()> {
    let cluster = Cluster::embedded().await?;
    cluster
        .install(edgegrid_api::crds().into_iter().map(without_rules))
        .await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["n-1 zone=zone1"]).await?;
    let _running = harness::start(&cluster).await?;
    let service = json!({ "spec": { "template": { "ports": [{ "port": 80 }] } } });
    let workload =
        json!({ "spec": { "gridUniqKey": "", "template": deployment_spec("plain:1", None) } });
    for (kind, grid) in [
        (DEPLOYMENT_GRID, &workload),
        (STATEFUL_SET_GRID, &workload),
        (SERVICE_GRID, &service),
    ] {
        let name = kind.2.to_lowercase();
        stage.create(kind, &name, grid).await?;
        let ready = stage
            .condition(kind, &name, condition::READY, "False")
            .await?;
        assert_eq!(ready["reason"], reason::EMPTY);
        a_while().await;
        assert_eq!(stage.events(&name, reason::EMPTY).await?.len(), 1);
    }
    stage.children(DEPLOYMENT, &[]).await?;
    stage.children(STATEFUL_SET, &[]).await
}

/// A definition as before we had rules.
fn without_rules(
    crd: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
) -> k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition {
    fn strip(value: &mut Value) {
        if let Some(fields) = value.as_object_mut() {
            fields.remove("x-kubernetes-validations");
            if fields.get("type") == Some(&json!("string")) {
                fields.remove("pattern");
            }
            fields.values_mut().for_each(strip);
        } else if let Some(items) = value.as_array_mut() {
            items.iter_mut().for_each(strip);
        }
    }
    let mut value = serde_json::to_value(crd).unwrap();
    strip(&mut value);
    serde_json::from_value(value).unwrap()
}
