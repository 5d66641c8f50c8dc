//! Rules of NodeUnit and NodeGroup, one per test.

use edgegrid_plan::ObjectKind::{NodeGroup, NodeUnit};
use serde_json::{Value, json};

use crate::model::{Model, USER, name_of};

const MARK: &str = "nodeunits.superedge.io";

/// Two nodes of zone a and one of zone b.
fn three_nodes() -> Model {
    let mut model = Model::default();
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        model.node(name, &json!({ "zone": zone }));
    }
    model
}

fn by_zone(zone: &str) -> Value {
    json!({ "selector": { "matchLabels": { "zone": zone } } })
}

#[test]
fn members_are_named_or_selected_and_carry_the_marker() {
    let mut model = three_nodes();
    let mut spec = by_zone("a");
    spec["nodes"] = json!(["b1", "ghost"]);
    model.unit("u", &spec);
    model.unit("nobody", &json!({ "selector": {} }));
    model.settle();
    for (node, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        assert_eq!(model.labels(node), json!({ "zone": zone, "u": MARK }));
    }
    let status = model.status("u");
    assert_eq!(status.ready_rate.as_deref(), Some("0/3"));
    let missing = status
        .conditions
        .iter()
        .find(|one| one.type_ == "NodesMissing");
    assert_eq!(missing.unwrap().message, "no such nodes: ghost");
}

#[test]
fn a_unit_shows_its_marker_and_its_groups_labels() {
    let mut model = three_nodes();
    model.unit("beijing", &json!({ "nodes": ["a1"] }));
    model.group("location", &json!({ "nodeUnits": ["beijing"] }));
    model.settle();
    let unit = model.stored(NodeUnit, "beijing").unwrap();
    assert_eq!(
        unit["spec"]["setNode"]["labels"],
        json!({ "beijing": MARK, "location": "beijing" })
    );
    assert_eq!(
        unit["metadata"]["labels"],
        json!({ "location": "nodegroups.superedge.io" })
    );
    assert_eq!(
        unit["metadata"]["finalizers"],
        json!(["site.superedge.io/nodeunit"])
    );
    assert_eq!(
        model.labels("a1"),
        json!({ "zone": "a", "beijing": MARK, "location": "beijing" })
    );
}

// In SuperEdge units by selector never removed anything.
#[test]
fn a_node_that_leaves_a_selector_loses_all_that_the_unit_gave_it() {
    let mut model = three_nodes();
    let mut spec = by_zone("a");
    spec["unschedulable"] = json!(true);
    spec["setNode"] = json!({
        "labels": { "x": "1" }, "annotations": { "n": "1" },
        "taints": [{ "key": "edge", "value": "1", "effect": "NoSchedule" }],
    });
    model.unit("u", &spec);
    let before = model.objects.seen();
    model.settle();
    let node = model.stored(edgegrid_plan::ObjectKind::Node, "a1").unwrap();
    assert_eq!(
        node["spec"],
        json!({ "unschedulable": true, "taints": [{ "key": "edge", "value": "1", "effect": "NoSchedule" }] })
    );
    assert_eq!(node["metadata"]["annotations"]["n"], "1");
    model.label("a1", "zone", "c");
    model.settle();
    let node = model.stored(edgegrid_plan::ObjectKind::Node, "a1").unwrap();
    assert_eq!(node["metadata"]["labels"], json!({ "zone": "c" }));
    assert_eq!(node["metadata"]["annotations"], Value::Null);
    assert_eq!(node["spec"], json!({}));
    // And so when the unit goes.
    model.label("a1", "zone", "a");
    model.settle();
    model.delete(NodeUnit, "u");
    model.settle();
    assert!(model.stored(NodeUnit, "u").is_none());
    let mut after = model.objects.seen();
    after.insert(
        name_of(NodeUnit, "u"),
        before[&name_of(NodeUnit, "u")].clone(),
    );
    assert_eq!(after, before);
}

#[test]
fn what_vanishes_from_set_node_vanishes_from_the_nodes() {
    let mut model = three_nodes();
    let spec = |set_node: Value| json!({ "nodes": ["a1"], "setNode": set_node });
    let taint = |value: &str| json!({ "key": "t", "value": value, "effect": "NoExecute" });
    model.unit(
        "u",
        &spec(json!({ "labels": { "x": "1", "y": "1" }, "taints": [taint("1")] })),
    );
    model.settle();
    model.unit(
        "u",
        &spec(json!({ "labels": { "x": "2" }, "taints": [taint("2")] })),
    );
    model.settle();
    assert_eq!(
        model.labels("a1"),
        json!({ "zone": "a", "u": MARK, "x": "2" })
    );
    let node = model.stored(edgegrid_plan::ObjectKind::Node, "a1").unwrap();
    assert_eq!(node["spec"]["taints"], json!([taint("2")]));
    model.unit("u", &spec(json!({})));
    model.settle();
    assert_eq!(model.labels("a1"), json!({ "zone": "a", "u": MARK }));
    assert_eq!(
        model.stored(edgegrid_plan::ObjectKind::Node, "a1").unwrap()["spec"],
        json!({})
    );
}

// In SuperEdge removal by key took what others had set.
#[test]
fn a_label_with_a_foreign_value_and_foreign_taints_survive_the_unit() {
    let mut model = three_nodes();
    let foreign = json!({ "key": "t", "value": "theirs", "effect": "NoExecute" });
    let ours = json!({ "key": "t", "value": "ours", "effect": "NoSchedule" });
    model.edit_node("a1", |node| node["spec"]["taints"] = json!([foreign]));
    model.unit(
        "u",
        &json!({ "nodes": ["a1"], "setNode": { "labels": { "x": "1" }, "taints": [ours] } }),
    );
    model.settle();
    assert_eq!(
        model.stored(edgegrid_plan::ObjectKind::Node, "a1").unwrap()["spec"]["taints"],
        json!([foreign, ours])
    );
    // The unit goes in the moment in which somebody gives the label another value.
    model.label("a1", "x", "theirs");
    model.delete(NodeUnit, "u");
    model.settle();
    assert_eq!(model.labels("a1"), json!({ "zone": "a", "x": "theirs" }));
    assert_eq!(
        model.stored(edgegrid_plan::ObjectKind::Node, "a1").unwrap()["spec"]["taints"],
        json!([foreign])
    );
}

// Between two units, too: the label stays while one of them wants it.
#[test]
fn a_label_that_two_units_want_stays_until_both_are_gone() {
    let mut model = three_nodes();
    let spec = json!({ "nodes": ["a1"], "setNode": { "labels": { "x": "1" } } });
    model.unit("u", &spec);
    model.unit("v", &spec);
    model.settle();
    model.delete(NodeUnit, "u");
    model.settle();
    assert_eq!(
        model.labels("a1"),
        json!({ "zone": "a", "v": MARK, "x": "1" })
    );
    model.delete(NodeUnit, "v");
    model.settle();
    assert_eq!(model.labels("a1"), json!({ "zone": "a" }));
}

#[test]
fn drift_is_put_back() {
    let mut model = three_nodes();
    let taint = json!({ "key": "t", "effect": "NoSchedule" });
    model.unit(
        "u",
        &json!({ "nodes": ["a1"], "unschedulable": true, "setNode": { "taints": [taint] } }),
    );
    model.settle();
    let wanted = model.objects.seen();
    for spoil in [
        |node: &mut Value| node["metadata"]["labels"]["u"] = Value::Null,
        |node: &mut Value| node["metadata"]["labels"]["u"] = json!("other"),
        |node: &mut Value| node["spec"]["taints"] = Value::Null,
        |node: &mut Value| node["spec"]["unschedulable"] = Value::Null,
        |node: &mut Value| node["spec"] = json!({}),
    ] {
        model.edit_node("a1", spoil);
        assert_ne!(model.objects.seen(), wanted);
        model.settle();
        assert_eq!(model.objects.seen(), wanted);
    }
}

#[test]
fn a_cordon_is_undone_only_if_it_is_ours() {
    let mut model = three_nodes();
    model.edit_node("a1", |node| node["spec"]["unschedulable"] = json!(true));
    model.unit(
        "u",
        &json!({ "nodes": ["a1", "a2"], "unschedulable": true }),
    );
    model.settle();
    model.unit("u", &json!({ "nodes": ["a1", "a2"] }));
    model.settle();
    let cordoned = |name: &str| {
        model.stored(edgegrid_plan::ObjectKind::Node, name).unwrap()["spec"]["unschedulable"]
            .clone()
    };
    assert_eq!(
        cordoned("a1"),
        json!(true),
        "somebody else cordoned it before"
    );
    assert_eq!(cordoned("a2"), Value::Null);
}

// In SuperEdge two units of one group fought over a shared node for ever.
#[test]
fn of_two_node_units_that_differ_the_older_wins_and_the_younger_reports_it() {
    let mut model = three_nodes();
    // Created within one second, so that the name decides; the other order of names below.
    model.unit("beijing", &json!({ "nodes": ["a1", "a2"] }));
    model.unit("shanghai", &json!({ "nodes": ["a2", "b1"] }));
    model.group("location", &json!({ "nodeUnits": ["beijing", "shanghai"] }));
    model.settle();
    assert_eq!(model.labels("a2")["location"], "beijing");
    assert_eq!(model.labels("b1")["location"], "shanghai");
    assert_eq!(model.labels("a2")["shanghai"], MARK);
    let conflict = |unit: &str| {
        let conditions = model.status(unit).conditions;
        let found = conditions.into_iter().find(|one| one.type_ == "Conflict");
        found.map(|one| one.message)
    };
    assert_eq!(conflict("beijing"), None);
    let message = conflict("shanghai").unwrap();
    for word in ["beijing", "shanghai", "a2", "location"] {
        assert!(message.contains(word), "{message}");
    }
    model.edit(&name_of(NodeUnit, "shanghai"), |unit| {
        unit["metadata"]["creationTimestamp"] = json!("2025-01-01T00:00:00Z");
    });
    model.settle();
    assert_eq!(model.labels("a2")["location"], "shanghai");
    model.delete(NodeUnit, "shanghai");
    model.settle();
    assert_eq!(model.labels("a2")["location"], "beijing");
}

#[test]
fn a_unit_may_be_in_two_groups() {
    let mut model = three_nodes();
    model.unit("u", &json!({ "nodes": ["a1"] }));
    model.edit(&name_of(NodeUnit, "u"), |unit| {
        unit["metadata"]["labels"]["tier"] = json!("1");
    });
    model.group("g", &json!({ "nodeUnits": ["u"] }));
    model.group(
        "h",
        &json!({ "selector": { "matchLabels": { "tier": "1" } } }),
    );
    model.group("all", &json!({ "selector": {} }));
    model.settle();
    assert_eq!(
        model.labels("a1"),
        json!({ "zone": "a", "u": MARK, "g": "u", "h": "u" })
    );
    model.delete(NodeGroup, "g");
    model.settle();
    assert!(model.stored(NodeGroup, "g").is_none());
    assert_eq!(
        model.labels("a1"),
        json!({ "zone": "a", "u": MARK, "h": "u" })
    );
    let unit = model.stored(NodeUnit, "u").unwrap();
    assert_eq!(
        unit["metadata"]["labels"],
        json!({ "tier": "1", "h": "nodegroups.superedge.io" })
    );
    assert_eq!(
        unit["spec"]["setNode"]["labels"],
        json!({ "u": MARK, "h": "u" })
    );
}

#[test]
fn a_manifest_replaced_as_a_whole_never_takes_labels_off_the_nodes() {
    let mut model = three_nodes();
    model.unit("u", &json!({ "nodes": ["a1"] }));
    model.group("g", &json!({ "nodeUnits": ["u"] }));
    model.settle();
    model.unit("u", &json!({ "nodes": ["a1"] }));
    assert_eq!(
        model.stored(NodeUnit, "u").unwrap()["spec"],
        json!({ "nodes": ["a1"] })
    );
    let about_nodes = model
        .steps()
        .into_iter()
        .filter(|step| step.id().kind == edgegrid_plan::ObjectKind::Node);
    assert_eq!(
        about_nodes.count(),
        0,
        "the nodes are as wanted all the while"
    );
    model.settle();
    let unit = model.stored(NodeUnit, "u").unwrap();
    assert_eq!(
        unit["spec"]["setNode"]["labels"],
        json!({ "u": MARK, "g": "u" })
    );
}

// SuperEdge overwrote the found units' labels, gave them the wrong type, never collected them, and hashed ambiguously.
#[test]
fn units_are_found_by_keys_and_go_with_their_last_node_or_the_group() {
    let mut model = three_nodes();
    model.group("g", &json!({ "autoFindNodeKeys": ["zone"] }));
    model.group("h", &json!({ "autoFindNodeKeys": ["zone"] }));
    model.settle();
    let found = model.stored(NodeUnit, "a").unwrap();
    assert_eq!(found["spec"]["type"], "edge");
    assert_eq!(
        found["spec"]["selector"],
        json!({ "matchLabels": { "zone": "a" } })
    );
    let labels = found["metadata"]["labels"].as_object().unwrap();
    let keys: Vec<&String> = labels.keys().collect();
    assert_eq!(
        keys,
        ["g", "h", "site.superedge.io/node-group-auto-keys-hash"]
    );
    assert_eq!(
        model.labels("a1"),
        json!({ "zone": "a", "a": MARK, "g": "a", "h": "a" })
    );
    // A node that moves founds the next one, the last to leave ends its own.
    model.label("b1", "zone", "c");
    model.settle();
    assert!(model.stored(NodeUnit, "b").is_none());
    assert_eq!(
        model.labels("b1"),
        json!({ "zone": "c", "c": MARK, "g": "c", "h": "c" })
    );
    model.delete(NodeGroup, "g");
    model.settle();
    assert_eq!(
        model.labels("b1"),
        json!({ "zone": "c", "c": MARK, "h": "c" })
    );
    model.delete(NodeGroup, "h");
    model.settle();
    assert!(model.units().is_empty() && model.groups().is_empty());
    assert_eq!(model.labels("b1"), json!({ "zone": "c" }));
}

#[test]
fn a_unit_that_a_person_wrote_is_never_deleted_with_a_group() {
    let mut model = three_nodes();
    model.group("g", &json!({ "autoFindNodeKeys": ["zone"] }));
    model.settle();
    let mut copy = model.stored(NodeUnit, "a").unwrap().clone();
    copy["metadata"] = json!({ "labels": copy["metadata"]["labels"] });
    model
        .objects
        .create(&name_of(NodeUnit, "copy"), &copy, USER)
        .unwrap();
    model.settle();
    model.delete(NodeGroup, "g");
    model.settle();
    let left: Vec<_> = model
        .units()
        .iter()
        .filter_map(|unit| unit.metadata.name.clone())
        .collect();
    // While its group was there, the copy was as good as found; its author is still its author.
    assert_eq!(left, ["copy"]);
}

// In SuperEdge names and values went into labels unchecked. One illegal label would
// have the whole write of the node refused.
#[test]
fn what_is_not_legal_is_left_out_and_hurts_no_other_unit() {
    let mut model = three_nodes();
    let long = "n".repeat(64);
    model.unit(&long, &json!({ "nodes": ["a1"] }));
    model.unit(
        "bad",
        &json!({ "nodes": ["a1"], "setNode": {
        "labels": { "x y": "1", "ok": "fine", "z": "not/legal" },
        "annotations": { "-": "1", "edgegrid.io/taints": "[]" },
        "taints": [{ "key": "t", "effect": "Sometimes" }],
    } }),
    );
    model.unit("good", &json!({ "nodes": ["a1"] }));
    model.settle();
    assert_eq!(
        model.labels("a1"),
        json!({ "zone": "a", "bad": MARK, "good": MARK, "ok": "fine" })
    );
    let conditions = model.status("bad").conditions;
    let invalid = conditions
        .iter()
        .find(|one| one.type_ == "Invalid")
        .unwrap();
    assert_eq!(
        invalid.message.matches("not legal").count(),
        5,
        "{}",
        invalid.message
    );
    assert!(
        model
            .status(&long)
            .conditions
            .iter()
            .any(|one| one.type_ == "Invalid")
    );
}

#[test]
fn a_selector_against_the_units_own_label_does_not_flap() {
    let mut model = three_nodes();
    let without = |key: &str| json!([{ "key": key, "operator": "DoesNotExist" }]);
    model.unit(
        "rest",
        &json!({ "selector": { "matchExpressions": without("location") } }),
    );
    model.unit("self", &json!({ "selector": { "matchExpressions": without("x") }, "setNode": { "labels": { "x": "1" } } }));
    model.group(
        "location",
        &json!({ "nodeUnits": ["rest"], "selector": { "matchExpressions": without("location") } }),
    );
    model.settle();
    assert_eq!(
        model.labels("a1"),
        json!({ "zone": "a", "x": "1", "self": MARK, "rest": MARK, "location": "rest" })
    );
}

#[test]
fn a_finalizer_waits_until_the_nodes_are_clean() {
    let mut model = three_nodes();
    model.unit("u", &by_zone("a"));
    model.settle();
    model.delete(NodeUnit, "u");
    let steps = model.steps();
    assert!(
        steps
            .iter()
            .all(|step| step.id().kind == edgegrid_plan::ObjectKind::Node),
        "{steps:?}"
    );
    assert_eq!(steps.len(), 2);
    model.make(&steps[0]);
    assert_eq!(model.steps().len(), 1, "one node left to clean");
    model.make(&steps[1]);
    assert_eq!(model.steps().len(), 1, "now the finalizer");
    model.settle();
    assert!(model.stored(NodeUnit, "u").is_none());
}

#[test]
fn a_node_group_and_a_node_unit_of_one_name_do_not_keep_each_other_from_being_deleted() {
    let mut model = three_nodes();
    model.unit("same", &json!({ "nodes": ["a1"] }));
    model.group("same", &json!({ "nodeUnits": ["same"] }));
    model.settle();
    assert_eq!(model.labels("a1")["same"], "same");
    model.delete(NodeGroup, "same");
    model.settle();
    assert!(model.groups().is_empty());
    assert_eq!(model.labels("a1")["same"], MARK);
}
