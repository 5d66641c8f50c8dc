//! What follows from what, without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use edgegrid_api::names::{annotation, condition, finalizer, label, reason};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::copies::{self, Member, World, clusters, second_name};
use super::report::Standing;
use super::status::{About, Report};
use super::*;
use crate::grid_state::VanishedUnit;
use crate::grid_status::Status;
use crate::step::Scope;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn grid(metadata: &Value) -> GridObject {
    let mut all = json!({ "name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7", "generation": 1 });
    for (key, value) in metadata.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    GridObject {
        kind: ObjectKind::DeploymentGrid,
        metadata: serde_json::from_value(all).unwrap(),
        spec: json!({ "gridUniqKey": "zone" }),
        status: json!({}),
    }
}

fn original(finalizers: &[&str]) -> GridObject {
    grid(&json!({ "labels": { label::FEDERATE: "yes" }, "finalizers": finalizers }))
}

fn copy(extra: &Value) -> GridObject {
    let mut metadata = json!({
        "namespace": "a", "labels": { label::DISTRIBUTED: "yes", label::TARGET_NAMESPACE: "default", label::ORIGIN: "u" },
        "annotations": { annotation::ORIGIN_NAME: "web" }, "finalizers": ["other", finalizer::DISTRIBUTED],
    });
    for (key, value) in extra.as_object().into_iter().flatten() {
        metadata[key] = value.clone();
    }
    grid(&metadata)
}

fn members(is_leaving: bool) -> BTreeMap<String, Member> {
    let cluster = "a".to_owned();
    BTreeMap::from([(
        "a".to_owned(),
        Member {
            cluster,
            is_leaving,
        },
    )])
}

fn decided(original: Option<&GridObject>, copies: Vec<GridObject>, is_leaving: bool) -> Vec<Step> {
    let members = members(is_leaving);
    let world = World {
        members: &members,
        copies,
        settled: BTreeSet::new(),
        pending: BTreeSet::new(),
        taken: BTreeSet::new(),
    };
    let at = ("default".to_owned(), "web".to_owned());
    let decision = copies::decide(ObjectKind::DeploymentGrid, &at, original, &world);
    decision.plan.into_steps()
}

#[test]
fn the_original_gets_its_finalizer_before_the_first_copy_is_made() {
    let steps = decided(Some(&original(&[])), Vec::new(), false);
    assert!(
        matches!(&steps[..], [Step::Patch { operations, .. }] if operations[0]["value"] == json!([finalizer::FEDERATED]))
    );
    let steps = decided(Some(&original(&[finalizer::FEDERATED])), Vec::new(), false);
    assert!(
        matches!(&steps[..], [Step::Apply(apply)] if apply.id.namespace.as_deref() == Some("a"))
    );
}

#[test]
fn a_copy_is_marked_before_it_is_deleted_and_loses_its_finalizer_when_the_member_reports_removal() {
    let going = || {
        let mut going = original(&[finalizer::FEDERATED]);
        going.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        going
    };
    let steps = decided(Some(&going()), vec![copy(&json!({}))], false);
    assert!(
        matches!(&steps[..], [Step::Patch { .. }, Step::Delete { .. }]),
        "{steps:?}"
    );
    let marked = json!({ "annotations": { annotation::REMOVAL: "yes" }, "deletionTimestamp": "2026-01-01T00:00:00Z" });
    assert_eq!(decided(Some(&going()), vec![copy(&marked)], false), []);
    let mut removed = copy(&marked);
    removed.status = json!({ "conditions": [{ "type": condition::REMOVED, "status": "True" }] });
    let steps = decided(Some(&going()), vec![removed], false);
    assert!(
        matches!(&steps[..], [Step::Patch { operations, .. }] if operations[0]["path"] == "/metadata/finalizers/1")
    );
    let steps = decided(Some(&going()), Vec::new(), false);
    assert!(
        matches!(&steps[..], [Step::Patch { id, .. }] if id.namespace.as_deref() == Some("default"))
    );
}

#[test]
fn a_copy_in_a_namespace_that_goes_is_released_unmarked() {
    let finalized = original(&[finalizer::FEDERATED]);
    let going = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    for is_leaving in [true, false] {
        let steps = decided(Some(&finalized), vec![copy(&going)], is_leaving);
        assert!(
            matches!(&steps[..], [Step::Patch { operations, .. }] if operations[0]["op"] == "remove"),
            "{steps:?}"
        );
    }
    let steps = decided(Some(&finalized), vec![copy(&json!({}))], true);
    assert!(matches!(&steps[..], [Step::Delete { .. }]), "{steps:?}");
}

#[test]
fn a_mirror_follows_its_copy_into_removal_only_when_that_is_meant() {
    use mirror::Decision;
    let kept = copy(&json!({ "namespace": "clusternet-system" }));
    let gone = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    assert_eq!(
        mirror::decide(&copy(&gone), Some(&kept), true),
        Decision::Unclear
    );
    let meant = json!({ "annotations": { annotation::REMOVAL: "yes" }, "deletionTimestamp": "2026-01-01T00:00:00Z" });
    assert!(
        matches!(mirror::decide(&copy(&meant), Some(&kept), true), Decision::Write(steps) if matches!(steps[..], [Step::Apply(_)]))
    );
    let marked = copy(
        &json!({ "namespace": "clusternet-system", "annotations": { annotation::REMOVAL: "yes" } }),
    );
    assert!(
        matches!(mirror::decide(&copy(&meant), Some(&marked), false), Decision::Write(steps) if matches!(steps[..], [Step::Delete { .. }]))
    );
    assert_eq!(
        mirror::decide(&copy(&meant), None, false),
        Decision::Removed
    );
    let foreign = grid(&json!({}));
    assert_eq!(
        mirror::decide(&copy(&json!({})), Some(&foreign), false),
        Decision::NameTaken
    );
}

/// A grid whose last node with the key was deleted a while ago.
fn gone_for(seconds: u64) -> VanishedUnit {
    VanishedUnit {
        lost_label: false,
        elapsed: Duration::from_secs(seconds),
        since: NOW,
    }
}

#[test]
fn a_members_grid_without_nodes_goes_after_the_grace_and_not_with_claims() {
    let kept = copy(&json!({ "namespace": "clusternet-system" }));
    let old = json!({ "annotations": { annotation::UNIT_GONE_SINCE: "2020-01-01T00:00:00Z" },
        "managedFields": [{ "manager": "edgegrid-member", "operation": "Apply" }] });
    let local = grid(&old);
    let decided = |vanished: VanishedUnit, sets: &[&str]| {
        let world = member_grid::World {
            local: Some(&local),
            vanished: Some(vanished),
            sets_with_claims: sets.iter().map(|set| (*set).to_owned()).collect(),
            namespace_exists: None,
            creates_namespaces: true,
            grace: Duration::from_mins(5),
        };
        member_grid::decide(&kept, &world)
    };
    let steps = |decision: &member_grid::Decision| decision.plan.clone().into_steps();
    let early = decided(gone_for(299), &[]);
    assert_eq!(early.plan.recheck, Some(Duration::from_secs(1)));
    assert!(
        matches!(&steps(&early)[..], [Step::Apply(mark)] if mark.body.value()["metadata"]["annotations"][annotation::UNIT_GONE_SINCE] == json!(NOW.to_string()))
    );
    let lost = VanishedUnit {
        lost_label: true,
        ..gone_for(0)
    };
    for over in [gone_for(300), lost] {
        let goes = decided(over, &[]);
        assert!(
            matches!(&steps(&goes)[..], [Step::Delete { .. }]),
            "{goes:?}"
        );
        let waits = decided(over, &["web-a"]);
        assert!(
            matches!(&steps(&waits)[..], [Step::Apply(_)]),
            "only the mark: {waits:?}"
        );
        let problem = waits.problem.unwrap();
        assert_eq!(problem.reason, reason::CLAIMS_WOULD_GO);
        assert!(problem.message.contains("web-a"), "{}", problem.message);
    }
}

#[test]
fn a_members_grid_needs_units_a_namespace_and_a_free_name() {
    let kept = copy(&json!({ "namespace": "clusternet-system" }));
    let mut world = member_grid::World {
        local: None,
        vanished: Some(gone_for(0)),
        sets_with_claims: BTreeSet::new(),
        namespace_exists: None,
        creates_namespaces: true,
        grace: Duration::from_mins(5),
    };
    assert_eq!(
        member_grid::decide(&kept, &world),
        member_grid::Decision::default()
    );
    world.vanished = None;
    assert!(member_grid::decide(&kept, &world).needs_namespace_check);
    world.namespace_exists = Some(false);
    let steps = &member_grid::decide(&kept, &world).plan.steps[&Scope::Grid];
    assert!(matches!(&steps[..], [Step::Create { .. }, Step::Apply(_)]));
    world.creates_namespaces = false;
    let problem = member_grid::decide(&kept, &world).problem.unwrap();
    assert_eq!(problem.reason, reason::NAMESPACE_MISSING);
    let foreign = grid(&json!({}));
    world.local = Some(&foreign);
    let decision = member_grid::decide(&kept, &world);
    assert_eq!(decision.problem.unwrap().reason, reason::NAME_TAKEN);
    assert!(decision.plan.steps.is_empty());
}

#[test]
fn a_report_waits_until_the_status_is_about_what_the_copy_says() {
    let kept = copy(&json!({ "namespace": "clusternet-system" }));
    let digest = member_grid::render_grid(&kept).digest;
    let mut own = grid(&json!({ "annotations": { annotation::APPLIED: digest }, "generation": 3 }));
    own.status = json!({ "observedGeneration": 2, "states": { "zone1": {} } });
    let told =
        |own: &GridObject| report::status(&copy(&json!({})), Some(&kept), &Standing::Has(own), NOW);
    assert_eq!(told(&own), None);
    own.status["observedGeneration"] = json!(3);
    let status = told(&own).unwrap();
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["states"], json!({ "zone1": {} }));
    own.metadata.annotations = None;
    assert_eq!(told(&own), None, "somebody else's spec");
}

#[test]
fn a_status_counts_all_clusters_and_lists_members_out_of_contact_first() {
    let metadata = original(&[]).metadata;
    let about = About {
        metadata: &metadata,
        earlier: &[],
        now: NOW,
    };
    let told = |cluster: &str, away_since| Report {
        cluster: cluster.into(),
        generation: Some(1),
        status: super::status::read(&json!({
            "observedGeneration": 1, "units": 2, "readyUnits": 1, "states": { "x": {}, cluster: {} },
            "failingUnits": [{ "unit": "x", "reason": "Refused", "message": "no" }],
        })),
        away_since,
        problem: None,
    };
    let mut late = told("b", None);
    late.status.observed_generation = Some(0);
    let reports = [told("a", None), late, told("c", Some(NOW))];
    let mut status = Status {
        units: Some(1),
        ready_units: Some(1),
        ..Status::default()
    };
    super::status::merge(&mut status, about, &reports, 0);
    assert_eq!(status.ready.as_deref(), Some("4/7"));
    let units: Vec<_> = status.states.keys().map(String::as_str).collect();
    assert_eq!(units, ["a", "a/x", "b", "b/x", "c", "c/x"]);
    let members = status.members.unwrap();
    assert_eq!((members.total, members.in_step), (3, 1));
    let behind: Vec<_> = members
        .behind
        .iter()
        .map(|one| (one.cluster.as_str(), one.reason.as_str()))
        .collect();
    assert_eq!(
        behind,
        [("c", reason::OUT_OF_CONTACT), ("b", reason::NOT_REPORTED)]
    );
    assert_eq!(status.failing_units[0].unit, "a/x");
}

#[test]
fn nodes_that_keep_pods_in_members_are_told_of_by_cluster() {
    let metadata = original(&[]).metadata;
    let about = About {
        metadata: &metadata,
        earlier: &[],
        now: NOW,
    };
    let told = |cluster: &str, conditions: Value| Report {
        cluster: cluster.into(),
        generation: Some(1),
        status: super::status::read(&json!({ "observedGeneration": 1, "conditions": conditions })),
        away_since: None,
        problem: None,
    };
    let cut = json!([{ "type": condition::NODE_UNREACHABLE, "status": "True", "reason": reason::NODE_UNREACHABLE, "message": "units x", "lastTransitionTime": NOW.to_string() }]);
    let merged = |reports: &[Report]| {
        let mut status = Status::default();
        super::status::merge(&mut status, about, reports, 0);
        let mut conditions = status.conditions.into_iter();
        let found = conditions.find(|found| found.type_ == condition::NODE_UNREACHABLE);
        found.map(|found| found.message)
    };
    let reports = [told("a", json!([])), told("b", cut.clone()), told("c", cut)];
    assert_eq!(
        merged(&reports).as_deref(),
        Some("in clusters b, c; b: units x")
    );
    assert_eq!(merged(&reports[..1]), None);
}

#[test]
fn states_that_do_not_fit_are_left_out_and_counted() {
    let metadata = original(&[]).metadata;
    let about = About {
        metadata: &metadata,
        earlier: &[],
        now: NOW,
    };
    let states: serde_json::Map<String, Value> = (0..4000)
        .map(|n| (format!("unit-{n}"), json!({ "text": "x".repeat(300) })))
        .collect();
    let report = Report {
        cluster: "a".into(),
        generation: Some(1),
        status: super::status::read(
            &json!({ "states": states, "failingUnits": [{ "unit": "unit-3999", "reason": "R", "message": "m" }] }),
        ),
        away_since: None,
        problem: None,
    };
    let mut whole = Status::default();
    super::status::merge(&mut whole, about, &[report], 1000);
    assert!(crate::grid_status::bytes(&whole) < crate::grid_status::OBJECT_MAX + 1000);
    assert!(whole.states.contains_key("unit-3999") && whole.states.len() < 4000);
    assert!(
        whole
            .conditions
            .iter()
            .any(|found| found.type_ == condition::STATES_TRUNCATED)
    );
}

#[test]
fn members_are_called_by_their_name_unless_two_have_it() {
    let namespace = |name: &str, called: Option<&str>| -> ObjectMeta {
        serde_json::from_value(json!({ "name": name, "labels": called.map(|called| BTreeMap::from([(label::CLUSTER_NAME, called)])) })).unwrap()
    };
    let all = [
        namespace("n1", Some("shop")),
        namespace("n2", Some("twin")),
        namespace("n3", Some("twin")),
        namespace("n4", None),
    ];
    let found = clusters(&all);
    let names: Vec<_> = found
        .values()
        .map(|member| member.cluster.as_str())
        .collect();
    assert_eq!(names, ["shop", "n2", "n3", "n4"]);
}

#[test]
fn a_second_name_is_legal_and_another_for_another_namespace() {
    let long = "x".repeat(253);
    let name = second_name(&("a".into(), long.clone()));
    assert!(name.len() <= 253 && name != second_name(&("b".into(), long)));
}

#[test]
fn a_copy_is_ours_by_its_origin_or_superedges_by_its_owner_and_else_somebody_elses() {
    let labels = json!({ label::DISTRIBUTED: "yes", label::TARGET_NAMESPACE: "default" });
    let at = Some(("default".to_owned(), "web".to_owned()));
    assert_eq!(stands_for(&copy(&json!({})).metadata), at);
    assert_eq!(
        stands_for(&copy(&json!({ "labels": labels })).metadata),
        None
    );
    let owner = json!([{ "apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "name": "web", "uid": "u", "controller": true }]);
    let superedges = copy(&json!({ "labels": labels, "ownerReferences": owner }));
    assert_eq!(stands_for(&superedges.metadata), at);
}
