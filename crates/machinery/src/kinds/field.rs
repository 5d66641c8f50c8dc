//! What a field selector may name, and where it is found.

use crate::table::{Scalar, Shape};

/// A field that a selector may name beside name and namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectableField {
    /// The name in the selector.
    pub name: &'static str,
    /// Dotted paths into the object; the first that leads to something gives the value.
    pub paths: &'static [&'static str],
    /// What an absent field counts as: the zero of its type.
    pub default: &'static str,
}

/// Fields whose name is not their path. An event of a new reporter has no source but has a reporter.
const ELSEWHERE: &[(&str, &[&str])] = &[
    ("status.podIP", &["status.podIPs.0.ip"]),
    ("status.podIPs", &["status.podIPs.0.ip"]),
    ("status.successful", &["status.succeeded"]),
    ("source", &["source.component", "reportingComponent"]),
];

/// A field of a kind, by its name.
pub(super) fn named(name: &'static &'static str, shape: Option<Shape<'_>>) -> SelectableField {
    let elsewhere = ELSEWHERE.iter().find(|(known, _)| known == name);
    let paths = elsewhere.map_or(std::slice::from_ref(name), |(_, paths)| *paths);
    SelectableField {
        name,
        paths,
        default: shape.map_or("", |shape| zero(shape, paths[0])),
    }
}

fn zero(shape: Shape<'_>, path: &str) -> &'static str {
    let mut steps = path.split('.');
    let scalar = steps.try_fold(shape, |shape, step| {
        if shape.list().is_some() {
            Some(shape.items())
        } else {
            shape.child(step)
        }
    });
    match scalar.and_then(Shape::scalar) {
        Some(Scalar::Boolean) => "false",
        Some(Scalar::Int32 | Scalar::Int64) => "0",
        _ => "",
    }
}
