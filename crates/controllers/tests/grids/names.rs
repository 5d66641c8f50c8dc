//! What workloads are called: units of any value, keys of any form, grids that want the same name.

use std::time::Duration;

use anyhow::Result;
use edgegrid_api::names::{annotation, condition, label};
use serde_json::{Value, json};

use crate::harness;
use crate::stage::*;

const IMAGE: &str = "superedge/echoserver:2.2";

/// Grids `a` with unit `b-c` and `a-b` with unit `c` want the same name.
#[tokio::test(start_paused = true)]
async fn of_two_grids_that_want_one_name_the_second_reports_it_and_neither_fights() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["n-1 left=b-c", "n-2 right=c"]).await?;
    // Both are there before the controller, so that they race.
    stage
        .create(
            DEPLOYMENT_GRID,
            "a",
            &grid("left", &deployment_spec("left:1", None)),
        )
        .await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            "a-b",
            &grid("right", &deployment_spec("right:1", None)),
        )
        .await?;
    let running = harness::start(&cluster).await?;
    stage.children(DEPLOYMENT, &["a-b-c"]).await?;
    let owner = stage.read(DEPLOYMENT, "a-b-c").await?["metadata"]["ownerReferences"].clone();
    let second = if owner[0]["name"] == "a" { "a-b" } else { "a" };
    let taken = stage
        .condition(DEPLOYMENT_GRID, second, condition::NAME_TAKEN, "True")
        .await?;
    assert!(
        taken["message"]
            .as_str()
            .unwrap()
            .contains("DeploymentGrid"),
        "{taken}"
    );

    a_while().await;
    running.writes.take();
    let before = stage.read(DEPLOYMENT, "a-b-c").await?;
    pass_time(Duration::from_mins(30)).await;
    assert_eq!(stage.read(DEPLOYMENT, "a-b-c").await?, before);
    assert_eq!(running.writes.take(), [""; 0], "nobody writes any more");
    Ok(())
}

/// Keys such as `topology.kubernetes.io/zone` are no label values.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_no_label_value_is_hashed_and_noted() -> Result<()> {
    let key = "topology.kubernetes.io/zone";
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage
        .add_nodes(&["a-1 topology.kubernetes.io/zone=a"])
        .await?;
    let _running = harness::start(&cluster).await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            "web",
            &grid(key, &deployment_spec(IMAGE, None)),
        )
        .await?;
    stage.children(DEPLOYMENT, &["web-a"]).await?;
    let child = stage.read(DEPLOYMENT, "web-a").await?;
    assert_eq!(
        child["metadata"]["annotations"][annotation::GRID_UNIQ_KEY],
        key
    );
    let hashed = label_of(&child, label::GRID_UNIQ_KEY).unwrap();
    assert!(
        hashed.starts_with("topology.kubernetes.io-zone-"),
        "{hashed}"
    );
    assert_eq!(
        child["spec"]["template"]["spec"]["nodeSelector"],
        json!({ key: "a" })
    );

    let template = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
    stage
        .create(SERVICE_GRID, "web", &grid(key, &template))
        .await?;
    stage
        .condition(SERVICE_GRID, "web", condition::READY, "True")
        .await?;
    let service = stage.read(SERVICE, "web-svc").await?;
    assert_eq!(
        service["metadata"]["annotations"][annotation::TOPOLOGY_KEYS],
        json!([key]).to_string()
    );
    Ok(())
}

/// In SuperEdge a unit whose value makes no legal name silently had no application.
#[tokio::test(start_paused = true)]
async fn a_unit_of_any_value_gets_its_workload() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage
        .add_nodes(&["a-1 zone=Bei_Jing", "b-1 zone=bei.jing"])
        .await?;
    let _running = harness::start(&cluster).await?;
    stage
        .create(
            STATEFUL_SET_GRID,
            "db",
            &grid("zone", &stateful_set_spec(IMAGE, None)),
        )
        .await?;
    stage
        .until((STATEFUL_SET_GRID, "db"), json!(2), |grid| {
            grid["status"]["units"].clone()
        })
        .await?;
    a_while().await;
    let mut units = Vec::new();
    for name in stage.names(STATEFUL_SET).await? {
        assert!(name.starts_with("db-bei-jing-"), "{name}");
        let set = stage.read(STATEFUL_SET, &name).await?;
        units.push(set["spec"]["template"]["spec"]["nodeSelector"]["zone"].clone());
    }
    units.sort_by_key(Value::to_string);
    assert_eq!(units, ["Bei_Jing", "bei.jing"]);
    let grid = stage.read(STATEFUL_SET_GRID, "db").await?;
    let states: Vec<_> = grid["status"]["states"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(
        states,
        ["Bei_Jing", "bei.jing"],
        "people see the true values"
    );
    Ok(())
}
