//! Walks an object along its type and finds the rules of the types on the way.

use crate::table::{Shape, table};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Rules by the type they hang on.
pub(super) struct Index<T: 'static> {
    types: BTreeMap<usize, &'static T>,
}

impl<T> Index<T> {
    /// Rules by the names of their types, without the common prefix.
    pub(super) fn new(rules: &'static [(&'static str, T)]) -> Self {
        let named = |name: &str| table().named(&format!("io.k8s.{name}")).and_then(identity);
        let types = rules
            .iter()
            .filter_map(|(name, rules)| Some((named(name)?, rules)));
        Self {
            types: types.collect(),
        }
    }

    /// The rules of a type.
    pub(super) fn get(&self, shape: Shape<'_>) -> Option<&'static T> {
        self.types.get(&identity(shape)?).copied()
    }
}

/// A type lies in the table once, so the address of its first field tells it apart from all others.
fn identity(shape: Shape<'_>) -> Option<usize> {
    shape
        .fields()
        .next()
        .map(|(_, field)| std::ptr::from_ref(field).addr())
}

/// Shows every struct of a value to `act`, parents before children.
pub(super) fn change(
    value: &mut Value,
    shape: Shape<'_>,
    act: &mut dyn FnMut(&mut Map<String, Value>, Shape<'_>),
) {
    match value {
        Value::Object(map) if shape.is_map() && !shape.is_deduced() => {
            act(map, shape);
            for (key, child) in map
                .iter_mut()
                .filter(|(_, child)| child.is_object() || child.is_array())
            {
                if let Some(shape) = shape.child(key) {
                    change(child, shape, act);
                }
            }
        }
        Value::Array(items) if shape.list().is_some() && !shape.is_deduced() => {
            for item in items {
                change(item, shape.items(), act);
            }
        }
        _ => {}
    }
}

/// Like [`change`] for reading; `act` also gets the path. Status is not shown: it has its own checks.
pub(super) fn visit<'a>(
    value: &'a Value,
    shape: Shape<'_>,
    act: &mut dyn FnMut(&'a Value, &str, Shape<'_>),
) {
    descend(value, shape, &mut String::new(), act);
}

fn descend<'a>(
    value: &'a Value,
    shape: Shape<'_>,
    path: &mut String,
    act: &mut dyn FnMut(&'a Value, &str, Shape<'_>),
) {
    let length = path.len();
    match value {
        Value::Object(map) if shape.is_map() && !shape.is_deduced() => {
            act(value, path, shape);
            for (key, child) in map
                .iter()
                .filter(|(_, child)| child.is_object() || child.is_array())
            {
                let Some(shape) = shape.child(key).filter(|_| length > 0 || key != "status") else {
                    continue;
                };
                if length > 0 {
                    path.push('.');
                }
                path.push_str(key);
                descend(child, shape, path, act);
                path.truncate(length);
            }
        }
        Value::Array(items) if shape.list().is_some() && !shape.is_deduced() => {
            for (index, item) in items.iter().enumerate() {
                let _ = write!(path, "[{index}]");
                descend(item, shape.items(), path, act);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
