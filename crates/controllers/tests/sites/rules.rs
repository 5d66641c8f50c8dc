//! What units and groups do to nodes, rule by rule.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_api::node_unit::UnitType;
use edgegrid_api::{NodeGroup, NodeUnit};
use edgegrid_testkit::{Patience, eventually, eventually_within, group, node, unit};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::harness::{settle, start};
use crate::{
    MARK, condition, delete_group, delete_unit, edit_node, get_node, get_unit, group_of, labels,
    set_ready, three_nodes, unit_of, until_labels,
};

fn by_zone(zone: &str) -> Value {
    json!({ "selector": { "matchLabels": { "zone": zone } } })
}

// In SuperEdge units by selector never removed anything.
#[tokio::test(start_paused = true)]
async fn a_selector_units_labels_go_when_the_node_leaves_and_when_the_unit_goes() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    cluster
        .apply::<NodeUnit>(unit_of("u", &by_zone("a")))
        .await?;
    cluster.apply::<NodeGroup>(group("g", &["u"])).await?;
    until_labels(&cluster, "a1", &[("u", MARK), ("g", "u")]).await?;
    edit_node(
        &cluster,
        "a1",
        &json!({ "metadata": { "labels": { "zone": "b" } } }),
    )
    .await?;
    until_labels(&cluster, "a1", &[]).await?;
    delete_group(&cluster, "g").await?;
    until_labels(&cluster, "a2", &[("u", MARK)]).await?;
    delete_unit(&cluster, "u").await?;
    settle(&cluster, &running).await?;
    assert!(get_unit(&cluster, "u").await?.is_none());
    assert!(labels(&cluster, "a2").await?.is_empty());
    Ok(())
}

// In SuperEdge one stale marker made a node's events count for no unit at all.
#[tokio::test(start_paused = true)]
async fn a_marker_of_a_unit_that_is_no_more_does_not_blind_the_others() -> Result<()> {
    let cluster = three_nodes().await?;
    edit_node(
        &cluster,
        "a1",
        &json!({ "metadata": { "labels": { "ghost": MARK } } }),
    )
    .await?;
    let running = start(&cluster).await?;
    cluster.apply::<NodeUnit>(unit("u", &["a1", "a2"])).await?;
    settle(&cluster, &running).await?;
    set_ready(&cluster, "a1", false).await?;
    eventually("u shows it", async || {
        let status = get_unit(&cluster, "u")
            .await?
            .and_then(|unit| unit.status)
            .unwrap_or_default();
        ensure!(status.ready_rate.as_deref() == Some("1/2"), "{status:?}");
        ensure!(status.not_ready_nodes == ["a1"]);
        Ok(())
    })
    .await?;
    assert_eq!(
        labels(&cluster, "a1").await?["ghost"],
        MARK,
        "somebody else put it"
    );
    Ok(())
}

// In SuperEdge a node that newly matched waited for a resync, up to 30 s; so did units to be found.
#[tokio::test(start_paused = true)]
async fn a_node_that_newly_matches_is_labelled_at_once() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    cluster
        .apply::<NodeUnit>(unit_of("u", &by_zone("new")))
        .await?;
    cluster
        .apply::<NodeGroup>(group_of("g", &json!({ "autoFindNodeKeys": ["zone"] })))
        .await?;
    settle(&cluster, &running).await?;
    cluster.add_nodes([node("n").label("zone", "new")]).await?;
    let at_once = Patience {
        limit: Duration::from_secs(1),
        pause: Duration::from_millis(10),
    };
    eventually_within(at_once, "n is labelled", async || {
        let labels = labels(&cluster, "n").await?;
        ensure!(
            labels.contains_key("u") && labels.contains_key("new") && labels.contains_key("g"),
            "{labels:?}"
        );
        Ok(())
    })
    .await
}

// SuperEdge took taints with NoSchedule out of setNode.
#[tokio::test(start_paused = true)]
async fn taints_of_set_node_stay_in_the_spec_and_reach_the_nodes_and_foreign_ones_stay()
-> Result<()> {
    let cluster = three_nodes().await?;
    let foreign = json!({ "key": "foreign", "effect": "NoSchedule" });
    edit_node(&cluster, "a1", &json!({ "spec": { "taints": [foreign] } })).await?;
    let running = start(&cluster).await?;
    let ours = json!({ "key": "edge", "value": "yes", "effect": "NoSchedule" });
    let spec = json!({ "nodes": ["a1"], "setNode": { "taints": [ours] } });
    cluster.apply::<NodeUnit>(unit_of("u", &spec)).await?;
    settle(&cluster, &running).await?;
    let taints =
        || async { anyhow::Ok(json!(get_node(&cluster, "a1").await?.spec.unwrap().taints)) };
    assert_eq!(taints().await?, json!([foreign, ours]));
    let unit = get_unit(&cluster, "u").await?.context("no unit")?;
    assert_eq!(json!(unit.spec.set_node.unwrap().taints), json!([ours]));
    // Somebody deletes ours: it is put back.
    edit_node(&cluster, "a1", &json!({ "spec": { "taints": [foreign] } })).await?;
    settle(&cluster, &running).await?;
    assert_eq!(taints().await?, json!([foreign, ours]));
    delete_unit(&cluster, "u").await?;
    settle(&cluster, &running).await?;
    assert_eq!(taints().await?, json!([foreign]));
    assert_eq!(get_node(&cluster, "a1").await?.metadata.annotations, None);
    Ok(())
}

// In SuperEdge two missing taints became duplicates, which the API refuses; annotations were compared with
// labels, so that every pass wrote.
#[tokio::test(start_paused = true)]
async fn two_missing_taints_and_an_annotation_are_written_once() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    settle(&cluster, &running).await?;
    let taint = |key: &str| json!({ "key": key, "effect": "NoSchedule" });
    let spec = json!({ "nodes": ["a1"], "setNode": { "annotations": { "n": "1" }, "taints": [taint("s"), taint("t")] } });
    cluster.apply::<NodeUnit>(unit_of("u", &spec)).await?;
    let written = running
        .faults
        .record(|method, path| method == "PATCH" && path.contains("/nodes/a1"));
    settle(&cluster, &running).await?;
    let node = get_node(&cluster, "a1").await?;
    assert_eq!(
        json!(node.spec.unwrap().taints),
        json!([taint("s"), taint("t")])
    );
    assert_eq!(node.metadata.annotations.unwrap()["n"], "1");
    let written = written.take();
    assert_eq!(written.len(), 2, "one patch, one apply: {written:#?}");
    Ok(())
}

// In SuperEdge two units of one group fought over a shared node for ever.
#[tokio::test(start_paused = true)]
async fn the_older_of_two_node_units_wins_the_younger_reports_it_and_nothing_flaps() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    cluster
        .apply::<NodeUnit>(unit("younger-name", &["a1"]))
        .await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster
        .apply::<NodeUnit>(unit("a-name", &["a1", "a2"]))
        .await?;
    cluster
        .apply::<NodeGroup>(group("g", &["younger-name", "a-name"]))
        .await?;
    settle(&cluster, &running).await?;
    assert_eq!(labels(&cluster, "a1").await?["g"], "younger-name");
    assert_eq!(labels(&cluster, "a2").await?["g"], "a-name");
    assert_eq!(condition(&cluster, "younger-name", "Conflict").await?, None);
    let said = condition(&cluster, "a-name", "Conflict")
        .await?
        .context("no condition")?;
    for word in ["True", "a1", "label g", "younger-name", "a-name"] {
        assert!(said.contains(word), "{said}");
    }
    let writes = running.faults.record(|method, _| method != "GET");
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(writes.take(), Vec::<String>::new());
    let events: Api<Event> = Api::all(cluster.client());
    let told = events.list(&ListParams::default()).await?.items;
    let told: Vec<_> = told
        .iter()
        .filter(|event| event.reason.as_deref() == Some("Conflict"))
        .collect();
    assert_eq!(told.len(), 1, "{told:#?}");
    // The winner goes, and the other gets its way.
    delete_unit(&cluster, "younger-name").await?;
    settle(&cluster, &running).await?;
    assert_eq!(labels(&cluster, "a1").await?["g"], "a-name");
    assert_eq!(condition(&cluster, "a-name", "Conflict").await?, None);
    Ok(())
}

// In SuperEdge removal went by key, so that one unit's end took what another, or a person, had set.
#[tokio::test(start_paused = true)]
async fn a_unit_that_goes_takes_only_what_it_put_and_nobody_changed() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    let spec = |label: &str| json!({ "nodes": ["a1"], "setNode": { "labels": { label: "1", "shared": "1" } } });
    cluster
        .apply::<NodeUnit>(unit_of("u", &spec("mine")))
        .await?;
    cluster
        .apply::<NodeUnit>(unit_of("v", &spec("other")))
        .await?;
    settle(&cluster, &running).await?;
    let writes = running.faults.clone();
    writes.inject(
        1,
        edgegrid_testkit::faults::Fault::Lag(Duration::from_secs(3)),
        |method, path| method == "PATCH" && path.contains("/nodes/a1"),
    );
    // The unit's label gets another value in the moment in which the unit goes.
    delete_unit(&cluster, "u").await?;
    edit_node(
        &cluster,
        "a1",
        &json!({ "metadata": { "labels": { "mine": "theirs" } } }),
    )
    .await?;
    settle(&cluster, &running).await?;
    until_labels(
        &cluster,
        "a1",
        &[
            ("v", MARK),
            ("other", "1"),
            ("shared", "1"),
            ("mine", "theirs"),
        ],
    )
    .await
}

// SuperEdge overwrote the found units' labels, gave them the wrong type, never collected them, and let two groups fight.
#[tokio::test(start_paused = true)]
async fn found_units_follow_their_nodes_and_serve_all_groups_with_the_same_keys() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    for name in ["g", "h"] {
        cluster
            .apply::<NodeGroup>(group_of(name, &json!({ "autoFindNodeKeys": ["zone"] })))
            .await?;
    }
    settle(&cluster, &running).await?;
    let found = get_unit(&cluster, "a").await?.context("not found")?;
    assert_eq!(found.spec.type_, UnitType::Edge);
    assert_eq!(found.status.unwrap().ready_rate.as_deref(), Some("2/2"));
    until_labels(&cluster, "a1", &[("a", MARK), ("g", "a"), ("h", "a")]).await?;
    let writes = running.faults.record(|method, _| method != "GET");
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(writes.take(), Vec::<String>::new(), "no flip-flop");
    // A value that is no DNS name, and the last node of b at once.
    edit_node(
        &cluster,
        "b1",
        &json!({ "metadata": { "labels": { "zone": "Bei_Jing" } } }),
    )
    .await?;
    settle(&cluster, &running).await?;
    assert!(get_unit(&cluster, "b").await?.is_none());
    let name = labels(&cluster, "b1").await?["g"].clone();
    assert!(name.starts_with("bei-jing-"), "{name}");
    // The last node goes.
    let nodes: Api<Node> = Api::all(cluster.client());
    nodes.delete("b1", &DeleteParams::default()).await?;
    settle(&cluster, &running).await?;
    assert!(get_unit(&cluster, &name).await?.is_none());
    for name in ["g", "h"] {
        delete_group(&cluster, name).await?;
    }
    settle(&cluster, &running).await?;
    assert!(get_unit(&cluster, "a").await?.is_none());
    assert!(labels(&cluster, "a1").await?.is_empty());
    Ok(())
}

// In SuperEdge the finalizer went before the nodes were clean, so that a crash left labels behind.
#[tokio::test(start_paused = true)]
async fn a_unit_stays_until_its_nodes_are_clean_whatever_crashes() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    cluster.apply::<NodeUnit>(unit("u", &["a1", "a2"])).await?;
    settle(&cluster, &running).await?;
    for nth in 1..=20 {
        let is_node = |method: &str, path: &str| method == "PATCH" && path.contains("/nodes/a2");
        running
            .faults
            .inject(nth, edgegrid_testkit::faults::Fault::LoseRequest, is_node);
    }
    delete_unit(&cluster, "u").await?;
    until_labels(&cluster, "a1", &[]).await?;
    assert!(
        get_unit(&cluster, "u").await?.is_some(),
        "a2 still has the marker"
    );
    drop(running);
    assert_eq!(labels(&cluster, "a2").await?["u"], MARK);
    let running = start(&cluster).await?;
    settle(&cluster, &running).await?;
    assert!(get_unit(&cluster, "u").await?.is_none());
    assert!(labels(&cluster, "a2").await?.is_empty());
    Ok(())
}

// In SuperEdge these fields have no effect.
#[tokio::test(start_paused = true)]
async fn unschedulable_cordons_and_annotations_select() -> Result<()> {
    let cluster = three_nodes().await?;
    edit_node(
        &cluster,
        "a1",
        &json!({ "metadata": { "annotations": { "rack": "7" } } }),
    )
    .await?;
    let running = start(&cluster).await?;
    let selector = json!({ "annotations": { "rack": "7" } });
    cluster
        .apply::<NodeUnit>(unit_of(
            "u",
            &json!({ "selector": selector, "unschedulable": true }),
        ))
        .await?;
    settle(&cluster, &running).await?;
    let cordoned = |name: &'static str| {
        let cluster = &cluster;
        async move { anyhow::Ok(get_node(cluster, name).await?.spec.unwrap().unschedulable) }
    };
    assert_eq!(
        (cordoned("a1").await?, cordoned("a2").await?),
        (Some(true), None)
    );
    cluster
        .apply::<NodeUnit>(unit_of(
            "u",
            &json!({ "selector": selector, "unschedulable": false }),
        ))
        .await?;
    settle(&cluster, &running).await?;
    assert_ne!(cordoned("a1").await?, Some(true));
    Ok(())
}

// In SuperEdge names and values went into labels unchecked.
#[tokio::test(start_paused = true)]
async fn what_no_label_can_be_is_left_out_and_reported() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    let spec =
        json!({ "nodes": ["a1"], "setNode": { "labels": { "fine": "1", "bad": "not/legal" } } });
    cluster.apply::<NodeUnit>(unit_of("u", &spec)).await?;
    cluster.apply::<NodeUnit>(unit("v", &["a1"])).await?;
    settle(&cluster, &running).await?;
    until_labels(&cluster, "a1", &[("u", MARK), ("v", MARK), ("fine", "1")]).await?;
    let said = condition(&cluster, "u", "Invalid")
        .await?
        .context("no condition")?;
    assert!(said.contains("bad=not/legal"), "{said}");
    let long = "n".repeat(64);
    let refused = cluster
        .apply::<NodeUnit>(unit(&long, &["a1"]))
        .await
        .unwrap_err();
    assert!(format!("{refused:#}").contains("at most 63"), "{refused:#}");
    Ok(())
}

// SuperEdge's whole-Node PUTs conflicted with the kubelet's, and the first conflict ended the pass for all
// other nodes.
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_written_stops_no_other_and_is_reported() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    settle(&cluster, &running).await?;
    for _ in 0..6 {
        running.faults.inject(
            1,
            edgegrid_testkit::faults::Fault::LoseRequest,
            |method, path| method == "PATCH" && path.contains("/nodes/a1"),
        );
    }
    cluster
        .apply::<NodeUnit>(unit("u", &["a1", "a2", "b1"]))
        .await?;
    until_labels(&cluster, "a2", &[("u", MARK)]).await?;
    until_labels(&cluster, "b1", &[("u", MARK)]).await?;
    eventually("u says so", async || {
        let said = condition(&cluster, "u", "Degraded")
            .await?
            .unwrap_or_default();
        ensure!(said.starts_with("True NodesNotWritten: a1: "), "{said}");
        Ok(())
    })
    .await?;
    settle(&cluster, &running).await?;
    until_labels(&cluster, "a1", &[("u", MARK)]).await?;
    let said = condition(&cluster, "u", "Degraded")
        .await?
        .unwrap_or_default();
    assert!(said.starts_with("False AsWanted"), "{said}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_marker_that_somebody_removes_is_put_back() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    cluster.apply::<NodeUnit>(unit("u", &["a1"])).await?;
    cluster.apply::<NodeGroup>(group("g", &["u"])).await?;
    until_labels(&cluster, "a1", &[("u", MARK), ("g", "u")]).await?;
    for spoilt in [
        json!({ "u": null, "g": null }),
        json!({ "u": "x", "g": "other" }),
    ] {
        edit_node(&cluster, "a1", &json!({ "metadata": { "labels": spoilt } })).await?;
        settle(&cluster, &running).await?;
        until_labels(&cluster, "a1", &[("u", MARK), ("g", "u")]).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn missing_nodes_and_units_are_named_until_they_come() -> Result<()> {
    let cluster = three_nodes().await?;
    let running = start(&cluster).await?;
    cluster
        .apply::<NodeUnit>(unit("u", &["a1", "late"]))
        .await?;
    cluster
        .apply::<NodeGroup>(group("g", &["u", "ghost"]))
        .await?;
    settle(&cluster, &running).await?;
    let said = condition(&cluster, "u", "NodesMissing")
        .await?
        .context("no condition")?;
    assert!(said.ends_with("no such nodes: late"), "{said}");
    let group = crate::get_group(&cluster, "g")
        .await?
        .context("no group")?
        .status
        .context("no status")?;
    assert_eq!((group.unit_number, group.node_units), (1, vec!["u".into()]));
    let missing = group
        .conditions
        .iter()
        .find(|one| one.type_ == "UnitsMissing")
        .context("no condition")?;
    assert_eq!(missing.message, "no such NodeUnits: ghost");
    cluster.add_nodes([node("late")]).await?;
    cluster.apply::<NodeUnit>(unit("ghost", &["a2"])).await?;
    settle(&cluster, &running).await?;
    assert_eq!(condition(&cluster, "u", "NodesMissing").await?, None);
    until_labels(&cluster, "late", &[("u", MARK), ("g", "u")]).await?;
    until_labels(&cluster, "a2", &[("ghost", MARK), ("g", "ghost")]).await
}
