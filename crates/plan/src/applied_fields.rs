//! Does a manager still own every field it applied?
//!
//! Kubernetes takes a field away from its managers when somebody else changes or removes its
//! value. So an object is as we applied it exactly when the `fieldsV1` of our entry in
//! `managedFields` still covers all we applied: no value has to be compared, and what
//! the API server writes differently (`1000m` as `1`) is no difference.
//!
//! ```text
//! applied  {"spec": {"containers": [{"name": "a", "image": "x"}]}}
//! fieldsV1 {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}}}}}
//! ```

use serde_json::{Map, Value};

/// Parts of an applied object that `managedFields` never lists.
const UNLISTED_METADATA: [&str; 5] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generateName",
];

/// Whether the `fieldsV1` of a manager's entry covers every field of what it applied.
pub fn covers(fields: &Value, applied: &Value) -> bool {
    let (Value::Object(fields), Value::Object(applied)) = (fields, applied) else {
        return false;
    };
    applied
        .iter()
        .all(|(name, value)| match (name.as_str(), value) {
            ("apiVersion" | "kind", _) => true,
            ("metadata", Value::Object(metadata)) => covers_metadata(fields, metadata),
            _ => covers_field(fields, name, value),
        })
}

fn covers_metadata(fields: &Map<String, Value>, metadata: &Map<String, Value>) -> bool {
    let listed: Map<String, Value> = metadata
        .iter()
        .filter(|(name, _)| !UNLISTED_METADATA.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    listed.is_empty() || covers_field(fields, "metadata", &Value::Object(listed))
}

fn covers_field(fields: &Map<String, Value>, name: &str, value: &Value) -> bool {
    match value {
        // Apply drops nulls, and an empty map or list of maps leaves nothing to list below it.
        Value::Null => true,
        Value::Object(map) if map.is_empty() => true,
        Value::Array(items) if items.is_empty() => true,
        _ => fields
            .get(&format!("f:{name}"))
            .is_some_and(|below| covers_value(below, value)),
    }
}

fn covers_value(fields: &Value, value: &Value) -> bool {
    let Value::Object(fields) = fields else {
        return false;
    };
    if is_leaf(fields) {
        return true; // a scalar, or a map or list that is owned as a whole
    }
    match value {
        Value::Object(map) => map
            .iter()
            .all(|(name, value)| covers_field(fields, name, value)),
        Value::Array(items) => items.iter().all(|item| covers_item(fields, item)),
        _ => false,
    }
}

/// Nothing listed below: the whole value is owned.
fn is_leaf(fields: &Map<String, Value>) -> bool {
    fields.keys().all(|key| key == ".")
}

/// An item of a list with keys (`k:`) or of a set (`v:`).
fn covers_item(fields: &Map<String, Value>, item: &Value) -> bool {
    fields.iter().any(|(key, below)| {
        if let Some(keys) = key.strip_prefix("k:") {
            has_keys(item, keys) && covers_value(below, item)
        } else if let Some(member) = key.strip_prefix("v:") {
            serde_json::from_str::<Value>(member).is_ok_and(|member| member == *item)
        } else {
            false
        }
    })
}

/// Whether an item is the one with these keys. A key the item leaves out has a default, which only
/// the API server knows, so it says nothing.
fn has_keys(item: &Value, keys: &str) -> bool {
    let Ok(Value::Object(keys)) = serde_json::from_str::<Value>(keys) else {
        return false;
    };
    keys.iter()
        .all(|(key, value)| item.get(key).is_none_or(|own| own == value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::covers;

    fn fields() -> serde_json::Value {
        json!({
            "f:metadata": { "f:labels": { "f:app": {} }, "f:ownerReferences": { "k:{\"uid\":\"u\"}": {} } },
            "f:spec": {
                "f:replicas": {},
                "f:selector": {},
                "f:template": { "f:spec": {
                    "f:nodeSelector": {},
                    "f:containers": { "k:{\"name\":\"a\"}": {
                        ".": {}, "f:name": {}, "f:image": {},
                        "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:containerPort": {} } },
                    } },
                } },
            },
        })
    }

    fn applied() -> serde_json::Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "x", "uid": "1", "labels": { "app": "a" }, "ownerReferences": [{ "uid": "u", "kind": "G" }] },
            "spec": {
                "replicas": 2,
                "selector": { "matchLabels": { "app": "a" } },
                "template": { "metadata": {}, "spec": {
                    "nodeSelector": { "zone": "b" },
                    "containers": [{ "name": "a", "image": "i", "ports": [{ "containerPort": 80 }], "env": [] }],
                } },
            },
        })
    }

    #[test]
    fn what_was_applied_and_left_alone_is_covered() {
        assert!(covers(&fields(), &applied()));
    }

    #[test]
    fn a_field_taken_over_by_somebody_else_is_not_covered() {
        for pointer in [
            "/f:spec/f:replicas",
            "/f:metadata/f:labels/f:app",
            "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"a\"}/f:image",
            "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"a\"}/f:ports/k:{\"containerPort\":80,\"protocol\":\"TCP\"}",
        ] {
            let mut fields = fields();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            let parent = fields.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            assert!(parent.remove(field).is_some(), "{pointer}");
            // A parent that would look like a leaf keeps another field, as on the server it would vanish itself.
            parent.insert("f:other".into(), json!({}));
            assert!(!covers(&fields, &applied()), "{pointer}");
        }
    }

    #[test]
    fn a_new_item_of_a_keyed_list_is_not_covered() {
        let mut applied = applied();
        applied["spec"]["template"]["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "b", "image": "i" }));
        assert!(!covers(&fields(), &applied));
    }

    #[test]
    fn members_of_a_set_are_compared_by_value() {
        let fields = json!({ "f:metadata": { "f:finalizers": { ".": {}, "v:\"a\"": {} } } });
        assert!(covers(
            &fields,
            &json!({ "metadata": { "finalizers": ["a"] } })
        ));
        assert!(!covers(
            &fields,
            &json!({ "metadata": { "finalizers": ["a", "b"] } })
        ));
    }
}
