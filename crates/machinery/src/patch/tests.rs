use serde_json::{Value, json};

use super::*;
use crate::table::table;

fn pod(patch: &Value) -> Result<Value, Error> {
    let live = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}});
    let shape = table().shape("", "v1", "Pod").unwrap();
    strategic_merge_patch(&live, patch, shape)
}

fn names(patch: &Value) -> String {
    let patched = pod(&json!({"spec": patch})).unwrap();
    let containers = patched["spec"]["containers"].as_array().unwrap().iter();
    containers
        .map(|container| container["name"].as_str().unwrap())
        .collect()
}

#[test]
fn new_items_go_as_far_forward_as_the_patch_allows() {
    let list = |names: &str| -> Value {
        let items = names.chars().map(|name| json!({"name": name.to_string()}));
        Value::Array(items.collect())
    };
    assert_eq!(names(&json!({"containers": list("z")})), "zabc");
    assert_eq!(names(&json!({"containers": list("zby")})), "zabyc");
    assert_eq!(names(&json!({"containers": list("ca")})), "bca");
    assert_eq!(
        names(&json!({"$setElementOrder/containers": list("ca")})),
        "bca"
    );
    let both = json!({"$setElementOrder/containers": list("zca"), "containers": list("z")});
    assert_eq!(names(&both), "zbca");
}

#[test]
fn copies_are_bounded() {
    let live = json!({"a": "x".repeat(1 << 20)});
    let copy = json!({"op": "copy", "from": "/a", "path": "/b"});
    let patch = Value::Array(vec![copy; 4]);
    assert_eq!(json_patch(&live, &patch), Err(Error::Operation));
    let nested = json!({"op": "copy", "from": "", "path": "/b"});
    let patch = Value::Array(vec![nested; 10_000]);
    assert!(json_patch(&json!({}), &patch).is_err());
}

#[test]
fn operations_are_counted() {
    let patch = Value::Array(vec![json!({"op": "test", "path": ""}); 10_001]);
    assert_eq!(
        json_patch(&json!({}), &patch),
        Err(Error::TooManyOperations(10_001))
    );
}

#[test]
fn deep_patches_are_refused() {
    let mut deep = json!({});
    for _ in 0..1000 {
        deep = json!({ "a": deep });
    }
    assert_eq!(merge_patch(&json!({}), &deep), Err(Error::TooDeep));
    assert_eq!(pod(&deep), Err(Error::TooDeep));
}
