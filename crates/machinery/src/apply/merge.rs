//! Merges what a manager applies into the live object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::Element;
use super::typed::{Form, element_of, form, grouped};
use crate::table::Shape;

/// The live value with the applied one laid over it.
pub(super) fn merge(live: &Value, applied: &Value, shape: Shape<'_>) -> Value {
    merge_pair(Some(live), Some(applied), shape).unwrap_or(Value::Null)
}

/// Nothing if neither side leaves an entry.
fn merge_pair(live: Option<&Value>, applied: Option<&Value>, shape: Shape<'_>) -> Option<Value> {
    // Where the forms differ, the applied one decides and the other side counts as absent.
    let form = form(applied.or(live)?, shape);
    let leaf = || applied.or(live).cloned();
    match form {
        Form::Leaf => leaf(),
        Form::Map => {
            let live = live
                .and_then(Value::as_object)
                .filter(|map| !map.is_empty());
            let applied = applied
                .and_then(Value::as_object)
                .filter(|map| !map.is_empty());
            match (live, applied) {
                (None, None) => leaf(),
                (live, applied) => merge_maps(live, applied, shape),
            }
        }
        Form::List => {
            let (left, right) = (items(live), items(applied));
            if left.is_empty() && right.is_empty() {
                return leaf();
            }
            let merged = Lists::new(left, right, shape).merge();
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
    }
}

fn items(side: Option<&Value>) -> &[Value] {
    side.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn merge_maps(
    live: Option<&Map<String, Value>>,
    applied: Option<&Map<String, Value>>,
    shape: Shape<'_>,
) -> Option<Value> {
    let mut keys: BTreeSet<&String> = BTreeSet::new();
    keys.extend(live.into_iter().flat_map(Map::keys));
    keys.extend(applied.into_iter().flat_map(Map::keys));
    let mut result = Map::new();
    for key in keys {
        let (a, b) = (
            live.and_then(|map| map.get(key)),
            applied.and_then(|map| map.get(key)),
        );
        if let Some(value) = merge_pair(a, b, shape.child_or_deduced(key)) {
            result.insert(key.clone(), value);
        }
    }
    (!result.is_empty()).then_some(Value::Object(result))
}

/// Two lists whose items are told apart.
///
/// Shared items take the order of the applied list, live-only items keep theirs and stay in front
/// of the applied items that come next.
struct Lists<'a> {
    live: Vec<(Element, &'a Value)>,
    applied: Vec<(Element, &'a Value)>,
    /// Live items by element; more than one copy counts as none to merge with.
    counterparts: BTreeMap<Element, Vec<&'a Value>>,
    in_applied: BTreeSet<Element>,
    shape: Shape<'a>,
}

impl<'a> Lists<'a> {
    fn new(live: &'a [Value], applied: &'a [Value], shape: Shape<'a>) -> Self {
        let keyed = |items: &'a [Value]| -> Vec<(Element, &'a Value)> {
            let keyed = items.iter().map(|item| (element_of(item, shape), item));
            keyed.collect()
        };
        let applied_items = keyed(applied);
        Self {
            live: keyed(live),
            counterparts: grouped(live, shape),
            in_applied: applied_items.iter().map(|(key, _)| key.clone()).collect(),
            applied: applied_items,
            shape,
        }
    }

    fn merge(&self) -> Vec<Value> {
        let (mut i, mut j) = (0, 0);
        let mut emitted: BTreeSet<&Element> = BTreeSet::new();
        let mut result = Vec::new();
        let mut shared = self
            .applied
            .iter()
            .map(|(key, _)| key)
            .filter(|key| self.counterparts.contains_key(*key))
            .peekable();
        while i < self.live.len() || j < self.applied.len() {
            while shared.next_if(|key| emitted.contains(key)).is_some() {}
            let next_shared = shared.peek().copied();
            if let (Some((left, _)), Some((right, item))) = (self.live.get(i), self.applied.get(j))
            {
                if left == right {
                    result.extend(self.item(right, item));
                    emitted.insert(right);
                    (i, j) = (i + 1, j + 1);
                    continue;
                }
                if self.in_applied.contains(left) && next_shared.is_some_and(|key| key != left) {
                    i += 1;
                    continue;
                }
            }
            if let Some((left, item)) = self.live.get(i) {
                if !self.in_applied.contains(left) {
                    result.extend(merge_pair(Some(item), None, self.shape.items()));
                    i += 1;
                    continue;
                }
                if emitted.contains(left) {
                    i += 1;
                }
            }
            if let Some((right, item)) = self.applied.get(j) {
                if emitted.insert(right) {
                    result.extend(self.item(right, item));
                }
                j += 1;
            }
        }
        result
    }

    fn item(&self, key: &Element, applied: &Value) -> Option<Value> {
        let live = match self.counterparts.get(key).map(Vec::as_slice) {
            Some([one]) => Some(*one),
            _ => None,
        };
        merge_pair(live, Some(applied), self.shape.items())
    }
}
