//! What must hold whatever the objects are and whenever a pass is cut short.

use std::collections::BTreeSet;

use edgegrid_api::WhenUnreachable;
use edgegrid_api::names::{annotation, label};
use edgegrid_plan::ObjectKind;
use edgegrid_plan::grid_state::State;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model::{Model, name_of, template};

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];
/// The last makes no legal name.
const UNITS: [&str; 4] = ["a", "b", "c", "D_d"];
const NAMES: [&str; 3] = ["web-a", "web-b", "web-c"];

/// Something that happens to the cluster.
#[derive(Clone, Debug)]
enum Happening {
    Label(&'static str, Option<&'static str>),
    DeleteNode(&'static str),
    Template(&'static str, Option<i64>),
    Canary(Option<&'static str>),
    GridLabel(Option<&'static str>),
    WhenUnreachable(Option<&'static str>),
    Rollout(Option<i32>, bool),
    Meddle(&'static str, Meddling),
    Foreign(&'static str),
    NoForeign(&'static str),
    Available(&'static str),
    Time(i64),
    /// The controller makes so many steps of a pass, loses the last answer or not, and crashes or not.
    Work {
        steps: usize,
        lost: bool,
        crash: bool,
    },
}

#[derive(Clone, Debug)]
enum Meddling {
    Image,
    Scale(i64),
    LoseLabel,
    OtherLabel,
    LoseNotes,
    Orphan,
    Add,
    Delete,
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(all)
}

fn meddling() -> impl Strategy<Value = Meddling> {
    prop_oneof![
        Just(Meddling::Image),
        (0..5_i64).prop_map(Meddling::Scale),
        Just(Meddling::LoseLabel),
        Just(Meddling::OtherLabel),
        Just(Meddling::LoseNotes),
        Just(Meddling::Orphan),
        Just(Meddling::Add),
        Just(Meddling::Delete),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let unit = one_of(&[Some("a"), Some("b"), Some("c"), Some("D_d"), None]);
    let replicas = one_of(&[None, Some(1), Some(3)]);
    prop_oneof![
        4 => (one_of(&NODES), unit).prop_map(|(node, unit)| Happening::Label(node, unit)),
        2 => one_of(&NODES).prop_map(Happening::DeleteNode),
        3 => (one_of(&["web:1", "web:2", "web:3"]), replicas).prop_map(|(image, count)| Happening::Template(image, count)),
        1 => one_of(&[None, Some("a"), Some("b")]).prop_map(Happening::Canary),
        1 => one_of(&[None, Some("x"), Some("y")]).prop_map(Happening::GridLabel),
        1 => one_of(&[None, Some("Keep"), Some("Evict")]).prop_map(Happening::WhenUnreachable),
        2 => (one_of(&[None, Some(1), Some(2)]), prop::bool::weighted(0.2)).prop_map(|(max, paused)| Happening::Rollout(max, paused)),
        3 => (one_of(&NAMES), meddling()).prop_map(|(name, how)| Happening::Meddle(name, how)),
        1 => one_of(&NAMES).prop_map(Happening::Foreign),
        1 => one_of(&NAMES).prop_map(Happening::NoForeign),
        3 => one_of(&NAMES).prop_map(Happening::Available),
        1 => (1..12_i64).prop_map(Happening::Time),
        8 => (1..7_usize, prop::bool::weighted(0.2), prop::bool::weighted(0.3))
            .prop_map(|(steps, lost, crash)| Happening::Work { steps, lost, crash }),
    ]
}

fn happen(model: &mut Model, what: &Happening) {
    match what {
        Happening::Label(node, unit) => model.label(node, *unit),
        Happening::DeleteNode(node) => model.delete_node(node),
        Happening::Template(image, replicas) => {
            model.edit_grid(|grid| grid["spec"]["template"] = template(image, *replicas));
        }
        Happening::Canary(unit) => model.edit_grid(|grid| {
            grid["spec"]["templatePool"] = json!({ "test": template("test:1", Some(1)) });
            grid["spec"]["templates"] = unit.map_or(json!({}), |unit| json!({ unit: "test" }));
        }),
        Happening::GridLabel(value) => model.edit_grid(|grid| {
            grid["metadata"]["labels"] = value.map_or(json!({}), |value| json!({ "team": value }));
        }),
        Happening::WhenUnreachable(value) => model.edit_grid(|grid| {
            grid["spec"]["whenUnreachable"] = json!(value);
        }),
        Happening::Rollout(max, paused) => {
            // Fewer places than units in flight is nobody's fault.
            let max = max.filter(|max| model.changing.len() <= usize::try_from(*max).unwrap());
            model.edit_grid(|grid| {
                grid["spec"]["rollout"] = json!({ "maxConcurrentUnits": max, "paused": paused });
            });
        }
        Happening::Meddle(name, how) => meddle(model, name, how),
        Happening::Foreign(name) => {
            let body = json!({ "metadata": { "labels": { "foreign": "yes" } }, "spec": template("theirs:1", Some(7)) });
            drop(
                model
                    .objects
                    .create(&name_of(ObjectKind::Deployment, name), &body, "somebody"),
            );
        }
        Happening::NoForeign(name) => delete_foreign(model, name),
        Happening::Available(name) => model.make_available(name),
        Happening::Time(minutes) => model.pass_time(*minutes),
        Happening::Work { steps, lost, crash } => {
            model.work(*steps, *lost);
            if *crash {
                model.forget();
            }
        }
    }
    model.check_books();
}

fn is_foreign(model: &Model, name: &str) -> bool {
    model
        .foreign()
        .iter()
        .any(|object| object["metadata"]["name"] == name)
}

fn delete_foreign(model: &mut Model, name: &str) {
    if is_foreign(model, name) {
        model
            .objects
            .delete(&name_of(ObjectKind::Deployment, name), None)
            .unwrap();
    }
}

fn meddle(model: &mut Model, name: &str, how: &Meddling) {
    if is_foreign(model, name) {
        return;
    }
    match how {
        // One that nobody has seen yet and whose unit goes in the same moment is found by nobody.
        Meddling::LoseLabel if !model.reported.contains(name) => {}
        Meddling::Delete => drop(
            model
                .objects
                .delete(&name_of(ObjectKind::Deployment, name), None),
        ),
        Meddling::Image => model.edit_child(name, |child| {
            child["spec"]["template"]["spec"]["containers"][0]["image"] = json!("hacked:1");
        }),
        Meddling::Scale(replicas) => {
            model.edit_child(name, |child| child["spec"]["replicas"] = json!(replicas));
        }
        Meddling::LoseLabel => model.edit_child(name, |child| {
            child["metadata"]["labels"][label::GRID_SELECTOR] = Value::Null;
        }),
        Meddling::OtherLabel => {
            model.edit_child(name, |child| {
                child["metadata"]["labels"][label::GRID_SELECTOR] = json!("other");
            });
        }
        Meddling::LoseNotes => {
            model.edit_child(name, |child| child["metadata"]["annotations"] = Value::Null);
        }
        Meddling::Orphan => model.edit_child(name, |child| {
            child["metadata"]["ownerReferences"] = Value::Null;
        }),
        Meddling::Add => model.edit_child(name, |child| {
            child["metadata"]["annotations"]["theirs"] = json!("x");
        }),
    }
}

/// What a settled cluster looks like, said without the plan: every unit has its one workload with its
/// template, unless somebody else has the name; nothing else is the grid's.
fn check_settled(model: &Model) {
    let grid = model.grid();
    let controlled = model.controlled();
    let mut seen = BTreeSet::new();
    for (unit, child) in &controlled {
        assert!(seen.insert(unit.clone()), "two workloads of unit {unit}");
        assert!(
            model.units().contains(unit),
            "a workload outside its unit: {unit}"
        );
        let stored = model
            .objects
            .get(&name_of(
                ObjectKind::Deployment,
                child.metadata.name.as_deref().unwrap(),
            ))
            .unwrap();
        let template = grid.templates.chosen(unit).unwrap();
        let pods = &stored["spec"]["template"]["spec"];
        assert_eq!(
            pods["containers"], template.spec["template"]["spec"]["containers"],
            "{unit}"
        );
        assert_eq!(pods["nodeSelector"], json!({ "zone": unit }));
        let forever = json!([{ "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute" }]);
        let is_kept = grid.when_unreachable == Some(WhenUnreachable::Keep);
        assert_eq!(pods.get("tolerations"), is_kept.then_some(&forever));
        if let Some(replicas) = template.replicas() {
            assert_eq!(stored["spec"]["replicas"], replicas);
        }
        assert_eq!(
            stored["metadata"]["labels"].get("team"),
            grid_label(model).as_ref()
        );
        assert!(
            stored["metadata"]["annotations"]
                .get(annotation::UNIT_GONE_SINCE)
                .is_none()
        );
    }
    let decision = model.decide();
    for (unit, state) in &decision.units {
        let is_blocked = matches!(state.state, State::Blocked(_));
        assert_eq!(
            !seen.contains(unit),
            is_blocked,
            "{unit}: {:?}",
            state.state
        );
    }
}

fn grid_label(model: &Model) -> Option<Value> {
    let labels = model.grid().metadata.labels?;
    labels.get("team").map(|team| json!(team))
}

fn start() -> Model {
    let mut model = Model::new();
    for (node, unit) in NODES.into_iter().zip(UNITS) {
        model.label(node, Some(unit));
    }
    model
}

fn unpaused(model: &mut Model) {
    model.edit_grid(|grid| grid["spec"]["rollout"]["paused"] = json!(false));
}

/// An orphan without our labels is a stranger's from then on, and its name is taken.
fn give_back_names(model: &mut Model) {
    let uid = model.grid().uid().to_owned();
    let lost: Vec<String> = model
        .children()
        .into_iter()
        .filter(|child| {
            let owner = edgegrid_plan::ownership::controller(&child.metadata);
            owner.is_none_or(|owner| owner.uid != uid)
        })
        .filter_map(|child| child.metadata.name)
        .filter(|name| !is_foreign(model, name))
        .collect();
    for name in lost {
        drop(
            model
                .objects
                .delete(&name_of(ObjectKind::Deployment, &name), None),
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn whatever_happens_and_wherever_work_is_cut_short_the_cluster_settles(
        happenings in prop::collection::vec(happening(), 1..16)
    ) {
        let mut model = start();
        for what in &happenings {
            happen(&mut model, what); // checks the rollout's limit after every step
        }
        unpaused(&mut model);
        model.settle();
        give_back_names(&mut model);
        model.settle();
        check_settled(&model);
        prop_assert!(model.decide().plan.is_empty(), "a settled cluster has an empty plan");
        model.forget();
        prop_assert!(model.decide().plan.is_empty(), "after a restart as well");
    }

    #[test]
    fn work_touches_nothing_that_is_not_ours(happenings in prop::collection::vec(happening(), 1..16)) {
        let mut model = start();
        for what in &happenings {
            let before = model.foreign();
            happen(&mut model, what);
            if matches!(what, Happening::Work { .. }) {
                prop_assert_eq!(model.foreign(), before);
            }
        }
        unpaused(&mut model);
        let before = model.foreign();
        model.settle();
        prop_assert_eq!(model.foreign(), before);
    }

    #[test]
    fn plans_depend_on_nothing_but_what_is_seen(happenings in prop::collection::vec(happening(), 1..12)) {
        let mut model = start();
        for what in &happenings {
            happen(&mut model, what);
            prop_assert_eq!(model.decide(), model.decide());
        }
    }

    #[test]
    fn a_count_that_nobody_names_is_never_moved_by_us(
        scaled in 2..9_i64,
        happenings in prop::collection::vec(happening(), 1..12)
    ) {
        let mut model = start();
        model.settle();
        model.edit_grid(|grid| grid["spec"]["template"] = template("web:1", None));
        model.edit_child("web-a", |child| child["spec"]["replicas"] = json!(scaled));
        let is_about_counts = |what: &&Happening| {
            matches!(what, Happening::Template(..) | Happening::Canary(_) | Happening::Meddle(..) | Happening::Foreign(_)
                | Happening::Label(..) | Happening::DeleteNode(_) | Happening::Rollout(..) | Happening::Time(_))
        };
        for what in happenings.iter().filter(|what| !is_about_counts(what)) {
            happen(&mut model, what);
            let stored = model.objects.get(&name_of(ObjectKind::Deployment, "web-a")).unwrap();
            prop_assert_eq!(&stored["spec"]["replicas"], &json!(scaled));
        }
        model.settle();
        let stored = model.objects.get(&name_of(ObjectKind::Deployment, "web-a")).unwrap();
        prop_assert_eq!(&stored["spec"]["replicas"], &json!(scaled));
    }
}
