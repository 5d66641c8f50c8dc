//! A state that SuperEdge's site-manager left: what it wrote is ours from now on.

use edgegrid_plan::ObjectKind::{Node, NodeGroup, NodeUnit};
use edgegrid_plan::{membership::NodeUnits, node, node_unit};
use edgegrid_testkit::objects::Name;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::model::{Model, NOW, name_of};

const SITE_MANAGER: &str = "site-manager";
const MARK: &str = "nodeunits.superedge.io";

/// Unit `beijing` by selector in group `location` over a1 and a2, and a3 that left the selector
/// (SuperEdge never cleans such nodes); all as site-manager's PUTs leave it.
fn superedge() -> Model {
    let mut model = Model::default();
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("a3", "elsewhere")] {
        model.node(name, &json!({ "zone": zone }));
        write(&mut model, &Name::node(name), |node| {
            node["metadata"]["labels"]["beijing"] = json!(MARK);
            node["metadata"]["labels"]["location"] = json!("beijing");
            node["metadata"]["annotations"] = json!({ "set": "1" });
            node["spec"]["taints"] = json!([{ "key": "edge", "effect": "NoSchedule" }]);
        });
    }
    let taint = json!({ "key": "edge", "effect": "NoSchedule" });
    let set_node = json!({ "annotations": { "set": "1" }, "taints": [taint] });
    model.unit(
        "beijing",
        &json!({ "selector": { "matchLabels": { "zone": "a" } }, "setNode": set_node }),
    );
    model.group("location", &json!({ "nodeUnits": ["beijing"] }));
    write(&mut model, &name_of(NodeUnit, "beijing"), |unit| {
        unit["metadata"]["finalizers"] = json!(["site.superedge.io/nodeunit"]);
        unit["metadata"]["labels"] = json!({ "location": "nodegroups.superedge.io" });
        unit["spec"]["setNode"]["labels"] = json!({ "beijing": MARK, "location": "beijing" });
    });
    write(&mut model, &name_of(NodeGroup, "location"), |group| {
        group["metadata"]["finalizers"] = json!(["site.superedge.io/finalizer"]);
    });
    model
}

fn write(model: &mut Model, name: &Name, change: impl FnOnce(&mut Value)) {
    model.objects.update(name, SITE_MANAGER, change).unwrap();
}

fn managers(model: &Model, name: &Name) -> Vec<String> {
    let entries = model.objects.get(name).unwrap()["metadata"]["managedFields"].clone();
    let entries = entries.as_array().unwrap().clone();
    entries
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn members_keep_what_they_have_and_site_manager_owns_nothing_any_more() {
    let mut model = superedge();
    let before = model.labels("a1");
    let steps = model.steps();
    let about_a1: Vec<_> = steps.iter().filter(|step| step.id().name == "a1").collect();
    assert_eq!(about_a1.len(), 1, "one write per node: {about_a1:#?}");
    model.settle();
    assert_eq!(model.labels("a1"), before);
    for name in [Name::node("a1"), name_of(NodeUnit, "beijing")] {
        let managers = managers(&model, &name);
        assert!(
            !managers.iter().any(|one| one == SITE_MANAGER),
            "{managers:?}"
        );
    }
}

// Labels that SuperEdge forgot to remove, as they are found on a cluster that ran it.
#[test]
fn what_superedge_left_on_a_node_that_is_in_no_unit_goes() {
    let mut model = superedge();
    model.settle();
    let node = model.stored(Node, "a3").unwrap();
    assert_eq!(node["metadata"]["labels"], json!({ "zone": "elsewhere" }));
    assert_eq!(node["metadata"]["annotations"], Value::Null);
    // Which of the taints were site-manager's nobody can tell, so they stay.
    assert_eq!(
        node["spec"]["taints"],
        json!([{ "key": "edge", "effect": "NoSchedule" }])
    );
}

#[test]
fn a_later_removal_works() {
    let mut model = superedge();
    model.settle();
    model.label("a1", "zone", "elsewhere");
    model.settle();
    let node = model.stored(Node, "a1").unwrap();
    assert_eq!(node["metadata"]["labels"], json!({ "zone": "elsewhere" }));
    assert_eq!(
        (&node["metadata"]["annotations"], &node["spec"]),
        (&Value::Null, &json!({}))
    );
    model.delete(NodeGroup, "location");
    model.settle();
    assert!(model.groups().is_empty());
    let unit = model.stored(NodeUnit, "beijing").unwrap();
    assert_eq!(unit["metadata"]["labels"], Value::Null);
    assert_eq!(
        unit["spec"]["setNode"]["labels"],
        json!({ "beijing": MARK })
    );
    model.delete(NodeUnit, "beijing");
    model.settle();
    assert!(model.units().is_empty());
    assert_eq!(model.labels("a2"), json!({ "zone": "a" }));
}

#[test]
fn a_units_taint_passes_to_us_whoever_wrote_the_list_last() {
    let mut model = superedge();
    let fan = json!({ "key": "fan", "effect": "NoSchedule" });
    let foreign = |node: &mut Value| {
        let taints = node["spec"]["taints"].as_array_mut().unwrap();
        taints.push(fan.clone());
    };
    let a1 = Name::node("a1");
    model.objects.update(&a1, "kubectl", foreign).unwrap();
    model.settle();
    model.label("a1", "zone", "elsewhere");
    model.settle();
    let node = model.stored(Node, "a1").unwrap();
    assert_eq!(node["spec"]["taints"], json!([fan]));
}

#[test]
fn labels_of_a_units_own_k3s_are_left_alone() {
    let mut model = superedge();
    write(&mut model, &Name::node("a1"), |node| {
        node["metadata"]["labels"]["site.superedge.io/kins-role"] = json!("server");
    });
    model.settle();
    assert_eq!(model.labels("a1")["site.superedge.io/kins-role"], "server");
    assert!(
        managers(&model, &Name::node("a1"))
            .iter()
            .any(|one| one == SITE_MANAGER)
    );
}

#[test]
fn a_unit_found_by_superedge_becomes_one_of_ours() {
    let mut model = Model::default();
    model.node("a1", &json!({ "zone": "a" }));
    model.group("g", &json!({ "autoFindNodeKeys": ["zone"] }));
    let body = json!({
        "metadata": {
            "labels": {
                "g": "nodegroups.superedge.io",
                "site.superedge.io/node-group-auto-keys-hash": "89e495e7941cf9e40e6980d14a16bf023ccd4c91",
            },
            "annotations": { "zone": "a" },
        },
        "spec": {
            "type": "unit-node-edge",
            "selector": { "matchLabels": { "zone": "a" } },
            "setNode": { "labels": { "a": MARK, "g": "a" } },
        },
    });
    model
        .objects
        .create(&name_of(NodeUnit, "a"), &body, SITE_MANAGER)
        .unwrap();
    model.settle();
    assert_eq!(model.units().len(), 1);
    assert_eq!(model.stored(NodeUnit, "a").unwrap()["spec"]["type"], "edge");
    assert_eq!(
        model.labels("a1"),
        json!({ "zone": "a", "a": MARK, "g": "a" })
    );
    model.delete(NodeGroup, "g");
    model.settle();
    assert!(model.units().is_empty());
    assert_eq!(model.labels("a1"), json!({ "zone": "a" }));
}

#[test]
fn a_unit_that_superedge_left_without_its_group_stays() {
    let mut model = Model::default();
    let body = json!({
        "metadata": { "labels": { "site.superedge.io/node-group-auto-keys-hash": "x" } },
        "spec": { "selector": { "matchLabels": { "zone": "a" } } },
    });
    model
        .objects
        .create(&name_of(NodeUnit, "a"), &body, SITE_MANAGER)
        .unwrap();
    model.settle();
    assert_eq!(model.units().len(), 1);
}

#[test]
fn while_site_manager_still_writes_nothing_is_written_and_a_warning_says_why() {
    let model = superedge();
    let (nodes, node_units) = (
        model.nodes(),
        NodeUnits::new(&model.units(), &model.groups()),
    );
    let moment = "2026-01-01T00:00:30Z".parse::<Timestamp>().unwrap();
    let plan = node::plan(&nodes[0], &node_units, moment);
    assert!(plan.is_empty());
    assert_eq!(plan.recheck, Some(std::time::Duration::from_secs(90)));
    assert_eq!(plan.notices[0].reason, "SuperEdgeRunning");
    let failures = std::collections::BTreeMap::new();
    let world = node_unit::World {
        nodes: &nodes,
        node_units: &node_units,
        failures: &failures,
    };
    let planner = node_unit::Planner::new("beijing", world).unwrap();
    assert!(planner.plan(moment).is_empty());
    let degraded = |now| {
        let conditions = planner.status(now).conditions;
        conditions
            .into_iter()
            .find(|one| one.type_ == "Degraded")
            .unwrap()
            .reason
    };
    assert_eq!(degraded(moment), "SuperEdgeRunning");
    assert_eq!(degraded(NOW), "AsWanted");
}
