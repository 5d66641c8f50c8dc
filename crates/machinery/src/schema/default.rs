//! Defaulting: absent values get what the schema says; nulls count as absent where they may not stay.

use super::Schema;
use serde_json::Value;

/// Drops null fields that are neither nullable nor have a default.
pub(super) fn drop_nulls(schema: Option<&Schema>, value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                let schema = schema.and_then(|schema| schema.child(key));
                let is_dropped =
                    value.is_null() && schema.is_some_and(|s| !s.nullable && s.default.is_none());
                if !is_dropped {
                    drop_nulls(schema, value);
                }
                !is_dropped
            });
        }
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                drop_nulls(schema, item);
            }
        }
        _ => {}
    }
}

/// Fills in defaults from the top, so that a default can itself be completed.
pub(super) fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, property) in &schema.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                if map
                    .get(key)
                    .is_none_or(|value| value.is_null() && !property.nullable)
                {
                    map.insert(key.clone(), default.clone());
                }
            }
            for (key, value) in map.iter_mut() {
                match (schema.properties.get(key), schema.additional_schema()) {
                    (Some(property), _) => fill(property, value),
                    (None, Some(additional)) => replace_null(additional, value),
                    (None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for item in items {
                    replace_null(schema, item);
                }
            }
        }
        _ => {}
    }
}

fn replace_null(schema: &Schema, value: &mut Value) {
    if let (Value::Null, false, Some(default)) = (&value, schema.nullable, &schema.default) {
        *value = default.clone();
    }
    fill(schema, value);
}
