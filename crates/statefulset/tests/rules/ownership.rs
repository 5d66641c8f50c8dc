//! Which pods and revisions are adopted, released or left to others.

use std::sync::Arc;

use edgegrid_statefulset::rules::{Owner, plan};
use serde_json::json;

use crate::world::{earlier, pod, set, short, steps, terminating, world};

#[test]
fn orphans_that_match_are_adopted_and_count_at_once() {
    let set = set(2, &json!({}));
    let mut orphan = pod(&set, 0);
    orphan.owner = None;
    assert_eq!(
        steps(&world(&set, vec![orphan.clone()])),
        ["adopt web-0", "+web-1"]
    );

    let mut other = orphan.clone();
    other.labels.insert("app".into(), "other".into());
    assert_eq!(steps(&world(&set, vec![other])), ["+web-0"]);
    let mut misnamed = orphan.clone();
    misnamed.name = "web-x".into();
    assert_eq!(steps(&world(&set, vec![misnamed])), ["+web-0"]);
    assert_eq!(steps(&world(&set, vec![terminating(orphan)])), ["+web-0"]);
}

#[test]
fn a_pod_of_ours_that_no_longer_matches_is_let_go() {
    let set = set(1, &json!({}));
    let mut stray = pod(&set, 0);
    stray.labels.insert("app".into(), "other".into());
    assert_eq!(
        steps(&world(&set, vec![stray])),
        ["release web-0", "+web-0"]
    );
}

#[test]
fn pods_of_others_are_left_alone() {
    let set = set(1, &json!({}));
    let mut foreign = pod(&set, 0);
    foreign.owner = Some(Owner {
        kind: "StatefulSet".into(),
        name: "web".into(),
        uid: "an earlier one".into(),
    });
    assert_eq!(steps(&world(&set, vec![foreign])), ["+web-0"]);
}

#[test]
fn a_set_on_its_way_out_writes_nothing_but_its_status() {
    let mut set = set(3, &json!({}));
    set.is_deleting = true;
    let mut orphan = pod(&set, 1);
    orphan.owner = None;
    let mut huge = pod(&set, 0);
    huge.name = "web-99999999999".into();
    let plan = plan(&world(&set, vec![pod(&set, 0), huge, orphan]));
    assert!(short(&plan).is_empty());
    assert_eq!(
        plan.status.replicas, 2,
        "one without an ordinal counts here, the orphan does not"
    );
}

#[test]
fn orphaned_revisions_that_match_are_adopted() {
    let set = set(0, &json!({}));
    let mut world = world(&set, Vec::new());
    let (mut ours, mut others) = (earlier(&set, "web-a", 0), earlier(&set, "web-b", 0));
    ours.owner = None;
    others.owner = None;
    others.labels.clear();
    world.revisions.extend([Arc::new(ours), Arc::new(others)]);
    assert_eq!(steps(&world), ["adopt web-a"]);
}
