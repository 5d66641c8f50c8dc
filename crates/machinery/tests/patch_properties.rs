//! What must hold for any patch.
#![expect(clippy::unwrap_used, reason = "tests")]

use edgegrid_machinery::patch::{json_patch, merge_patch, strategic_merge_patch};
use edgegrid_machinery::table::table;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any JSON, with the words of patches in it.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        "[a-c]",
        Just("spec".to_owned()),
        Just("containers".to_owned()),
        Just("finalizers".to_owned()),
        Just("metadata".to_owned()),
        Just("name".to_owned()),
        Just("volumes".to_owned()),
        Just("$patch".to_owned()),
        Just("$retainKeys".to_owned()),
        Just("$setElementOrder/containers".to_owned()),
        Just("$deleteFromPrimitiveList/finalizers".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        prop_oneof![
            "[a-c]",
            Just("replace".to_owned()),
            Just("delete".to_owned())
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Operations on paths that may or may not exist.
fn operations() -> impl Strategy<Value = Value> {
    let op = prop::sample::select(vec![
        "add", "remove", "replace", "move", "copy", "test", "x",
    ]);
    let path = "(/?([abc]|spec|-|-?[0-3]|~0|~1)){0,3}";
    let operation = (op, path, path, any_json()).prop_map(
        |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
    );
    prop::collection::vec(operation, 0..6).prop_map(Value::from)
}

/// A map without nulls: what a merge patch can lead to.
fn plain_map() -> impl Strategy<Value = Value> {
    fn clean(value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let kept = map.into_iter().filter(|(_, value)| !value.is_null());
                Value::Object(kept.map(|(key, value)| (key, clean(value))).collect())
            }
            other => other,
        }
    }
    prop::collection::btree_map("[a-d]", any_json(), 0..4)
        .prop_map(|map| clean(Value::Object(map.into_iter().collect())))
}

fn merge_diff(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(same) if same == value => {}
            Some(Value::Object(_)) if value.is_object() => {
                patch.insert(key.clone(), merge_diff(&old[key], value));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

/// A pod with containers, finalizers and a free map.
fn pod() -> impl Strategy<Value = Value> {
    let names = |count| {
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        prop::sample::subsequence(names, count).prop_shuffle()
    };
    let containers = names(1..=4).prop_flat_map(|names| {
        let items: Vec<_> = names
            .into_iter()
            .map(|name| {
                ("[xyz]", prop::option::of("[xy]")).prop_map(move |(image, tag)| match tag {
                    Some(tag) => json!({"name": name, "image": image, "workingDir": tag}),
                    None => json!({"name": name, "image": image}),
                })
            })
            .collect();
        items
    });
    let labels = prop::collection::btree_map("[a-c]", "[xy]", 0..3);
    (containers, names(0..=4), labels).prop_map(|(containers, finalizers, labels)| {
        json!({"metadata": {"labels": labels, "finalizers": finalizers},
            "spec": {"containers": containers}})
    })
}

/// The patch a client would send: changed items, deletions, and the wanted order.
fn strategic_diff(old: &Value, new: &Value) -> Value {
    let list = |pod: &Value| pod["spec"]["containers"].as_array().unwrap().clone();
    let named = |items: &[Value], name: &Value| {
        let mut items = items.iter();
        items.find(|item| item["name"] == *name).cloned()
    };
    let (before, after) = (list(old), list(new));
    let mut items = Vec::new();
    for item in &after {
        let mut diff = match named(&before, &item["name"]) {
            Some(known) => merge_diff(&known, item),
            None => item.clone(),
        };
        diff["name"] = item["name"].clone();
        items.push(diff);
    }
    for item in &before {
        if named(&after, &item["name"]).is_none() {
            items.push(json!({"$patch": "delete", "name": item["name"]}));
        }
    }
    let order: Vec<Value> = after
        .iter()
        .map(|item| json!({"name": item["name"]}))
        .collect();
    let finalizers = |pod: &Value| pod["metadata"]["finalizers"].as_array().unwrap().clone();
    let (had, has) = (finalizers(old), finalizers(new));
    let gone: Vec<&Value> = had.iter().filter(|item| !has.contains(item)).collect();
    json!({
        "metadata": {
            "labels": merge_diff(&old["metadata"]["labels"], &new["metadata"]["labels"]),
            "$deleteFromPrimitiveList/finalizers": gone,
            "$setElementOrder/finalizers": has.clone(),
            "finalizers": has,
        },
        "spec": {"$setElementOrder/containers": order, "containers": items},
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_merge_patch_of_the_difference_gives_the_target(old in plain_map(), new in plain_map()) {
        let patched = merge_patch(&old, &merge_diff(&old, &new)).unwrap();
        prop_assert_eq!(patched, new);
    }

    #[test]
    fn a_strategic_patch_of_the_difference_gives_the_target(old in pod(), new in pod()) {
        let shape = table().shape("", "v1", "Pod").unwrap();
        let patched = strategic_merge_patch(&old, &strategic_diff(&old, &new), shape).unwrap();
        prop_assert_eq!(&patched, &new);
        let again = strategic_merge_patch(&new, &strategic_diff(&new, &new), shape).unwrap();
        prop_assert_eq!(&again, &new);
    }

    #[test]
    fn hostile_patches_never_panic(object in any_json(), patch in any_json()) {
        let shape = table().shape("", "v1", "Pod").unwrap();
        drop(strategic_merge_patch(&object, &patch, shape));
        drop(merge_patch(&object, &patch));
        drop(json_patch(&object, &patch));
    }

    #[test]
    fn hostile_operations_never_panic(object in any_json(), patch in operations()) {
        drop(json_patch(&object, &patch));
    }

    #[test]
    fn a_root_replacement_gives_the_value(object in any_json(), value in any_json()) {
        let patch = json!([{"op": "replace", "path": "", "value": value}]);
        prop_assert_eq!(json_patch(&object, &patch).unwrap(), value);
    }
}
