//! What must hold whatever the objects are and whenever a pass is cut short.

use std::collections::BTreeSet;

use edgegrid_plan::ObjectKind::{Node, NodeGroup, NodeUnit};
use edgegrid_plan::membership::NodeUnits;
use edgegrid_plan::{Plan, node};
use edgegrid_testkit::objects::Name;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model::{Model, NOW, USER, name_of};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const UNITS: [&str; 3] = ["u1", "u2", "u3"];
const GROUPS: [&str; 2] = ["g1", "g2"];
const MARK: &str = "nodeunits.superedge.io";

/// Something that happens to the cluster.
#[derive(Clone, Debug)]
enum Happening {
    PutUnit(&'static str, Value),
    PutGroup(&'static str, Value),
    DeleteUnit(&'static str),
    DeleteGroup(&'static str),
    /// A node's own label, or none.
    Move(&'static str, Option<&'static str>),
    NewNode(&'static str),
    DeleteNode(&'static str),
    /// Somebody meddles with what is ours.
    Meddle(&'static str, Meddling),
    /// Controllers make so many steps of what they planned, and crash.
    Work(usize),
}

#[derive(Clone, Debug)]
enum Meddling {
    RemoveMarkers,
    ForeignLabel(&'static str),
    DropTaints,
    ForeignTaint,
    Uncordon,
    Cordon,
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(all)
}

fn taints() -> impl Strategy<Value = Vec<Value>> {
    let taint = (
        one_of(&["t1", "t2"]),
        one_of(&["1", "2"]),
        one_of(&["NoSchedule", "NoExecute"]),
    );
    let taint = taint
        .prop_map(|(key, value, effect)| json!({ "key": key, "value": value, "effect": effect }));
    prop::collection::vec(taint, 0..3)
}

fn unit_spec() -> impl Strategy<Value = Value> {
    let nodes = prop::sample::subsequence(NODES.to_vec(), 0..=2);
    let selector = prop_oneof![
        Just(json!({})),
        one_of(&["a", "b"]).prop_map(|zone| json!({ "matchLabels": { "zone": zone } })),
        one_of(&["a", "b"]).prop_map(|zone| json!({ "matchExpressions": [{ "key": "zone", "operator": "NotIn", "values": [zone] }] })),
        Just(json!({ "matchExpressions": [{ "key": "s1", "operator": "DoesNotExist" }, { "key": "zone", "operator": "Exists" }] })),
    ];
    let labels =
        prop::collection::btree_map(one_of(&["s1", "s2", "bad key"]), one_of(&["1", "2"]), 0..3);
    let annotations = prop::collection::btree_map(one_of(&["a1", "a2"]), one_of(&["1", "2"]), 0..2);
    (
        nodes,
        selector,
        labels,
        annotations,
        taints(),
        any::<bool>(),
    )
        .prop_map(
            |(nodes, selector, labels, annotations, taints, unschedulable)| {
                json!({
                    "nodes": nodes, "selector": selector, "unschedulable": unschedulable,
                    "setNode": { "labels": labels, "annotations": annotations, "taints": taints },
                })
            },
        )
}

fn group_spec() -> impl Strategy<Value = Value> {
    let units = prop::sample::subsequence(UNITS.to_vec(), 0..=3);
    let keys = prop_oneof![Just(vec![]), Just(vec!["zone"]), Just(vec!["zone", "rack"])];
    (units, keys).prop_map(|(units, keys)| json!({ "nodeUnits": units, "autoFindNodeKeys": keys }))
}

fn meddling() -> impl Strategy<Value = Meddling> {
    prop_oneof![
        Just(Meddling::RemoveMarkers),
        one_of(&["s1", "s2", "u1", "g1"]).prop_map(Meddling::ForeignLabel),
        Just(Meddling::DropTaints),
        Just(Meddling::ForeignTaint),
        Just(Meddling::Uncordon),
        Just(Meddling::Cordon),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (one_of(&UNITS), unit_spec()).prop_map(|(name, spec)| Happening::PutUnit(name, spec)),
        3 => (one_of(&GROUPS), group_spec()).prop_map(|(name, spec)| Happening::PutGroup(name, spec)),
        1 => one_of(&UNITS).prop_map(Happening::DeleteUnit),
        1 => one_of(&GROUPS).prop_map(Happening::DeleteGroup),
        2 => (one_of(&NODES), one_of(&[Some("a"), Some("b"), Some("Not_Dns"), None]))
            .prop_map(|(node, zone)| Happening::Move(node, zone)),
        1 => one_of(&NODES).prop_map(Happening::NewNode),
        1 => one_of(&NODES).prop_map(Happening::DeleteNode),
        3 => (one_of(&NODES), meddling()).prop_map(|(node, how)| Happening::Meddle(node, how)),
        6 => (1..8_usize).prop_map(Happening::Work),
    ]
}

fn start() -> Model {
    let mut model = Model::default();
    for name in NODES {
        model.node(name, &json!({ "zone": "a", "rack": "r1", "own": name }));
    }
    model
}

/// What happens, if it can: what is not there can be neither changed nor deleted.
fn happen(model: &mut Model, what: &Happening) {
    match what {
        Happening::PutUnit(name, spec) => put(model, || name_of(NodeUnit, name), spec),
        Happening::PutGroup(name, spec) => put(model, || name_of(NodeGroup, name), spec),
        Happening::DeleteUnit(name) => drop(model.objects.delete(&name_of(NodeUnit, name), None)),
        Happening::DeleteGroup(name) => drop(model.objects.delete(&name_of(NodeGroup, name), None)),
        Happening::Move(node, zone) => change(model, node, |node| {
            node["metadata"]["labels"]["zone"] = json!(zone);
        }),
        Happening::NewNode(name) => {
            let body =
                json!({ "metadata": { "labels": { "zone": "b", "own": name } }, "spec": {} });
            drop(model.objects.create(&Name::node(name), &body, "kubelet"));
        }
        Happening::DeleteNode(name) => drop(model.objects.delete(&name_of(Node, name), None)),
        Happening::Meddle(node, how) => change(model, node, |node| meddle(node, how)),
        Happening::Work(steps) => {
            let planned = model.steps();
            planned
                .iter()
                .take(*steps)
                .for_each(|step| model.make(step));
        }
    }
}

fn put(model: &mut Model, name: impl Fn() -> Name, spec: &Value) {
    let is_new = model
        .objects
        .create(&name(), &json!({ "spec": spec }), USER)
        .is_ok();
    if !is_new {
        model.edit(&name(), |object| object["spec"] = spec.clone());
    }
}

fn change(model: &mut Model, node: &str, change: impl FnOnce(&mut Value)) {
    drop(model.objects.update(&Name::node(node), "somebody", change));
}

fn meddle(node: &mut Value, how: &Meddling) {
    match how {
        Meddling::RemoveMarkers => {
            let labels = node["metadata"]["labels"].as_object_mut().unwrap();
            labels.retain(|_, value| value != MARK);
        }
        Meddling::ForeignLabel(key) => node["metadata"]["labels"][*key] = json!("foreign"),
        Meddling::DropTaints => node["spec"]["taints"] = Value::Null,
        Meddling::ForeignTaint => {
            let mut taints = node["spec"]["taints"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            taints.retain(|taint| taint["key"] != "foreign");
            taints.insert(0, json!({ "key": "foreign", "effect": "NoExecute" }));
            node["spec"]["taints"] = json!(taints);
        }
        Meddling::Uncordon => node["spec"]["unschedulable"] = Value::Null,
        Meddling::Cordon => node["spec"]["unschedulable"] = json!(true),
    }
}

/// Node labels by key whose value somebody but us has set, and foreign taints.
fn foreign(model: &Model) -> Vec<Value> {
    let nodes = model.objects.all("Node");
    nodes
        .map(|node| {
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let taints: Vec<Value> = taints.into_iter().filter(|taint| taint["key"] == "foreign").collect();
            let labels = &node["metadata"]["labels"];
            json!({ "zone": labels["zone"], "own": labels["own"], "rack": labels["rack"], "taints": taints })
        })
        .collect()
}

/// What a settled cluster looks like, said without the plans: markers where units claim, group
/// labels from the oldest claimant, nothing of units that are gone.
fn check_settled(model: &Model) {
    let (nodes, units) = (model.nodes(), model.units());
    let node_units = model.node_units();
    let names: BTreeSet<String> = units
        .iter()
        .filter_map(|unit| unit.metadata.name.clone())
        .collect();
    for node in &nodes {
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let marked: BTreeSet<String> = labels
            .iter()
            .filter(|(_, value)| *value == MARK)
            .map(|(key, _)| key.clone())
            .collect();
        let claimed: BTreeSet<String> = node_units
            .claiming(node)
            .iter()
            .map(|unit| unit.name.clone())
            .collect();
        assert_eq!(marked, claimed, "{node:?}");
        assert!(marked.is_subset(&names));
        for group in GROUPS.iter().filter(|group| labels.contains_key(**group)) {
            let value = &labels[*group];
            assert!(
                value == "foreign" || claimed.contains(value),
                "{group}={value} on {node:?}"
            );
        }
        let mut seen = BTreeSet::new();
        for taint in &node.spec.taints {
            assert!(seen.insert((&taint.key, &taint.effect)), "twice: {taint:?}");
        }
    }
    for unit in &units {
        assert!(
            unit.metadata.deletion_timestamp.is_none(),
            "nothing is left half gone: {unit:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_happens_and_wherever_work_is_cut_short_the_cluster_settles(
        happenings in prop::collection::vec(happening(), 1..14)
    ) {
        let mut model = start();
        for what in &happenings {
            happen(&mut model, what);
        }
        model.settle();
        check_settled(&model);
        prop_assert!(model.plans().iter().all(Plan::is_empty), "a settled cluster has an empty plan");
    }

    #[test]
    fn work_touches_nothing_that_is_not_ours(happenings in prop::collection::vec(happening(), 1..14)) {
        let mut model = start();
        for what in &happenings {
            let before = foreign(&model);
            let is_work = matches!(what, Happening::Work(_));
            happen(&mut model, what);
            if is_work {
                prop_assert_eq!(foreign(&model), before);
            }
        }
        let before = foreign(&model);
        model.settle();
        prop_assert_eq!(foreign(&model), before);
    }

    #[test]
    fn when_all_units_and_groups_go_the_nodes_are_as_they_would_be_without_them(
        happenings in prop::collection::vec(happening(), 1..10)
    ) {
        // Meddlers may take over what a unit wrote; then it is theirs, and stays.
        let is_plain = |what: &&Happening| !matches!(what, Happening::Meddle(..));
        let (mut with, mut without) = (start(), start());
        for what in happenings.iter().filter(is_plain) {
            happen(&mut with, what);
            if matches!(what, Happening::Move(..) | Happening::NewNode(_) | Happening::DeleteNode(_)) {
                happen(&mut without, what);
            }
        }
        with.settle();
        for unit in UNITS {
            drop(with.objects.delete(&name_of(NodeUnit, unit), None));
        }
        for group in GROUPS {
            drop(with.objects.delete(&name_of(NodeGroup, group), None));
        }
        with.settle();
        let strip = |model: &Model| {
            let mut nodes: Vec<Value> = model.objects.seen().into_values().collect();
            for node in &mut nodes {
                node["metadata"]["uid"] = Value::Null;
            }
            nodes
        };
        prop_assert_eq!(strip(&with), strip(&without));
    }

    #[test]
    fn plans_do_not_depend_on_the_order_in_which_objects_are_seen(
        happenings in prop::collection::vec(happening(), 1..10)
    ) {
        let mut model = start();
        for what in &happenings {
            happen(&mut model, what);
        }
        prop_assert_eq!(model.plans(), model.plans());
        let (mut units, mut groups) = (model.units(), model.groups());
        let node_units = NodeUnits::new(&units, &groups);
        units.reverse();
        groups.reverse();
        let other = NodeUnits::new(&units, &groups);
        for one in model.nodes() {
            prop_assert_eq!(node::plan(&one, &node_units, NOW), node::plan(&one, &other, NOW));
        }
    }
}
