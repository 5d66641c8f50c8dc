//! What must hold for any sequence of writes by any managers.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::OnceLock;

use edgegrid_machinery::apply::{
    Element, Error, Managers, PathSet, PlainVersions, Writer, apply, compare, restore_times,
    track_update,
};
use edgegrid_machinery::table::{Shape, Shapes, is_zero, normal, table};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const VERSION: &str = "spec.example/v1";

fn shapes() -> &'static Shapes {
    static SHAPES: OnceLock<Shapes> = OnceLock::new();
    SHAPES.get_or_init(|| {
        let customs: Value =
            serde_json::from_str(include_str!("../fixtures/vectors/custom.json")).unwrap();
        Shapes::structural(&customs["Thing"]["versions"]["v1"]["schema"])
    })
}

/// Any JSON, nested a little.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c$./:{]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let key = prop_oneof![
            "[a-c]",
            Just("metadata".to_owned()),
            Just("spec".to_owned()),
            Just("name".to_owned()),
            Just("map".to_owned()),
            Just("set".to_owned()),
            Just("managedFields".to_owned()),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn text() -> impl Strategy<Value = Value> {
    "[ab]".prop_map(Value::from)
}

fn distinct(length: usize) -> impl Strategy<Value = Vec<String>> {
    let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    prop::sample::subsequence(names, 0..=length).prop_shuffle()
}

/// A spec that fits the shape, each field there or not.
fn spec() -> impl Strategy<Value = Value> {
    let keyed = distinct(3).prop_flat_map(|names| {
        let items: Vec<_> = names
            .into_iter()
            .map(|name| {
                let fields = prop::collection::btree_map("[vw]", text(), 0..2);
                fields.prop_map(move |fields| {
                    let mut item: Map<String, Value> = fields.into_iter().collect();
                    item.insert("name".to_owned(), json!(name));
                    Value::Object(item)
                })
            })
            .collect();
        items.prop_map(Value::from)
    });
    let ports = prop::sample::subsequence(
        vec![
            json!({"port": 1}),
            json!({"port": 1, "proto": "UDP"}),
            json!({"port": 2, "v": "x"}),
        ],
        0..=3,
    );
    let map = prop::collection::btree_map("[xy]", text(), 0..3);
    let map = map
        .prop_map(|map| Value::Object(map.into_iter().collect()))
        .boxed();
    let free = prop_oneof![
        text().prop_map(|value| json!({"q": value})),
        text().prop_map(|value| json!({"q": {"r": value}})),
        Just(json!({"q": [1]})),
        Just(json!({})),
    ];
    (
        prop::option::of(text()),
        prop::option::of(distinct(3).prop_map(Value::from)),
        prop::option::of(distinct(3).prop_map(Value::from)),
        prop::option::of(keyed),
        prop::option::of(ports.prop_map(Value::from)),
        prop::option::of(map.clone()),
        prop::option::of(map.clone()),
        prop::option::of(prop_oneof![map, Just(Value::Null)]),
        prop::option::of(free),
    )
        .prop_map(|(a, set, atom, map, map2, gran, amap, nested, free)| {
            let fields = [
                ("a", a),
                ("set", set),
                ("atom", atom),
                ("map", map),
                ("map2", map2),
                ("gran", gran),
                ("amap", amap),
                ("struct", nested),
                ("free", free),
            ];
            let fields = fields.into_iter();
            let fields = fields.filter_map(|(key, value)| Some((key.to_owned(), value?)));
            Value::Object(fields.collect())
        })
}

#[derive(Debug, Clone)]
struct Write {
    manager: String,
    /// Nothing for a write that is no apply.
    force: Option<bool>,
    spec: Value,
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let write = ("m[123]", prop::option::of(any::<bool>()), spec());
    let write = write.prop_map(|(manager, force, spec)| Write {
        manager,
        force,
        spec,
    });
    prop::collection::vec(write, 1..8)
}

fn body(spec: &Value) -> Value {
    json!({"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
}

struct World<'a> {
    versions: PlainVersions<'a>,
    reset: PathSet,
    live: Option<Value>,
    clock: usize,
}

impl<'a> World<'a> {
    fn new(shapes: &'a Shapes) -> Self {
        Self {
            versions: PlainVersions([(VERSION.to_owned(), shapes.root())].into()),
            reset: PathSet::default(),
            live: None,
            clock: 0,
        }
    }

    /// Like `write`, but what is empty is dropped and times are settled before it is stored.
    fn write_and_tidy(&mut self, write: &Write) -> bool {
        let before = self.live.clone();
        let accepted = self.write(write);
        if let Some(live) = &mut self.live {
            tidy(&mut live["spec"]);
            if let Some(before) = &before {
                restore_times(before, live);
            }
        }
        accepted
    }

    /// Whether the write was accepted.
    fn write(&mut self, write: &Write) -> bool {
        self.clock += 1;
        let now = format!("2030-01-01T00:00:{:02}Z", self.clock);
        let writer = Writer {
            versions: &self.versions,
            api_version: VERSION,
            subresource: None,
            manager: &write.manager,
            reset: &self.reset,
            now: &now,
        };
        let live = self.live.as_ref();
        let new = match write.force {
            None => Ok(track_update(&writer, live, &body(&write.spec))),
            Some(force) => apply(&writer, live, &body(&write.spec), force).map(|o| o.object),
        };
        match new {
            Ok(new) => {
                self.live = Some(new);
                true
            }
            Err(Error::Conflict(conflicts)) => {
                assert_eq!(write.force, Some(false));
                assert!(!conflicts.0.is_empty());
                false
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Drops nulls and what is empty, as decoding does where fields are optional.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(tidy);
            map.retain(|_, value| !is_zero(value));
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Whether a path leads to something in a value.
fn exists(value: &Value, path: &[Element]) -> bool {
    let Some((first, rest)) = path.split_first() else {
        return true;
    };
    let found = match first {
        Element::Field(name) => value.get(name),
        Element::Key(pairs) => value.as_array().into_iter().flatten().find(|item| {
            // A key that the item leaves out was completed by the only default there is.
            let mut pairs = pairs.iter();
            pairs.all(|(name, key)| item.get(name).unwrap_or(&json!("TCP")) == key)
        }),
        Element::Value(wanted) => {
            let mut items = value.as_array().into_iter().flatten();
            items.find(|item| *item == wanted)
        }
        Element::Index(_) => None,
    };
    found.is_some_and(|found| exists(found, rest))
}

fn owned_paths(object: &Value) -> Vec<(String, Vec<Element>)> {
    let managers = Managers::decode(&object["metadata"]["managedFields"]).unwrap();
    let entries = managers.entries.into_iter();
    let paths = entries.flat_map(|(identity, owned)| {
        let paths = owned.set.paths().into_iter();
        paths.map(move |path| (identity.manager.clone(), path))
    });
    paths.collect()
}

/// Whether everything in `part` is in `whole`; lists may hold more.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (_, Value::Null) => true,
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, part)| whole.get(key).is_some_and(|whole| holds(whole, part))),
        (Value::Array(whole), Value::Array(part)) => part
            .iter()
            .all(|part| whole.iter().any(|whole| holds(whole, part))),
        (Value::Null, Value::Object(map)) => map.is_empty(),
        (Value::Null, Value::Array(items)) => items.is_empty(),
        _ => whole == part,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn applying_again_changes_nothing(writes in writes()) {
        let shapes = shapes();
        let mut world = World::new(shapes);
        for write in writes {
            if world.write_and_tidy(&write) && write.force.is_some() {
                let before = world.live.clone();
                // Whatever is in an object without managers is credited on the next apply; and what
                // is empty is not stored, so applying it is a change every time.
                let mut tidied = write.spec.clone();
                tidy(&mut tidied);
                let unowned = before.as_ref().is_none_or(|live| owned_paths(live).is_empty());
                if unowned || tidied != write.spec {
                    continue;
                }
                prop_assert!(world.write_and_tidy(&write));
                prop_assert_eq!(&world.live, &before);
            }
        }
    }

    #[test]
    fn every_owned_path_exists(writes in writes()) {
        let shapes = shapes();
        let mut world = World::new(shapes);
        for write in writes {
            world.write(&write);
            let Some(live) = &world.live else { continue };
            for (manager, path) in owned_paths(live) {
                prop_assert!(exists(live, &path), "{manager} owns {path:?} in {live}");
            }
        }
    }

    #[test]
    fn a_forced_apply_gets_what_it_wants(writes in writes()) {
        let shapes = shapes();
        let mut world = World::new(shapes);
        for write in writes {
            let accepted = world.write(&write);
            if write.force == Some(true) {
                prop_assert!(accepted);
            }
            if let (true, Some(live), Some(_)) = (accepted, &world.live, write.force) {
                let empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(Map::is_empty);
                let mut wanted = write.spec.clone();
                wanted.as_object_mut().unwrap().retain(|_, value| !empty(value));
                prop_assert!(live["spec"].is_null() || holds(&live["spec"], &wanted), "{live}");
            }
        }
    }

    #[test]
    fn comparing_a_value_with_itself_finds_nothing(value in any_json()) {
        let shapes = shapes();
        let found = compare(&value, &value, shapes.root());
        prop_assert!(found.written().is_empty() && found.removed.is_empty());
    }

    #[test]
    fn hostile_input_never_panics(live in any_json(), new in any_json(), built_in in any::<bool>()) {
        let shapes = shapes();
        let shape: Shape<'_> = if built_in {
            table().shape("apps", "v1", "Deployment").unwrap()
        } else {
            shapes.root()
        };
        let versions = PlainVersions([(VERSION.to_owned(), shape)].into());
        let reset = PathSet::of_fields(&["status"]);
        let writer = Writer {
            versions: &versions,
            api_version: VERSION,
            subresource: None,
            manager: "kubectl",
            reset: &reset,
            now: "2030-01-01T00:00:00Z",
        };
        drop(apply(&writer, Some(&live), &new, true));
        drop(apply(&writer, None, &new, false));
        let tracked = track_update(&writer, Some(&live), &new);
        drop(apply(&writer, Some(&tracked), &live, false));
        drop(normal(&new, shape));
        drop(PathSet::from_fields_v1(&new));
        drop(Managers::decode(&new));
    }

    #[test]
    fn sets_survive_their_json_form(writes in writes()) {
        let shapes = shapes();
        let mut world = World::new(shapes);
        for write in writes {
            world.write(&write);
        }
        if let Some(live) = &world.live {
            let list = &live["metadata"]["managedFields"];
            let managers = Managers::decode(list).unwrap();
            let again = managers.encode();
            let wanted = list.as_array().cloned().unwrap_or_default();
            prop_assert_eq!(again, Value::Array(wanted));
        }
    }
}
