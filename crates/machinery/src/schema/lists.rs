//! Sets have no item twice, map lists no key twice.

use super::{ListType, Schema, walk};
use crate::status::FieldError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Violations anywhere in the object; paths of map keys are in brackets.
pub(super) fn errors(schema: &Schema, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk::visit(
        schema,
        object,
        "",
        &mut |schema, value, path| match (&schema.list, value) {
            (ListType::Set, Value::Array(items)) => duplicates(items, path, &mut errors),
            (ListType::Map(keys), Value::Array(items)) => {
                map_list(keys, items, path, &mut errors);
            }
            _ => {}
        },
    );
    errors
}

fn map_list(keys: &[String], items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    if let Some(index) = items
        .iter()
        .position(|item| !item.is_object() && !item.is_null())
    {
        let why = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(
            format!("{path}[{index}]"),
            items[index].clone(),
            why,
        ));
        return;
    }
    let key_of = |item: &Value| {
        let present = keys
            .iter()
            .filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::from(present.collect::<Map<_, _>>())
    };
    duplicates(&items.iter().map(key_of).collect::<Vec<_>>(), path, errors);
}

/// Reports the second appearance of each repeated value, and no further one.
fn duplicates(items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(
                format!("{path}[{index}]"),
                item.clone(),
            ));
        }
    }
}
