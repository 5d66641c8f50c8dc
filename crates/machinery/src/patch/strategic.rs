//! Strategic merge patch: a merge patch that knows which lists are keyed, plus directives.
//!
//! | directive | meaning |
//! |---|---|
//! | `$patch: replace` or `delete` | the map, or the list it stands in, is replaced; the map or item is deleted |
//! | `$retainKeys` | only these keys of the map stay |
//! | `$setElementOrder/<list>` | the order of a list |
//! | `$deleteFromPrimitiveList/<list>` | scalars to take out of a list |

use serde_json::{Map, Value};

use super::lists::{List, merge_list, ordered};
use super::{Error, bounded, kind_of};
use crate::apply::within_depth;
use crate::table::{Patch, Scalar, Shape};

pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder";
const DELETE_SCALARS: &str = "$deleteFromPrimitiveList";

/// Applies a strategic merge patch to an object of a built-in kind; null is an empty patch.
pub fn strategic_merge_patch(
    object: &Value,
    patch: &Value,
    shape: Shape<'_>,
) -> Result<Value, Error> {
    bounded(object, patch)?;
    let patch = match patch {
        Value::Null => return Ok(object.clone()),
        Value::Object(map) => map.clone(),
        other => {
            return Err(Error::Decode {
                expected: "an object",
                got: kind_of(other),
            });
        }
    };
    let original = object.as_object().cloned().unwrap_or_default();
    let result = Value::Object(merge_map(original, patch, shape)?);
    if within_depth(&result) {
        Ok(result)
    } else {
        Err(Error::TooDeep)
    }
}

pub(super) fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    shape: Shape<'_>,
) -> Result<Map<String, Value>, Error> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown(&directive, patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_orders(&mut original, &mut patch, shape)?;
    for (key, value) in patch {
        if key.starts_with(DELETE_SCALARS) {
            delete_scalars(&mut original, &key, &value)?;
            continue;
        }
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        if shape.scalar() == Some(Scalar::Any)
            && (value.is_object() || value.is_array())
            && original
                .get(&key)
                .is_some_and(|old| value.is_object() == old.is_object())
        {
            return Err(Error::Opaque(key));
        }
        if let Some(merged) = merge_value(original.remove(&key), value, &key, shape)? {
            original.insert(key, merged);
        }
    }
    Ok(original)
}

/// What becomes of the value under a key; nothing if the patch adds nothing where nothing was.
fn merge_value(
    old: Option<Value>,
    new: Value,
    key: &str,
    parent: Shape<'_>,
) -> Result<Option<Value>, Error> {
    Ok(match (old, new) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let replaces = strategy(parent, key).is_some_and(|patch| patch.replace);
            Some(Value::Object(if replaces {
                new
            } else {
                merge_map(old, new, parent.child_or_deduced(key))?
            }))
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            Some(Value::Array(merge_list(old, new, &list(parent, key))?))
        }
        (Some(old), new) if std::mem::discriminant(&old) == std::mem::discriminant(&new) => {
            Some(new)
        }
        (old, new) => without_directives(without_nulls(new)).or(old),
    })
}

fn strategy<'a>(shape: Shape<'a>, key: &str) -> Option<&'a Patch> {
    shape.field(key).map(|field| &field.patch)
}

/// How the list under a key is merged.
fn list<'a>(shape: Shape<'a>, key: &str) -> List<'a> {
    let strategy = strategy(shape, key);
    List {
        items: shape.child_or_deduced(key).items(),
        merges: strategy.is_some_and(|patch| patch.merge),
        key: strategy.and_then(|patch| patch.key.as_deref()),
    }
}

/// Every key that the patch sets must be listed; every key of the original that is not, goes.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), Error> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let bad = Error::Format("retainKeys");
    let keys = keys.as_array().ok_or_else(|| bad.clone())?;
    let keys: std::collections::BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let is_listed = |key: &String| keys.contains(key.as_str());
    let mut set = patch.iter().filter(|(key, value)| {
        let directive = key.starts_with(SET_ORDER) || key.starts_with(DELETE_SCALARS);
        !value.is_null() && !directive
    });
    if !set.all(|(key, _)| is_listed(key)) {
        return Err(bad);
    }
    original.retain(|key, _| is_listed(key));
    Ok(())
}

/// Merges and orders every list that the patch gives an order for, and takes both out of the patch.
fn set_orders(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    shape: Shape<'_>,
) -> Result<(), Error> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let field = target(&directive, "setElementOrder list")?.to_owned();
        let order = items(patch.remove(&directive))?;
        let rules = list(shape, &field);
        let old = original.remove(&field);
        let new = patch.remove(&field);
        if old.is_none() && new.is_none() {
            continue;
        }
        let old_items = items(old.clone())?;
        let new_items = items(new.clone())?;
        rules.check_order(&new_items, &order)?;
        let merged = match (old.is_some(), new.is_some()) {
            (true, true) => merge_list(old_items.clone(), new_items, &rules)?,
            (true, false) => old_items.clone(),
            _ => items(without_directives(Value::Array(new_items)))?,
        };
        let merged = ordered(merged, &order, &old_items, rules.key)?;
        original.insert(field, Value::Array(merged));
    }
    Ok(())
}

fn items(value: Option<Value>) -> Result<Vec<Value>, Error> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(Error::List(other.to_string())),
    }
}

/// The field behind the slash of a directive.
fn target<'a>(directive: &'a str, name: &'static str) -> Result<&'a str, Error> {
    match directive.split_once('/') {
        Some((_, field)) if !field.is_empty() => Ok(field),
        _ => Err(Error::Format(name)),
    }
}

fn delete_scalars(
    original: &mut Map<String, Value>,
    directive: &str,
    gone: &Value,
) -> Result<(), Error> {
    let field = target(directive, "primitive list")?;
    if let (Some(Value::Array(items)), Value::Array(gone)) = (original.get_mut(field), gone) {
        let gone: std::collections::BTreeSet<String> = gone.iter().map(Value::to_string).collect();
        items.retain(|item| !gone.contains(&item.to_string()));
    }
    Ok(())
}

pub(super) fn unknown(directive: &Value, map: Map<String, Value>) -> Error {
    Error::Directive {
        directive: directive
            .as_str()
            .map_or_else(|| directive.to_string(), str::to_owned),
        map: Value::Object(map).to_string(),
    }
}

/// Nulls mean "delete": in something new there is nothing to delete.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(key, value)| (key, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Maps that hold a directive are dropped whole, even if they say "replace".
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => {
            let kept = items.into_iter().filter_map(without_directives);
            Some(Value::Array(kept.collect()))
        }
        other => Some(other),
    }
}
