//! What a user does with grids from first to last, as far as these kinds write objects.

use anyhow::Result;
use edgegrid_api::names::{annotation, condition, label};
use serde_json::{Value, json};

use crate::harness;
use crate::stage::*;

const SIX_NODES: [&str; 6] = [
    "bj-1 location=beijing",
    "bj-2 location=beijing",
    "bj-3 location=beijing",
    "gz-1 location=guangzhou",
    "gz-2 location=guangzhou",
    "gz-3 location=guangzhou",
];
const DEMO: &str = "deploymentgrid-demo";
const IMAGE: &str = "superedge/echoserver:2.2";

/// And there is a status, which says which generation it is about.
#[tokio::test(start_paused = true)]
async fn a_deployment_grid_stamps_one_deployment_into_every_unit() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&SIX_NODES).await?;
    let _running = harness::start(&cluster).await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            DEMO,
            &grid("location", &deployment_spec(IMAGE, Some(2))),
        )
        .await?;

    let names = [
        "deploymentgrid-demo-beijing",
        "deploymentgrid-demo-guangzhou",
    ];
    stage.children(DEPLOYMENT, &names).await?;
    let owner = stage.read(DEPLOYMENT_GRID, DEMO).await?["metadata"]["uid"].clone();
    for (name, unit) in names.into_iter().zip(["beijing", "guangzhou"]) {
        let child = stage.read(DEPLOYMENT, name).await?;
        assert_eq!(child["spec"]["replicas"], 2);
        assert_eq!(
            child["spec"]["template"]["spec"]["nodeSelector"],
            json!({ "location": unit })
        );
        assert!(is_labelled(&child, DEMO, "location"), "{child:#}");
        let reference = &child["metadata"]["ownerReferences"];
        assert_eq!(reference.as_array().unwrap().len(), 1);
        assert_eq!(reference[0]["uid"], owner);
        assert_eq!(reference[0]["controller"], true);
        let note = child["metadata"]["annotations"][annotation::GRID]
            .as_str()
            .unwrap();
        let note: Value = serde_json::from_str(note)?;
        assert_eq!(note, json!({ "grid": DEMO, "unit": unit }));
        stage.make_available(DEPLOYMENT, name).await?;
    }
    let grid = stage
        .until((DEPLOYMENT_GRID, DEMO), json!("2/2"), |grid| {
            grid["status"]["ready"].clone()
        })
        .await?;
    assert_eq!(grid["status"]["units"], 2);
    assert_eq!(grid["status"]["states"]["beijing"]["readyReplicas"], 2);
    assert_eq!(
        grid["status"]["states"]["guangzhou"]["conditions"][0]["type"],
        "Available"
    );
    assert_eq!(
        condition_of(&grid, condition::READY).unwrap()["status"],
        "True"
    );
    assert_eq!(
        grid["status"]["observedGeneration"],
        grid["metadata"]["generation"]
    );
    Ok(())
}

/// The label that tells units apart is in the selector of what we make, so that an autoscaler or a
/// disruption budget of one unit sees that unit's pods alone.
#[tokio::test(start_paused = true)]
async fn selectors_of_two_units_never_select_the_same_pods() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&SIX_NODES).await?;
    let _running = harness::start(&cluster).await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            DEMO,
            &grid("location", &deployment_spec(IMAGE, Some(2))),
        )
        .await?;
    stage
        .children(
            DEPLOYMENT,
            &[
                "deploymentgrid-demo-beijing",
                "deploymentgrid-demo-guangzhou",
            ],
        )
        .await?;
    for unit in ["beijing", "guangzhou"] {
        let child = stage.read(DEPLOYMENT, &format!("{DEMO}-{unit}")).await?;
        let wanted = json!({ "appGrid": "echo", label::UNIT: unit });
        assert_eq!(child["spec"]["selector"]["matchLabels"], wanted);
        assert_eq!(child["spec"]["template"]["metadata"]["labels"], wanted);
        assert_eq!(label_of(&child, label::UNIT).as_deref(), Some(unit));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_service_grid_makes_exactly_one_service_that_it_owns() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&SIX_NODES).await?;
    let _running = harness::start(&cluster).await?;
    let template = json!({ "selector": { "appGrid": "echo" }, "ports": [{ "protocol": "TCP", "port": 80, "targetPort": 8080 }] });
    stage
        .create(
            SERVICE_GRID,
            "servicegrid-demo",
            &grid("location", &template),
        )
        .await?;

    stage
        .condition(SERVICE_GRID, "servicegrid-demo", condition::READY, "True")
        .await?;
    let service = stage.read(SERVICE, "servicegrid-demo-svc").await?;
    assert!(is_labelled(&service, "servicegrid-demo", "location"));
    assert_eq!(
        service["metadata"]["annotations"][annotation::TOPOLOGY_KEYS],
        "[\"location\"]"
    );
    assert_eq!(
        service["metadata"]["ownerReferences"][0]["kind"],
        "ServiceGrid"
    );
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 8080);
    let grid = stage.read(SERVICE_GRID, "servicegrid-demo").await?;
    assert_eq!(grid["status"]["service"], "servicegrid-demo-svc");
    let ours: Vec<_> = stage
        .names(SERVICE)
        .await?
        .into_iter()
        .filter(|name| name.contains("demo"))
        .collect();
    assert_eq!(ours, ["servicegrid-demo-svc"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_unit_comes_with_its_first_node_and_goes_with_its_last() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage
        .add_nodes(&["a-1 zone=a", "b-1 zone=b", "b-2 zone=b"])
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
        .create(
            STATEFUL_SET_GRID,
            "db",
            &grid("zone", &stateful_set_spec(IMAGE, Some(1))),
        )
        .await?;
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;

    stage.add_nodes(&["c-1 zone=c"]).await?;
    stage
        .children(DEPLOYMENT, &["web-a", "web-b", "web-c"])
        .await?;
    stage
        .children(STATEFUL_SET, &["db-a", "db-b", "db-c"])
        .await?;

    stage.label_node("b-1", "zone", None).await?;
    stage.label_node("c-1", "zone", Some("a")).await?;
    stage.children(DEPLOYMENT, &["web-a", "web-b"]).await?;
    stage.label_node("b-2", "zone", None).await?;
    stage.children(DEPLOYMENT, &["web-a"]).await?;
    stage.children(STATEFUL_SET, &["db-a"]).await?;
    Ok(())
}

/// A Service that no grid wrote, with pods of a grid behind it.
#[tokio::test(start_paused = true)]
async fn an_ordinary_service_is_left_alone() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&SIX_NODES).await?;
    let _running = harness::start(&cluster).await?;
    let service =
        json!({ "spec": { "selector": { "appGrid": "echo" }, "ports": [{ "port": 80 }] } });
    let before = stage.create(SERVICE, "plain", &service).await?;
    stage
        .create(
            DEPLOYMENT_GRID,
            DEMO,
            &grid("location", &deployment_spec(IMAGE, Some(2))),
        )
        .await?;
    stage
        .children(
            DEPLOYMENT,
            &[
                "deploymentgrid-demo-beijing",
                "deploymentgrid-demo-guangzhou",
            ],
        )
        .await?;
    a_while().await;
    assert_eq!(stage.read(SERVICE, "plain").await?, before);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_grid_stamps_one_stateful_set_into_every_unit() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&SIX_NODES).await?;
    let _running = harness::start(&cluster).await?;
    let name = "statefulsetgrid-demo";
    stage
        .create(
            STATEFUL_SET_GRID,
            name,
            &grid("location", &stateful_set_spec(IMAGE, Some(3))),
        )
        .await?;
    let names = [
        "statefulsetgrid-demo-beijing",
        "statefulsetgrid-demo-guangzhou",
    ];
    stage.children(STATEFUL_SET, &names).await?;
    for child in names {
        let set = stage.read(STATEFUL_SET, child).await?;
        assert_eq!(set["spec"]["serviceName"], "servicegrid-demo-svc");
        assert_eq!(set["spec"]["replicas"], 3);
        stage.make_available(STATEFUL_SET, child).await?;
    }
    let grid = stage
        .until((STATEFUL_SET_GRID, name), json!("2/2"), |grid| {
            grid["status"]["ready"].clone()
        })
        .await?;
    assert_eq!(grid["status"]["states"]["beijing"]["updatedReplicas"], 3);
    Ok(())
}

/// SuperEdge's own examples: nodes labelled by kubectl only.
#[tokio::test(start_paused = true)]
async fn nodes_labelled_by_hand_make_units() -> Result<()> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["node0", "node1", "node2"]).await?;
    let _running = harness::start(&cluster).await?;
    stage
        .create(
            STATEFUL_SET_GRID,
            "statefulsetgrid-demo",
            &grid("zone", &stateful_set_spec(IMAGE, Some(3))),
        )
        .await?;
    let two =
        json!({ "spec": { "gridUniqKey": "zone1", "template": deployment_spec(IMAGE, Some(2)) } });
    stage.create(DEPLOYMENT_GRID, "demo", &two).await?;
    let none = stage
        .condition(
            STATEFUL_SET_GRID,
            "statefulsetgrid-demo",
            condition::READY,
            "False",
        )
        .await?;
    assert_eq!(none["reason"], "NoUnits");
    for number in 0..3 {
        let name = format!("node{number}");
        stage
            .label_node(&name, "zone", Some(&format!("zone-{number}")))
            .await?;
    }
    stage
        .label_node("node1", "zone1", Some("nodeunit1"))
        .await?;
    stage
        .label_node("node2", "zone1", Some("nodeunit2"))
        .await?;
    stage
        .children(
            STATEFUL_SET,
            &[
                "statefulsetgrid-demo-zone-0",
                "statefulsetgrid-demo-zone-1",
                "statefulsetgrid-demo-zone-2",
            ],
        )
        .await?;
    stage
        .children(DEPLOYMENT, &["demo-nodeunit1", "demo-nodeunit2"])
        .await?;
    Ok(())
}
