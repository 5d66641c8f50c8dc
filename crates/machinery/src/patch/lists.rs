//! Lists under strategic merge patch: merging by key, and the order of the result.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Error;
use super::strategic::{DIRECTIVE, merge_map, unknown};
use crate::apply::Element;
use crate::table::Shape;

/// How one list is merged.
pub(super) struct List<'a> {
    /// The shape of its items.
    pub(super) items: Shape<'a>,
    /// Whether it is merged at all; otherwise it is replaced.
    pub(super) merges: bool,
    /// The field by which items are matched; scalars are matched by value.
    pub(super) key: Option<&'a str>,
}

impl List<'_> {
    /// An order list must hold all items of the patch that are not deleted, in the same order.
    pub(super) fn check_order(&self, patch: &[Value], order: &[Value]) -> Result<(), Error> {
        if patch.is_empty() || order.is_empty() {
            return Ok(());
        }
        let mut items = patch
            .iter()
            .filter(|item| self.key.is_none() || item[DIRECTIVE] != "delete")
            .map(|item| mark(item, self.key))
            .peekable();
        for wanted in order {
            let wanted = mark(wanted, self.key);
            items.next_if(|item| item.is_some() && *item == wanted);
        }
        match items.next() {
            None => Ok(()),
            Some(_) => Err(Error::Order {
                patch: Value::from(patch).to_string(),
                order: Value::from(order).to_string(),
            }),
        }
    }
}

/// Merges two lists, or takes the patch if the list is not merged.
pub(super) fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    rules: &List<'_>,
) -> Result<Vec<Value>, Error> {
    if !rules.merges {
        return Ok(patch);
    }
    let all = || original.iter().chain(&patch);
    let Some(first) = all().next() else {
        return Ok(original);
    };
    let kind = std::mem::discriminant(first);
    if first.is_array() || all().any(|item| std::mem::discriminant(item) != kind) {
        let items: Vec<String> = all().map(Value::to_string).collect();
        return Err(Error::ElementTypes(items.join(" ")));
    }
    if !first.is_object() {
        let merged = all().cloned().collect();
        return ordered(deduplicated(merged), &patch, &original, None);
    }
    let Some(key) = rules.key else {
        return Err(Error::NoMergeKey(first.to_string()));
    };
    let (original, patch) = special_items(original, patch, key)?;
    let merged = merge_items(original.clone(), &patch, key, rules.items)?;
    ordered(merged, &patch, &original, Some(key))
}

fn deduplicated(items: Vec<Value>) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    items
        .into_iter()
        .filter(|item| seen.insert(Element::Value(item.clone())))
        .collect()
}

/// Carries out the items that are directives; what is left of both lists is to be merged.
fn special_items(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut plain = Vec::new();
    let mut deleted = BTreeSet::new();
    let mut replaces = false;
    for item in patch {
        match item.get(DIRECTIVE).map(|directive| directive.as_str()) {
            None => plain.push(item),
            Some(Some("delete")) => match mark(&item, Some(key)) {
                Some(mark) => {
                    deleted.insert(mark);
                }
                None => return Err(no_key(&item, key)),
            },
            Some(Some("replace")) => replaces = true,
            Some(Some("merge")) => return Err(Error::MergingLists),
            Some(_) => {
                let map = item.as_object().cloned().unwrap_or_default();
                return Err(unknown(&item[DIRECTIVE], map));
            }
        }
    }
    if replaces {
        return Ok((plain, Vec::new()));
    }
    if !deleted.is_empty() {
        original.retain(|item| mark(item, Some(key)).is_none_or(|mark| !deleted.contains(&mark)));
    }
    Ok((original, plain))
}

fn no_key(item: &Value, key: &str) -> Error {
    Error::MergeKey {
        item: item.to_string(),
        key: key.to_owned(),
    }
}

/// Each item merges into the first one with its key, or is appended.
fn merge_items(
    mut original: Vec<Value>,
    patch: &[Value],
    key: &str,
    shape: Shape<'_>,
) -> Result<Vec<Value>, Error> {
    let mut positions: BTreeMap<Element, usize> = BTreeMap::new();
    for (index, item) in original.iter().enumerate() {
        if let Some(mark) = mark(item, Some(key)) {
            positions.entry(mark).or_insert(index);
        }
    }
    for item in patch {
        let mark = mark(item, Some(key)).ok_or_else(|| no_key(item, key))?;
        let Some(position) = positions.get(&mark).copied() else {
            positions.insert(mark, original.len());
            original.push(item.clone());
            continue;
        };
        let map = |value: &Value| -> Map<String, Value> {
            value.as_object().cloned().unwrap_or_default()
        };
        let merged = merge_map(map(&original[position]), map(item), shape)?;
        original[position] = Value::Object(merged);
    }
    Ok(original)
}

/// What an item is matched by.
fn mark(item: &Value, key: Option<&str>) -> Option<Element> {
    match key {
        Some(key) => item.get(key).cloned().map(Element::Value),
        None => Some(Element::Value(item.clone())),
    }
}

/// The items in their final order.
///
/// Items in `order` take its order; the others keep that of `original`. Of the two heads, the other
/// item goes first only if both were in the original and it came earlier there.
pub(super) fn ordered(
    items: Vec<Value>,
    order: &[Value],
    original: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, Error> {
    let wanted = positions(order, key)?;
    let before = positions(original, key)?;
    let position = |positions: &BTreeMap<Element, usize>, item: &Value| {
        mark(item, key).and_then(|mark| positions.get(&mark).copied())
    };
    let (mut first, mut rest): (Vec<Value>, Vec<Value>) = items
        .into_iter()
        .partition(|item| position(&wanted, item).is_some());
    first.sort_by_cached_key(|item| position(&wanted, item));
    rest.sort_by_cached_key(|item| position(&before, item));
    let mut first = first.into_iter().peekable();
    let mut rest = rest.into_iter().peekable();
    let mut result = Vec::new();
    while let (Some(left), Some(right)) = (rest.peek(), first.peek()) {
        let earlier = match (position(&before, left), position(&before, right)) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        result.extend(if earlier { rest.next() } else { first.next() });
    }
    result.extend(first.chain(rest));
    Ok(result)
}

/// Where each item stands; the first of equal ones counts.
fn positions(items: &[Value], key: Option<&str>) -> Result<BTreeMap<Element, usize>, Error> {
    let mut positions = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let Some(mark) = mark(item, key) else {
            return Err(no_key(item, key.unwrap_or_default()));
        };
        positions.entry(mark).or_insert(index);
    }
    Ok(positions)
}
