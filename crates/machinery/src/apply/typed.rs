//! Values read through their shape: which form a value takes, which paths it sets, and what is
//! wrong with it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::{Element, PathSet, path_text};
use crate::table::{ListKind, Scalar, Shape};

/// The form in which a value is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One value: a scalar, or a container that is replaced as a whole.
    Leaf,
    /// A list whose items are told apart.
    List,
    /// A map whose entries are told apart.
    Map,
}

/// The form a value takes. Null takes the first form its shape allows: map, scalar, list.
pub(super) fn form(value: &Value, shape: Shape<'_>) -> Form {
    match value {
        Value::Array(_) => list_form(shape),
        Value::Object(_) => map_form(shape),
        Value::Null if shape.is_map() => map_form(shape),
        Value::Null if shape.scalar().is_none() => list_form(shape),
        _ => Form::Leaf,
    }
}

fn map_form(shape: Shape<'_>) -> Form {
    if shape.is_atomic_map() {
        Form::Leaf
    } else {
        Form::Map
    }
}

fn list_form(shape: Shape<'_>) -> Form {
    match shape.list() {
        Some(ListKind::Set | ListKind::Map(_)) => Form::List,
        Some(ListKind::Atomic) | None => Form::Leaf,
    }
}

/// The paths a value sets.
pub(super) fn field_set(value: &Value, shape: Shape<'_>) -> PathSet {
    let mut set = PathSet::default();
    collect(value, shape, &mut set);
    set
}

/// Adds the paths below a value; returns whether the value itself is one.
fn collect(value: &Value, shape: Shape<'_>, set: &mut PathSet) -> bool {
    match (value, form(value, shape)) {
        (Value::Array(items), Form::List) => {
            for (element, group) in grouped(items, shape) {
                let mut below = PathSet::default();
                if let [item] = group.as_slice() {
                    collect(item, shape.items(), &mut below);
                }
                add(set, element, true, below);
            }
            false
        }
        (Value::Object(map), Form::Map) => {
            for (key, value) in map {
                let mut below = PathSet::default();
                let leaf = collect(value, shape.child_or_deduced(key), &mut below);
                let nothing = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                let own = leaf || nothing || shape.field(key).is_none();
                add(set, Element::field(key), own, below);
            }
            false
        }
        _ => true,
    }
}

fn add(set: &mut PathSet, element: Element, own: bool, below: PathSet) {
    if !below.is_empty() {
        set.children.insert(element.clone(), below);
    }
    if own {
        set.members.insert(element);
    }
}

/// List items by their element; duplicates stay together, in their order.
pub(super) fn grouped<'v>(
    items: &'v [Value],
    shape: Shape<'_>,
) -> BTreeMap<Element, Vec<&'v Value>> {
    let mut groups: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for item in items {
        groups
            .entry(element_of(item, shape))
            .or_default()
            .push(item);
    }
    groups
}

/// How an item of a list with this shape is addressed. Keys that are missing are completed by
/// defaults; keys without a default are left out.
pub(super) fn element_of(item: &Value, shape: Shape<'_>) -> Element {
    match shape.list() {
        Some(ListKind::Map(keys)) => {
            let mut pairs: Vec<(String, Value)> = keys
                .iter()
                .filter_map(|key| {
                    let default = || shape.items().field(key)?.default.as_ref();
                    let value = item.get(key).or_else(default)?;
                    Some((key.clone(), value.clone()))
                })
                .collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            Element::Key(pairs)
        }
        _ => Element::Value(item.clone()),
    }
}

/// What does not fit the shape, as the reference server words it; empty if all fits.
pub(super) fn mistakes(value: &Value, shape: Shape<'_>) -> Vec<String> {
    let mut check = Check::default();
    check.value(value, shape);
    check.found
}

/// Whether a value has paths at all: one that does not fit its shape has none, but items that are
/// there twice do no harm.
pub(super) fn fits(value: &Value, shape: Shape<'_>) -> bool {
    let mut check = Check {
        allows_duplicates: true,
        ..Check::default()
    };
    check.value(value, shape);
    check.found.is_empty()
}

#[derive(Default)]
struct Check {
    path: Vec<Element>,
    found: Vec<String>,
    allows_duplicates: bool,
}

impl Check {
    fn report(&mut self, text: &str) {
        let path = path_text(&self.path);
        self.found.push(if path.is_empty() {
            text.to_owned()
        } else {
            format!("{path}: {text}")
        });
    }

    fn value(&mut self, value: &Value, shape: Shape<'_>) {
        match value {
            Value::Null => {}
            Value::Array(items) if shape.list().is_some() => self.list(items, shape),
            Value::Object(map) if shape.is_map() => {
                for (key, value) in map {
                    self.path.push(Element::field(key));
                    match shape.child(key) {
                        Some(child) => self.value(value, child),
                        None => self.report("field not declared in schema"),
                    }
                    self.path.pop();
                }
            }
            _ => self.scalar(value, shape),
        }
    }

    fn scalar(&mut self, value: &Value, shape: Shape<'_>) {
        let got = match value {
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "float",
            Value::Number(_) => "int",
            Value::String(_) => "string",
            Value::Array(_) => "list",
            Value::Object(_) => "map",
            Value::Null => "null",
        };
        let (fits, expected) = match shape.scalar() {
            Some(Scalar::Text | Scalar::Bytes) => (value.is_string(), "string"),
            Some(Scalar::Int32 | Scalar::Int64 | Scalar::Number) => {
                (value.is_number(), "numeric (int or float)")
            }
            Some(Scalar::Boolean) => (value.is_boolean(), "boolean"),
            Some(_) => (!value.is_array() && !value.is_object(), "scalar"),
            None if shape.is_map() => (false, "map"),
            None => (false, "list"),
        };
        if !fits {
            self.report(&format!("expected {expected}, got {got}"));
        }
    }

    fn list(&mut self, items: &[Value], shape: Shape<'_>) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let element = match shape.list() {
                Some(ListKind::Map(keys)) => match keyed(item, keys, shape) {
                    Ok(element) => element,
                    Err(text) => {
                        self.report(&format!("element {index}: {text}"));
                        continue;
                    }
                },
                Some(ListKind::Set) => match set_item(item) {
                    Ok(element) => element,
                    Err(text) => {
                        self.report(&format!("element {index}: {text}"));
                        continue;
                    }
                },
                _ => Element::Index(i64::try_from(index).unwrap_or(i64::MAX)),
            };
            if !seen.insert(element.clone()) && !self.allows_duplicates {
                self.report(&format!("duplicate entries for key {element}"));
            }
            self.path.push(element);
            self.value(item, shape.items());
            self.path.pop();
        }
    }
}

fn keyed(item: &Value, keys: &[String], shape: Shape<'_>) -> Result<Element, String> {
    match item {
        Value::Null => Err("associative list with keys may not have a null element".to_owned()),
        Value::Object(_) => {
            let element = element_of(item, shape);
            if element != Element::Key(Vec::new()) {
                return Ok(element);
            }
            let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            Err(format!(
                "associative list with keys has an element that omits all key fields [{}] \
                 (and doesn't have default values for any key fields)",
                names.join(" ")
            ))
        }
        _ => Err("associative list with keys may not have non-map elements".to_owned()),
    }
}

fn set_item(item: &Value) -> Result<Element, &'static str> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type"),
        Value::Array(_) => Err("not supported: associative list with lists as elements"),
        Value::Null => Err("associative list without keys has an element that's an explicit null"),
        _ => Ok(Element::Value(item.clone())),
    }
}
