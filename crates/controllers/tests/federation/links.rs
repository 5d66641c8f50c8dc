//! Members that are away: nothing is lost because of a link, a right or a list.

use std::time::Duration;

use edgegrid_api::names::{MEMBER_LEASE, annotation, condition, label};
use edgegrid_testkit::eventually;
use edgegrid_testkit::faults::Fault;
use serde_json::{Value, json};

use crate::stage::*;

const GRID: (&str, &str) = ("default", "echo");

async fn two() -> (Site, Member, Member) {
    let control = Site::control().await.unwrap();
    let a = Member::registered(&control, "a").await.unwrap();
    let b = Member::registered(&control, "b").await.unwrap();
    a.site.add_nodes(&["a-1 zone=zone1"]).await.unwrap();
    b.site.add_nodes(&["b-1 zone=zone2"]).await.unwrap();
    for kind in GRIDS {
        control
            .create(kind, GRID, &federated(kind, 1))
            .await
            .unwrap();
        a.site.exists(kind, GRID, true).await.unwrap();
        b.site.exists(kind, GRID, true).await.unwrap();
    }
    (control, a, b)
}

fn replicas(found: &Value) -> Option<i64> {
    found["spec"]["replicas"].as_i64()
}

#[tokio::test(start_paused = true)]
async fn a_member_cut_off_puts_edits_back_to_what_it_was_shown_last_across_restarts_too() {
    let (control, mut a, b) = two().await;
    a.cut();
    let change = json!({ "spec": { "template": { "replicas": 4 } } });
    control.edit(DEPLOYMENT_GRID, GRID, &change).await.unwrap();
    b.site
        .until((DEPLOYMENT, ("default", "echo-zone2")), Some(4), replicas)
        .await
        .unwrap();
    a.site.start().await.unwrap();
    let by_hand = json!({ "spec": { "template": { "replicas": 9 } } });
    a.site.edit(DEPLOYMENT_GRID, GRID, &by_hand).await.unwrap();
    let in_template = |grid: &Value| grid["spec"]["template"]["replicas"].as_i64();
    a.site
        .until((DEPLOYMENT_GRID, GRID), Some(1), in_template)
        .await
        .unwrap();
    a.site.delete(DEPLOYMENT_GRID, GRID).await.unwrap();
    a.site.exists(DEPLOYMENT_GRID, GRID, true).await.unwrap();
    a.site.roll_out().await.unwrap(); // what the deleted one had goes with it
    a.link.restore();
    a.site
        .until((DEPLOYMENT, ("default", "echo-zone1")), Some(4), replicas)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_member_out_of_contact_is_shown_with_since_when_and_its_states_are_kept() {
    let (control, a, _b) = two().await;
    a.site.roll_out().await.unwrap();
    control
        .until((DEPLOYMENT_GRID, GRID), 2, |grid| units(grid).len())
        .await
        .unwrap();
    let heard = eventually("a was heard of", async || {
        renewed(&control, &a)
            .await?
            .ok_or_else(|| anyhow::anyhow!("not yet"))
    })
    .await
    .unwrap();
    a.cut();
    tokio::time::sleep(Duration::from_mins(4)).await;
    for kind in GRIDS {
        let behind = |grid: &Value| {
            let first = &grid["status"]["members"]["behind"][0];
            (
                first["cluster"].clone(),
                first["reason"].clone(),
                first["since"].is_string(),
            )
        };
        let wanted = (json!("a"), json!("OutOfContact"), true);
        control.until((kind, GRID), wanted, behind).await.unwrap();
        control
            .condition(kind, GRID, (condition::IN_STEP, "False"))
            .await
            .unwrap();
    }
    assert!(heard.starts_with("2026"), "{heard}");
    let grid = control.read(DEPLOYMENT_GRID, GRID).await.unwrap();
    assert_eq!(units(&grid), ["zone1", "zone2"]);
    a.link.restore();
    for kind in GRIDS {
        control
            .condition(kind, GRID, (condition::IN_STEP, "True"))
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_waits_for_a_member_that_is_away_and_for_no_other() {
    let (control, a, b) = two().await;
    a.cut();
    for kind in GRIDS {
        control.delete(kind, GRID).await.unwrap();
        b.site.exists(kind, GRID, false).await.unwrap();
        control
            .exists(kind, (&b.namespace, GRID.1), false)
            .await
            .unwrap();
        let behind = |grid: &Value| {
            let first = &grid["status"]["members"]["behind"][0];
            (first["cluster"].clone(), first["reason"].clone())
        };
        control
            .until((kind, GRID), (json!("a"), json!("Removing")), behind)
            .await
            .unwrap();
    }
    tokio::time::sleep(Duration::from_hours(10)).await;
    for kind in GRIDS {
        assert!(a.site.find(kind, GRID).await.unwrap().is_some());
    }
    a.link.restore();
    for kind in GRIDS {
        control.exists(kind, GRID, false).await.unwrap();
        a.site.exists(kind, GRID, false).await.unwrap();
        assert_eq!(control.all(kind).await.unwrap(), Vec::<String>::new());
        assert_eq!(a.site.all(kind).await.unwrap(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn answers_without_copies_change_nothing() {
    let (_control, mut a, _b) = two().await;
    for code in [404, 403, 401] {
        a.link.break_off(Fault::Refuse(code));
        tokio::time::sleep(Duration::from_mins(30)).await;
        a.site.start().await.unwrap();
        tokio::time::sleep(Duration::from_mins(30)).await;
        for kind in GRIDS {
            assert!(a.site.find(kind, GRID).await.unwrap().is_some(), "{code}");
        }
        a.link.restore();
    }
}

/// The label that the member selects copies by is taken off: its list is empty, and the objects are still there.
#[tokio::test(start_paused = true)]
async fn an_empty_list_changes_nothing_and_is_reported() {
    let (mut control, a, _b) = two().await;
    control.running = None; // nobody puts it back
    for kind in GRIDS {
        let change = json!({ "metadata": { "labels": { label::DISTRIBUTED: null } } });
        control
            .edit(kind, (&a.namespace, GRID.1), &change)
            .await
            .unwrap();
    }
    eventually("the member says so", async || {
        let reasons = a.site.events(GRID.1).await?;
        anyhow::ensure!(
            reasons
                .iter()
                .filter(|reason| *reason == "CopyMissing")
                .count()
                == 3,
            "{reasons:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    reported(&a, ("False", "CopyMissing")).await;
    assert_eq!(metric(&a, "copies_missing").unwrap(), "copies_missing 3");
    let lease = (a.namespace.as_str(), MEMBER_LEASE);
    let missing = |lease: &Value| lease["metadata"]["annotations"][annotation::MISSING].clone();
    let all = "DeploymentGrid default/echo, StatefulSetGrid default/echo, ServiceGrid default/echo";
    control
        .until((LEASE, lease), json!(all), missing)
        .await
        .unwrap();
    control.start().await.unwrap();
    for kind in GRIDS {
        let labelled = |copy: &Value| copy["metadata"]["labels"][label::DISTRIBUTED].clone();
        control
            .until(
                (kind, (a.namespace.as_str(), GRID.1)),
                json!("yes"),
                labelled,
            )
            .await
            .unwrap();
    }
    reported(&a, ("True", "AsWanted")).await;
    control
        .until((LEASE, lease), Value::Null, missing)
        .await
        .unwrap();
    assert_eq!(metric(&a, "copies_missing").unwrap(), "copies_missing 0");
}

fn metric(member: &Member, name: &str) -> Option<String> {
    member.site.running.as_ref()?.metric(name)
}

/// Waits until the member's grids of all kinds say how they stand to the control cluster.
async fn reported(member: &Member, (status, why): (&str, &str)) {
    for kind in GRIDS {
        let found = |grid: &Value| {
            let found = condition_of(grid, condition::IN_STEP).unwrap_or_default();
            (found["status"].clone(), found["reason"].clone())
        };
        let wanted = (json!(status), json!(why));
        let site = &member.site;
        site.until((kind, GRID), wanted, found).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_control_cluster_that_refuses_or_is_silent_is_reported_in_the_member() {
    let (control, a, _b) = two().await;
    reported(&a, ("True", "AsWanted")).await;
    for fault in [
        Fault::Refuse(403),
        Fault::Refuse(404),
        Fault::LoseRequest,
        Fault::Hang,
    ] {
        a.link.break_off(fault);
        tokio::time::sleep(Duration::from_mins(4)).await;
        reported(&a, ("False", "OutOfContact")).await;
        let events = a.site.events("parent-cluster").await.unwrap();
        assert!(!events.is_empty() && events.iter().all(|reason| reason == "OutOfContact"));
        let lost = || metric(&a, "control_cluster_lost").unwrap();
        assert_eq!(lost(), "control_cluster_lost 1");
        a.link.restore();
        reported(&a, ("True", "AsWanted")).await;
        assert_eq!(lost(), "control_cluster_lost 0");
        // The copy says how the member's grid is, not how its link was.
        let copy = (a.namespace.as_str(), GRID.1);
        let in_step = (condition::IN_STEP, "True");
        let copy = control.condition(DEPLOYMENT_GRID, copy, in_step).await;
        assert_eq!(copy.unwrap()["message"], "the member has the grid");
    }
}

#[tokio::test(start_paused = true)]
async fn the_registration_gone_changes_nothing() {
    let (control, a, _b) = two().await;
    a.site
        .delete(SECRET, ("clusternet-system", "parent-cluster"))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_hours(1)).await;
    for kind in GRIDS {
        assert!(a.site.find(kind, GRID).await.unwrap().is_some());
        assert!(
            control
                .find(kind, (&a.namespace, GRID.1))
                .await
                .unwrap()
                .is_some()
        );
    }
}
