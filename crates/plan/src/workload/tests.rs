//! What is applied to a unit's workload.

use edgegrid_api::names::reason;
use edgegrid_api::{DeploymentGrid, StatefulSetGrid};

use super::*;

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);
const LATER: Timestamp = Timestamp::constant(1_767_229_200, 0);

fn template() -> Value {
    json!({
        "replicas": 3,
        "selector": { "matchLabels": { "app": "web" } },
        "template": {
            "metadata": { "creationTimestamp": null, "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "image": "web:1" }], "nodeSelector": { "disk": "ssd" } },
        },
    })
}

fn object(template: &Value) -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "g", "labels": { "team": "x" } },
        "spec": { "gridUniqKey": "zone", "template": template },
    })
}

fn grid(template: &Value) -> Grid {
    let grid: DeploymentGrid = serde_json::from_value(object(template)).unwrap();
    Grid::from(&grid)
}

fn rendered(
    grid: &Grid,
    unit: &str,
    child: Option<&Value>,
    now: Timestamp,
) -> Result<DesiredWorkload, Problem> {
    let child: Option<Child> = child.map(|child| serde_json::from_value(child.clone()).unwrap());
    let template = grid.templates.chosen(unit).unwrap();
    let label = UnitLabel {
        key: "zone",
        value: unit,
    };
    render(grid, label, template, child.as_ref(), now)
}

/// The workload as it is after `body` was applied.
fn stored(body: &Value) -> Value {
    let mut child = body.clone();
    child["metadata"]["name"] = json!("web-a");
    child["metadata"]["uid"] = json!("c");
    child
}

#[test]
fn a_new_workload_is_told_apart_by_its_unit() {
    let wanted = rendered(&grid(&template()), "a", None, NOW).unwrap();
    let spec = &wanted.body["spec"];
    let labels = json!({ "app": "web", label::UNIT: "a" });
    assert_eq!(spec["selector"]["matchLabels"], labels);
    assert_eq!(
        spec["template"]["metadata"],
        json!({ "labels": labels }),
        "and nulls are left out"
    );
    assert_eq!(
        spec["template"]["spec"]["nodeSelector"],
        json!({ "disk": "ssd", "zone": "a" })
    );
    assert_eq!(spec["replicas"], 3);
    let metadata = &wanted.body["metadata"];
    assert_eq!(
        metadata["labels"],
        json!({ "team": "x", label::GRID_SELECTOR: "web", label::GRID_UNIQ_KEY: "zone", label::UNIT: "a" })
    );
    assert_eq!(metadata["annotations"][annotation::APPLIED], wanted.applied);
    assert!(
        metadata["annotations"]
            .get(annotation::CHANGED_AT)
            .is_none(),
        "it was made, not changed"
    );
    assert_eq!(metadata["ownerReferences"][0]["uid"], "g");
}

/// One unit's value must never reach another's.
#[test]
fn units_share_nothing() {
    let grid = grid(&template());
    let (a, b) = (
        rendered(&grid, "a", None, NOW).unwrap(),
        rendered(&grid, "b", None, NOW).unwrap(),
    );
    assert_ne!(a.template_hash, b.template_hash);
    assert_eq!(
        b.body["spec"]["template"]["spec"]["nodeSelector"]["zone"],
        "b"
    );
    assert_eq!(
        grid.templates.default.unwrap().spec["template"]["spec"]["nodeSelector"],
        json!({ "disk": "ssd" })
    );
}

#[test]
fn an_existing_selector_is_kept_with_the_pod_labels_that_go_with_it() {
    let grid = grid(&template());
    let superedges = json!({ "metadata": {}, "spec": {
        "selector": { "matchLabels": { "app": "web" }, "matchExpressions": [] },
        "template": { "metadata": { "labels": { "app": "web", label::TEMPLATE_HASH_KEY: "42" } } },
    } });
    let kept = rendered(&grid, "a", Some(&superedges), NOW).unwrap();
    assert_eq!(
        kept.body["spec"]["selector"],
        json!({ "matchLabels": { "app": "web" } })
    );
    let labels = json!({ "app": "web", label::TEMPLATE_HASH_KEY: "42" });
    assert_eq!(kept.body["spec"]["template"]["metadata"]["labels"], labels);
    let ours = stored(&rendered(&grid, "a", None, NOW).unwrap().body);
    let again = rendered(&grid, "a", Some(&ours), LATER).unwrap();
    assert_eq!(
        again.body,
        rendered(&grid, "a", None, NOW).unwrap().body,
        "nothing to do"
    );
}

#[test]
fn another_selector_is_immutable() {
    let other =
        json!({ "metadata": {}, "spec": { "selector": { "matchLabels": { "app": "other" } } } });
    let problem = rendered(&grid(&template()), "a", Some(&other), NOW).unwrap_err();
    assert_eq!(problem.reason, reason::IMMUTABLE);
    assert!(
        problem.message.contains("spec.selector"),
        "{}",
        problem.message
    );
}

#[test]
fn what_a_stateful_set_may_not_change_is_immutable() {
    let mut template = template();
    template["serviceName"] = json!("web-svc");
    template["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" } }]);
    let grid: StatefulSetGrid = serde_json::from_value(object(&template)).unwrap();
    let grid = Grid::from(&grid);
    let ours = stored(&rendered(&grid, "a", None, NOW).unwrap().body);
    assert!(rendered(&grid, "a", Some(&ours), NOW).is_ok());
    for (field, value) in [
        ("serviceName", json!("other")),
        ("volumeClaimTemplates", json!([])),
    ] {
        let mut live = ours.clone();
        live["spec"][field] = value;
        let problem = rendered(&grid, "a", Some(&live), NOW).unwrap_err();
        assert!(problem.message.contains(field), "{}", problem.message);
    }
}

#[test]
fn the_moment_of_a_change_is_kept_until_the_next() {
    let first = stored(&rendered(&grid(&template()), "a", None, NOW).unwrap().body);
    let mut other = template();
    other["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    let changed = rendered(&grid(&other), "a", Some(&first), NOW).unwrap();
    let moment = |wanted: &DesiredWorkload| {
        wanted.body["metadata"]["annotations"][annotation::CHANGED_AT].clone()
    };
    assert_eq!(moment(&changed), json!(NOW.to_string()));
    let again = rendered(&grid(&other), "a", Some(&stored(&changed.body)), LATER).unwrap();
    assert_eq!(moment(&again), json!(NOW.to_string()));
    assert_eq!(
        again.applied, changed.applied,
        "the moment is no difference"
    );
}

#[test]
fn replicas_are_no_change_of_the_template() {
    let mut scaled = template();
    scaled["replicas"] = json!(9);
    let (one, other) = (
        rendered(&grid(&template()), "a", None, NOW).unwrap(),
        rendered(&grid(&scaled), "a", None, NOW).unwrap(),
    );
    assert_eq!(one.template_hash, other.template_hash);
    assert_ne!(one.applied, other.applied);
}

/// Whoever scales keeps the number when the template stops naming it.
#[test]
fn replicas_that_we_own_are_handed_over_at_their_live_number() {
    let mut without = template();
    without.as_object_mut().unwrap().remove("replicas");
    let (with, without) = (Template::new(&template()), Template::new(&without));
    let child = |fields: Value| -> Child {
        serde_json::from_value(json!({
            "metadata": { "managedFields": [{ "manager": "edgegrid", "operation": "Apply", "fieldsV1": fields }] },
            "spec": { "replicas": 10 },
        }))
        .unwrap()
    };
    let owner = child(json!({ "f:spec": { "f:replicas": {} } }));
    let stranger = child(json!({ "f:spec": { "f:selector": {} } }));
    assert_eq!(
        replicas_to_hand_over(&without, &owner),
        Some(json!({ "spec": { "replicas": 10 } }))
    );
    assert_eq!(
        replicas_to_hand_over(&with, &owner),
        None,
        "we still name it"
    );
    assert_eq!(
        replicas_to_hand_over(&without, &stranger),
        None,
        "it is somebody else's already"
    );
}

/// A DeploymentGrid and a StatefulSetGrid with the same template.
fn both_kinds(change: impl Fn(&mut Value)) -> [Grid; 2] {
    let mut object = object(&template());
    change(&mut object["spec"]);
    let deployments: DeploymentGrid = serde_json::from_value(object.clone()).unwrap();
    let stateful_sets: StatefulSetGrid = serde_json::from_value(object).unwrap();
    [Grid::from(&deployments), Grid::from(&stateful_sets)]
}

/// The hashes were noted before there was such a field: no workload is written anew, no pod restarts.
#[test]
fn a_grid_without_when_unreachable_renders_what_it_always_did() {
    const DEPLOYMENT: &str = "0db9b06ef8e5afa7bed6296409cff93df0d65dfc8360901f591db5554dd4bd53";
    const STATEFUL_SET: &str = "e028fd8a88cf4efc1228d9d6c2e79fe49b636a4a9a4752bba2f8c1399bcca3f1";
    const TEMPLATE: &str = "c692d228522b6505fe9e7f8192db6a52769d0b754fd304c9b0c696d4b50a6ae2";
    let now = both_kinds(|_| {}).map(|grid| rendered(&grid, "a", None, NOW).unwrap());
    assert_eq!(
        now.each_ref().map(|now| now.applied.as_str()),
        [DEPLOYMENT, STATEFUL_SET]
    );
    assert_eq!(now.map(|now| now.template_hash), [TEMPLATE; 2]);
}

#[test]
fn when_unreachable_changes_the_tolerations_and_with_them_the_template_but_nothing_else() {
    let as_written = both_kinds(|_| {}).map(|grid| rendered(&grid, "a", None, NOW).unwrap());
    let kept = both_kinds(|spec| spec["whenUnreachable"] = json!("Keep"));
    for (grid, before) in kept.iter().zip(as_written) {
        let mut after = rendered(grid, "a", None, NOW).unwrap();
        assert_ne!(
            after.template_hash, before.template_hash,
            "the rollout counts it"
        );
        let pod = &mut after.body["spec"]["template"]["spec"];
        let tolerations = pod.as_object_mut().unwrap().remove("tolerations");
        let forever = json!([{ "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute" }]);
        assert_eq!(tolerations, Some(forever));
        assert_eq!(after.body["spec"], before.body["spec"]);
    }
    for unchanged in ["Evict", "a value of a newer definition"] {
        for grid in both_kinds(|spec| spec["whenUnreachable"] = json!(unchanged)) {
            let spec = rendered(&grid, "a", None, NOW).unwrap().body["spec"].clone();
            assert!(
                spec["template"]["spec"]["tolerations"].is_null(),
                "{spec:#}"
            );
        }
    }
}

#[test]
fn templates_of_the_pool_keep_pods_too() {
    let [grid, _] = both_kinds(|spec| {
        spec["whenUnreachable"] = json!("Keep");
        spec["templatePool"] = json!({ "canary": template() });
        spec["templates"] = json!({ "b": "canary" });
    });
    for unit in ["a", "b"] {
        let wanted = rendered(&grid, unit, None, NOW).unwrap();
        let tolerations = &wanted.body["spec"]["template"]["spec"]["tolerations"];
        assert_eq!(
            tolerations[0]["key"], "node.kubernetes.io/unreachable",
            "{unit}"
        );
    }
}
