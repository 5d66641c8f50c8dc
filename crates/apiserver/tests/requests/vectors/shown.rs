//! Objects, managers and definitions in the form of the recordings.

use serde_json::{Value, json};

const CUSTOM: &str = include_str!("../../../../machinery/fixtures/vectors/custom.json");

/// The definition of a custom kind of the recordings.
pub(crate) fn definition(kind: &str) -> Option<Value> {
    let customs: Value = serde_json::from_str(CUSTOM).unwrap();
    let custom = customs.get(kind)?;
    let (group, plural) = (&custom["group"], &custom["plural"]);
    let versions = custom["versions"].as_object().unwrap().iter();
    let versions: Vec<Value> = versions
        .map(|(name, version)| {
            let mut subresources = json!({});
            if version["status"] == true {
                subresources["status"] = json!({});
            }
            if version["scale"].is_object() {
                subresources["scale"] = version["scale"].clone();
            }
            json!({
                "name": name, "served": true, "storage": name == "v1",
                "subresources": subresources,
                "schema": {"openAPIV3Schema": version["schema"]},
            })
        })
        .collect();
    let name = format!("{}.{}", plural.as_str().unwrap(), group.as_str().unwrap());
    Some(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": versions,
        },
    }))
}

/// The resource of a built-in kind of the recordings.
pub(crate) fn plural(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

/// An object without what differs from run to run.
pub(crate) fn object(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(key);
        }
        if let Some(time) = metadata.get_mut("deletionTimestamp") {
            *time = json!("TIME");
        }
    }
    object
}

/// Who manages what, without times.
pub(crate) fn managers(list: &Value) -> Value {
    let entries = list.as_array().into_iter().flatten().map(|entry| {
        json!([
            entry["manager"],
            entry["operation"],
            entry["apiVersion"],
            entry["subresource"].as_str().unwrap_or_default(),
            entry.get("time").is_some(),
            entry["fieldsV1"],
        ])
    });
    sorted(&json!(entries.collect::<Vec<_>>()))
}

/// The order of managers depends on times, which the recordings leave out.
pub(crate) fn sorted(list: &Value) -> Value {
    let mut list = list.as_array().cloned().unwrap_or_default();
    list.sort_by_cached_key(Value::to_string);
    Value::Array(list)
}

/// Managers without whether they had a time.
pub(crate) fn untimed(managers: &Value) -> Value {
    let mut managers = managers.clone();
    for manager in managers.as_array_mut().into_iter().flatten() {
        manager[4] = Value::Null;
    }
    sorted(&managers)
}

/// Managers whose time differs between two objects.
pub(crate) fn retimed(before: &Value, after: &Value) -> Value {
    let entries = |object: &Value| {
        let list = object["metadata"]["managedFields"].as_array().cloned();
        list.unwrap_or_default()
    };
    let identity = |entry: &Value| {
        ["manager", "operation", "apiVersion", "subresource"].map(|key| entry[key].clone())
    };
    let old = entries(before);
    let changed = entries(after).into_iter().filter(|entry| {
        let old = old.iter().find(|old| identity(old) == identity(entry));
        old.and_then(|old| old.get("time")) != entry.get("time")
    });
    json!(
        changed
            .map(|entry| entry["manager"].clone())
            .collect::<Vec<_>>()
    )
}

/// Causes as reason, field and text, in an order of their own.
pub(crate) fn causes(list: &Value) -> Value {
    let causes = list.as_array().into_iter().flatten();
    let texts = |cause: &Value| {
        ["reason", "field", "message"].map(|key| cause[key].as_str().unwrap_or_default().to_owned())
    };
    let mut causes: Vec<[String; 3]> = causes.map(texts).collect();
    causes.sort();
    json!(causes)
}
