//! Units and groups from first to last, and the unit of every node.

use anyhow::{Context, Result};
use edgegrid_api::node_unit::UnitType;
use edgegrid_api::{NodeGroup, NodeUnit};
use edgegrid_testkit::{group, node, unit};

use crate::harness::{self, settle, start};
use crate::{MARK, delete_unit, get_group, get_unit, labels};

#[tokio::test(start_paused = true)]
async fn two_units_in_a_group_label_their_nodes_and_report_them() -> Result<()> {
    let cluster = harness::cluster().await?;
    let names = ["bj-1", "bj-2", "bj-3", "gz-1", "gz-2", "gz-3"];
    cluster.add_nodes(names.map(node)).await?;
    let running = start(&cluster).await?;
    cluster
        .apply::<NodeUnit>(unit("beijing", &["bj-1", "bj-2", "bj-3"]))
        .await?;
    cluster
        .apply::<NodeUnit>(unit("guangzhou", &["gz-1", "gz-2", "gz-3"]))
        .await?;
    cluster
        .apply::<NodeGroup>(group("location", &["beijing", "guangzhou"]))
        .await?;
    settle(&cluster, &running).await?;

    for (name, type_, rate) in [
        ("beijing", UnitType::Edge, "3/3"),
        ("guangzhou", UnitType::Edge, "3/3"),
        ("unit-node-all", UnitType::Other, "6/6"),
    ] {
        let unit = get_unit(&cluster, name).await?.context("no unit")?;
        assert_eq!(unit.spec.type_, type_, "{name}");
        let status = unit.status.context("no status")?;
        assert_eq!(status.ready_rate.as_deref(), Some(rate), "{name}");
        assert_eq!(status.observed_generation, unit.metadata.generation);
    }
    let beijing = get_unit(&cluster, "beijing").await?.context("no unit")?;
    let shown = beijing.spec.set_node.context("no setNode")?.labels;
    let expected = [("beijing", MARK), ("location", "beijing")];
    assert!(
        shown
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .eq(expected),
        "{shown:?}"
    );
    assert_eq!(
        beijing.status.unwrap().ready_nodes,
        ["bj-1", "bj-2", "bj-3"]
    );
    let location = get_group(&cluster, "location").await?.context("no group")?;
    let status = location.status.context("no status")?;
    assert_eq!(
        (status.unit_number, status.node_units),
        (2, vec!["beijing".into(), "guangzhou".into()])
    );
    for name in names {
        let unit = if name.starts_with("bj") {
            "beijing"
        } else {
            "guangzhou"
        };
        let labels = labels(&cluster, name).await?;
        let expected = [(unit, MARK), ("location", unit)];
        assert!(
            labels
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .eq(expected),
            "{name}: {labels:?}"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_unit_of_all_nodes_is_made_once_and_not_again_after_it_was_deleted_on_purpose()
-> Result<()> {
    let cluster = harness::cluster().await?;
    cluster.add_nodes([node("a")]).await?;
    let running = start(&cluster).await?;
    settle(&cluster, &running).await?;
    assert!(get_unit(&cluster, "unit-node-all").await?.is_some());
    delete_unit(&cluster, "unit-node-all").await?;
    settle(&cluster, &running).await?;
    drop(running);
    let running = start(&cluster).await?;
    settle(&cluster, &running).await?;
    assert!(get_unit(&cluster, "unit-node-all").await?.is_none());
    let labels = crate::get_node(&cluster, "a")
        .await?
        .metadata
        .labels
        .unwrap();
    assert!(!labels.contains_key("unit-node-all"), "{labels:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_unit_of_all_nodes_that_is_there_already_is_left_as_it_is() -> Result<()> {
    let cluster = harness::cluster().await?;
    cluster.add_nodes([node("a")]).await?;
    cluster
        .apply::<NodeUnit>(unit("unit-node-all", &["a"]))
        .await?;
    let running = start(&cluster).await?;
    settle(&cluster, &running).await?;
    let all = get_unit(&cluster, "unit-node-all")
        .await?
        .context("no unit")?;
    assert_eq!((all.spec.type_, all.spec.selector), (UnitType::Edge, None));
    Ok(())
}
