//! Taking paths out of values, and the set operations pruning needs.

use serde_json::{Map, Value};

use super::path::{Element, PathSet};
use super::typed::{Form, element_of, form};
use crate::table::Shape;

/// The value without the entries in the set.
///
/// A container emptied by descending into it becomes null, and so does a container that cannot be
/// descended into although the set points there.
pub(super) fn remove(value: &Value, set: &PathSet, shape: Shape<'_>) -> Value {
    match (value, form(value, shape)) {
        (Value::Object(map), Form::Map) => {
            let mut result = Map::new();
            for (key, value) in map {
                let child = shape.child_or_deduced(key);
                if let Some(value) = kept(value, &Element::field(key), set, child) {
                    result.insert(key.clone(), value);
                }
            }
            if result.is_empty() {
                Value::Null
            } else {
                Value::Object(result)
            }
        }
        (Value::Array(items), Form::List) => {
            let items: Vec<Value> = items
                .iter()
                .filter_map(|item| kept(item, &element_of(item, shape), set, shape.items()))
                .collect();
            if items.is_empty() {
                Value::Null
            } else {
                Value::Array(items)
            }
        }
        (Value::Object(_) | Value::Array(_), _) => Value::Null,
        (scalar, _) => scalar.clone(),
    }
}

fn kept(value: &Value, element: &Element, set: &PathSet, shape: Shape<'_>) -> Option<Value> {
    if set.members.contains(element) {
        return None;
    }
    Some(match set.below(element) {
        Some(below) => remove(value, below, shape),
        None => value.clone(),
    })
}

/// The set with every declared field that leads to one of its paths.
pub(super) fn named(set: &PathSet, shape: Shape<'_>) -> PathSet {
    let mut result = PathSet {
        members: set.members.clone(),
        ..PathSet::default()
    };
    for (element, below) in &set.children {
        let child = match element {
            Element::Field(name) => {
                if shape.field(name).is_some() {
                    result.members.insert(element.clone());
                }
                shape.child_or_deduced(name)
            }
            _ => shape.items(),
        };
        result.children.insert(element.clone(), named(below, child));
    }
    result
}

/// The set as the shape now sees it: paths below what has become atomic turn into that path.
pub(super) fn reconciled(set: &PathSet, shape: Shape<'_>) -> PathSet {
    let mut result = PathSet {
        members: set.members.clone(),
        ..PathSet::default()
    };
    for (element, below) in &set.children {
        let child = match element {
            Element::Field(name) => shape.child_or_deduced(name),
            _ => shape.items(),
        };
        if is_atomic(child) && !below.is_empty() {
            result.members.insert(element.clone());
        } else {
            let below = reconciled(below, child);
            result.children.insert(element.clone(), below);
        }
    }
    result
}

/// Only shapes with a single container form can have changed from granular to atomic.
fn is_atomic(shape: Shape<'_>) -> bool {
    match (shape.is_map(), shape.list().is_some()) {
        (true, false) => shape.is_atomic_map(),
        (false, true) => shape.is_atomic_list(),
        _ => false,
    }
}
