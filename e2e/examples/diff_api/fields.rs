//! The fields of a kind: what the generator aims at, and what coverage counts.

use std::collections::BTreeSet;

use edgegrid_machinery::table::{Scalar, Shape};
use serde_json::Value;

/// One step from an object towards a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Field(String),
    /// Some item of a list.
    Item,
    /// Some key of a free map.
    Key,
}

pub(crate) type Path = Vec<Step>;

/// Named fields on the way to the deepest field that counts.
const DEPTH: usize = 5;

/// What only servers write.
const SERVER_OWNED: [&str; 11] = [
    "apiVersion",
    "kind",
    "metadata.creationTimestamp",
    "metadata.deletionGracePeriodSeconds",
    "metadata.deletionTimestamp",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.name",
    "metadata.namespace",
    "metadata.resourceVersion",
    "metadata.selfLink",
];

/// Every field of a shape, parents before children.
pub(crate) fn all(shape: Shape<'_>) -> Vec<Path> {
    let mut found = Vec::new();
    walk(shape, &mut Vec::new(), 0, &mut found);
    found
}

fn walk(shape: Shape<'_>, path: &mut Path, depth: usize, found: &mut Vec<Path>) {
    // Where anything may stand, nothing is declared.
    if shape.scalar() == Some(Scalar::Any) || depth >= DEPTH {
        return;
    }
    if shape.list().is_some() && shape.scalar().is_none() {
        path.push(Step::Item);
        walk(shape.items(), path, depth, found);
        path.pop();
    }
    for (name, field) in shape.fields() {
        path.push(Step::Field(name.to_owned()));
        if !is_server_owned(path) {
            found.push(path.clone());
            walk(shape.field_shape(field), path, depth + 1, found);
        }
        path.pop();
    }
    if let Some(others) = shape.others() {
        path.push(Step::Key);
        walk(others, path, depth, found);
        path.pop();
    }
}

fn is_server_owned(path: &Path) -> bool {
    let name = text(path);
    is_ephemeral(&name)
        || SERVER_OWNED.contains(&&*name)
        || name == "metadata.uid"
        || name.ends_with("metadata.managedFields")
}

/// Ephemeral containers come through a subresource of their own; everywhere else they are refused.
fn is_ephemeral(name: &str) -> bool {
    name.contains("ephemeralContainers[]")
}

/// A path in the form in which it is printed and counted.
pub(crate) fn text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Item => text.push_str("[]"),
            Step::Key => text.push_str("{}"),
        }
    }
    text
}

/// Notes every field that a body has.
pub(crate) fn record(body: &Value, shape: Shape<'_>, seen: &mut BTreeSet<String>) {
    visit(body, shape, &mut Vec::new(), seen);
}

fn visit(value: &Value, shape: Shape<'_>, path: &mut Path, seen: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => {
            path.push(Step::Item);
            for item in items {
                visit(item, shape.items(), path, seen);
            }
            path.pop();
        }
        Value::Object(map) => {
            for (name, value) in map {
                let Some(child) = shape.child(name) else {
                    continue;
                };
                let is_field = shape.field(name).is_some();
                path.push(if is_field {
                    Step::Field(name.clone())
                } else {
                    Step::Key
                });
                if is_field && !value.is_null() {
                    seen.insert(text(path));
                }
                visit(value, child, path, seen);
                path.pop();
            }
        }
        _ => {}
    }
}
