//! Patches of every type that lead from one object to another.

use edgegrid_machinery::table::Shape;
use serde_json::{Map, Value, json};

use crate::rng::Rng;

/// A merge patch (RFC 7386).
pub(crate) fn merge(old: &Value, new: &Value) -> Value {
    let (Value::Object(a), Value::Object(b)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for (key, value) in b {
        match a.get(key) {
            Some(before) if before == value => {}
            Some(before) => {
                patch.insert(key.clone(), merge(before, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in a.keys().filter(|key| !b.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch.into()
}

/// A JSON patch (RFC 6902).
pub(crate) fn json(old: &Value, new: &Value) -> Value {
    let mut operations = Vec::new();
    difference(old, new, "", &mut operations);
    operations.into()
}

fn difference(old: &Value, new: &Value, pointer: &str, operations: &mut Vec<Value>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().filter(|key| !b.contains_key(*key)) {
                operations.push(json!({ "op": "remove", "path": below(pointer, key) }));
            }
            for (key, value) in b {
                match a.get(key) {
                    Some(before) => difference(before, value, &below(pointer, key), operations),
                    None => operations
                        .push(json!({ "op": "add", "path": below(pointer, key), "value": value })),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() <= b.len() => {
            for (index, value) in b.iter().enumerate() {
                match a.get(index) {
                    Some(before) => {
                        difference(before, value, &format!("{pointer}/{index}"), operations);
                    }
                    None => operations.push(
                        json!({ "op": "add", "path": format!("{pointer}/-"), "value": value }),
                    ),
                }
            }
        }
        _ => operations.push(json!({ "op": "replace", "path": pointer, "value": new })),
    }
}

fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// A strategic merge patch, now and then with the directives that say the same in another way.
pub(crate) fn strategic(old: &Value, new: &Value, shape: Shape<'_>, rng: &mut Rng) -> Value {
    let (Value::Object(a), Value::Object(b)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for (key, value) in b {
        let before = a.get(key).unwrap_or(&Value::Null);
        if before == value {
            continue;
        }
        let rules = shape
            .field(key)
            .map(|field| &field.patch)
            .filter(|rules| rules.merge);
        let child = shape.child_or_deduced(key);
        match (before, value, rules) {
            (Value::Array(before), Value::Array(after), Some(rules)) => {
                let list = Lists {
                    key,
                    by: rules.key.as_deref(),
                    items: child.items(),
                };
                list.patch(before, after, &mut patch, rng);
            }
            _ => {
                patch.insert(key.clone(), strategic(before, value, child, rng));
            }
        }
    }
    for key in a.keys().filter(|key| !b.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch.into()
}

/// A list whose items are merged.
struct Lists<'a> {
    key: &'a str,
    by: Option<&'a str>,
    items: Shape<'a>,
}

impl Lists<'_> {
    fn patch(
        &self,
        before: &[Value],
        after: &[Value],
        patch: &mut Map<String, Value>,
        rng: &mut Rng,
    ) {
        match self.by {
            None => self.primitives(before, after, patch),
            Some(_) if rng.chance(10) => {
                let marker = json!({ "$patch": "replace" });
                let items: Vec<Value> = after.iter().cloned().chain([marker]).collect();
                patch.insert(self.key.to_owned(), items.into());
            }
            Some(by) => patch.extend(self.maps(by, before, after, rng)),
        }
    }

    fn primitives(&self, before: &[Value], after: &[Value], patch: &mut Map<String, Value>) {
        let added: Vec<Value> = after
            .iter()
            .filter(|item| !before.contains(item))
            .cloned()
            .collect();
        let removed: Vec<Value> = before
            .iter()
            .filter(|item| !after.contains(item))
            .cloned()
            .collect();
        if !added.is_empty() {
            patch.insert(self.key.to_owned(), added.into());
        }
        if !removed.is_empty() {
            patch.insert(
                format!("$deleteFromPrimitiveList/{}", self.key),
                removed.into(),
            );
        }
    }

    fn maps(
        &self,
        by: &str,
        before: &[Value],
        after: &[Value],
        rng: &mut Rng,
    ) -> Map<String, Value> {
        let mut patch = Map::new();
        let mut items = Vec::new();
        for item in after {
            match before.iter().find(|old| old[by] == item[by]) {
                Some(old) if old == item => {}
                Some(old) => {
                    let mut change = strategic(old, item, self.items, rng);
                    change[by] = item[by].clone();
                    items.push(change);
                }
                None => items.push(item.clone()),
            }
        }
        let gone = before
            .iter()
            .filter(|old| !after.iter().any(|item| item[by] == old[by]));
        items.extend(gone.map(|old| json!({ "$patch": "delete", by: old[by] })));
        patch.insert(self.key.to_owned(), items.into());
        if rng.chance(20) {
            let order: Vec<Value> = after.iter().map(|item| json!({ by: item[by] })).collect();
            patch.insert(format!("$setElementOrder/{}", self.key), order.into());
        }
        patch
    }
}
