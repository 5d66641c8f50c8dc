//! The smallest handling of custom resources that the sequences need: pruning, defaults, types.

use serde_json::{Map, Value};

/// A value that its schema does not allow: path, text.
pub(crate) struct Mistake(pub(crate) String, pub(crate) String);

/// Drops fields that the schema does not declare; returns their paths.
pub(crate) fn prune(value: &mut Value, schema: &Value, path: &str) -> Vec<String> {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return Vec::new();
    }
    let mut dropped = Vec::new();
    match value {
        Value::Object(map) => {
            let declared = schema["properties"].as_object();
            let other = schema.get("additionalProperties");
            let unknown: Vec<String> = map
                .keys()
                .filter(|key| other.is_none() && declared.is_none_or(|d| !d.contains_key(*key)))
                .cloned()
                .collect();
            for key in unknown {
                map.remove(&key);
                dropped.push(below(path, &key));
            }
            for (key, value) in map {
                let schema = declared.and_then(|d| d.get(key)).or(other);
                let schema = schema.unwrap_or(&Value::Null);
                dropped.extend(prune(value, schema, &below(path, key)));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                dropped.extend(prune(item, &schema["items"], &format!("{path}[{index}]")));
            }
        }
        _ => {}
    }
    dropped
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Fills in defaults.
pub(crate) fn default(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            let declared = schema["properties"].as_object();
            for (key, schema) in declared.into_iter().flatten() {
                let nulled = map.get(key).is_some_and(Value::is_null);
                let drops = nulled && schema["nullable"] != true;
                if let Some(default) = schema.get("default")
                    && (drops || !map.contains_key(key))
                {
                    map.insert(key.clone(), default.clone());
                }
                if let Some(value) = map.get_mut(key) {
                    self::default(value, schema);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                default(item, &schema["items"]);
            }
        }
        _ => {}
    }
}

/// The first value of a wrong type.
pub(crate) fn validate(value: &Value, schema: &Value, path: &str) -> Result<(), Mistake> {
    let got = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_some_and(|n| n.fract() == 0.0) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let nullable = value.is_null() && schema["nullable"] == true;
    if let Some(wanted) = schema["type"].as_str()
        && wanted != got
        && !nullable
    {
        let text =
            format!("Invalid value: {got:?}: {path} in body must be of type {wanted}: {got:?}");
        return Err(Mistake(path.to_owned(), text));
    }
    let empty = Map::new();
    for (key, value) in value.as_object().unwrap_or(&empty) {
        let schema = schema["properties"]
            .get(key)
            .or(schema.get("additionalProperties"))
            .unwrap_or(&Value::Null);
        validate(value, schema, &below(path, key))?;
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        validate(item, &schema["items"], &format!("{path}[{index}]"))?;
    }
    Ok(())
}
