//! An object seen along its schema.

use super::Schema;
use serde_json::Value;

/// Shows every value that has a schema, with its path: names behind dots, keys of maps in brackets.
pub(super) fn visit(
    schema: &Schema,
    value: &Value,
    path: &str,
    act: &mut dyn FnMut(&Schema, &Value, &str),
) {
    act(schema, value, path);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(property) = schema.properties.get(key) {
                    let dot = if path.is_empty() { "" } else { "." };
                    visit(property, value, &format!("{path}{dot}{key}"), act);
                } else if let Some(additional) = schema.additional_schema() {
                    visit(additional, value, &format!("{path}[{key}]"), act);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if let Some(below) = &schema.items {
                    visit(below, item, &format!("{path}[{index}]"), act);
                }
            }
        }
        _ => {}
    }
}
