use serde_json::json;

use super::*;
use crate::table::{Shapes, table};

const NOW: &str = "2030-01-01T00:00:00Z";

fn config_maps() -> PlainVersions<'static> {
    let shape = table().shape("", "v1", "ConfigMap").unwrap();
    PlainVersions([("v1".to_owned(), shape)].into())
}

fn writer<'a>(versions: &'a dyn Versions, manager: &'a str, reset: &'a PathSet) -> Writer<'a> {
    Writer {
        versions,
        api_version: "v1",
        subresource: None,
        manager,
        reset,
        now: NOW,
    }
}

fn config(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[test]
fn sets_know_exact_and_recursive_difference() {
    let set = PathSet::of_fields(&["a.b", "c"]);
    let a = PathSet::of_fields(&["a"]);
    assert_eq!(set.difference(&a), set);
    assert_eq!(set.recursive_difference(&a), PathSet::of_fields(&["c"]));
    assert!(PathSet::of_fields(&["a"]).intersection(&set).is_empty());
}

#[test]
fn elements_are_ordered_by_kind_then_value() {
    let key = |port: i64| Element::Key(vec![("port".to_owned(), json!(port))]);
    let sorted = [
        Element::field("a"),
        Element::field("b"),
        key(80),
        key(443),
        Element::Value(json!(10)),
        Element::Value(json!("a")),
        Element::Value(json!(true)),
        Element::Index(0),
    ];
    assert!(sorted.is_sorted());
    assert_eq!(Element::Value(json!(1)), Element::Value(json!(1.0)));
    assert_eq!(path_text(&sorted[..3]), ".a.b[port=80]");
}

#[test]
fn unknown_elements_are_dropped_and_malformed_ones_refused() {
    let read = |fields: Value| PathSet::from_fields_v1(&fields);
    assert_eq!(
        read(json!({"x:y": {"f:z": {}}, "f:a": {}})).unwrap(),
        PathSet::of_fields(&["a"])
    );
    for bad in [
        json!({"f": {}}),
        json!({"fa": {}}),
        json!({"k:{": {}}),
        json!({"v:1 2": {}}),
        json!({"f:a": 1}),
        json!([]),
    ] {
        assert!(read(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn only_ten_updaters_are_kept_apart() {
    let (versions, reset) = (config_maps(), PathSet::default());
    let mut live = track_update(&writer(&versions, "u0", &reset), None, &config(&json!({})));
    for index in 0..15 {
        let mut new = live.clone();
        new["data"][format!("k{index}")] = json!("v");
        let manager = format!("u{index}");
        live = track_update(&writer(&versions, &manager, &reset), Some(&live), &new);
    }
    let managers = Managers::decode(&live["metadata"]["managedFields"]).unwrap();
    assert_eq!(managers.entries.len(), 10);
    let ancient = Identity::new("ancient-changes", Operation::Update, "v1", None);
    assert_eq!(managers.entries[&ancient].set.paths().len(), 6 + 1);
}

#[test]
fn managers_in_a_body_are_refused() {
    let (versions, reset) = (config_maps(), PathSet::default());
    let mut body = config(&json!({}));
    body["metadata"]["managedFields"] = json!([]);
    let refused = apply(&writer(&versions, "m", &reset), None, &body, false);
    assert_eq!(refused, Err(Error::ManagedFields));
}

#[test]
fn conflicts_name_every_manager_and_path() {
    let (versions, reset) = (config_maps(), PathSet::default());
    let both = config(&json!({"a": "1", "b": "1"}));
    let live = track_update(&writer(&versions, "u", &reset), None, &both);
    let one = config(&json!({"a": "1"}));
    let live = apply(&writer(&versions, "m1", &reset), Some(&live), &one, false).unwrap();
    let other = config(&json!({"a": "2", "b": "2"}));
    let writer = writer(&versions, "m2", &reset);
    let refused = apply(&writer, Some(&live.object), &other, false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"m1\":\n- .data.a\n\
         conflicts with \"u\" using v1:\n- .data.a\n- .data.b"
    );
}

#[test]
fn paths_below_what_became_atomic_turn_into_one() {
    let atomic = Shapes::structural(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}}}}}));
    let versions = PlainVersions([("v1".to_owned(), atomic.root())].into());
    let reset = PathSet::default();
    let mut live = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a",
        "managedFields": [{"manager": "m1", "operation": "Apply", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:a": {}}}}]},
        "spec": {"a": "1"}});
    let mut new = live.clone();
    new["metadata"]["labels"] = json!({"l": "1"});
    live = track_update(&writer(&versions, "u", &reset), Some(&live), &new);
    assert_eq!(
        live["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {}})
    );
}

#[test]
fn deep_bodies_are_refused() {
    let (versions, reset) = (config_maps(), PathSet::default());
    let mut deep = json!({});
    for _ in 0..1000 {
        deep = json!({ "a": deep });
    }
    let refused = apply(&writer(&versions, "m", &reset), None, &deep, false);
    assert_eq!(refused, Err(Error::TooDeep));
}

#[test]
fn manager_names_come_from_user_agents() {
    assert_eq!(manager_from_user_agent("kubectl/v1.37 (linux)"), "kubectl");
    assert_eq!(manager_from_user_agent("/x"), "unknown");
    assert_eq!(manager_from_user_agent(&"é".repeat(100)).len(), 128);
    assert_eq!(check_manager(&"a".repeat(129)), Err(NameError::TooLong));
    assert!(check_manager("a b").is_ok());
    assert!(check_manager("a\u{a0}b").is_err());
}

#[test]
fn nobody_is_credited_for_items_without_a_key() {
    let shape = table().shape("", "v1", "ServiceAccount").unwrap();
    let versions = PlainVersions([("v1".to_owned(), shape)].into());
    let reset = PathSet::default();
    let account =
        |secrets: &Value| json!({"apiVersion": "v1", "kind": "ServiceAccount", "secrets": secrets});
    let track = |live: Option<&Value>, secrets: Value| {
        track_update(&writer(&versions, "m", &reset), live, &account(&secrets))
    };
    let keyless = track(None, json!([{"namespace": "a"}]));
    assert_eq!(keyless["metadata"].get("managedFields"), None);
    let keyed = track(None, json!([{"name": "a"}]));
    let later = track(Some(&keyed), json!([{}]));
    assert_eq!(
        later["metadata"]["managedFields"],
        keyed["metadata"]["managedFields"]
    );
}
