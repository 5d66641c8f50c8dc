//! JSON patch (RFC 6902) with the reference server's deviations.
//!
//! `replace` of a missing map key adds it; a missing `value` and the copy of a missing key are null;
//! `test` of a missing key against null holds; negative indexes count from the end; a path without a
//! leading slash loses its first segment.

use serde_json::Value;

use super::{Error, MAX_COPIED_BYTES, MAX_OPERATIONS, bounded, kind_of};
use crate::apply::MAX_DEPTH;

/// Moving the same large value again and again ends here; no honest patch comes near.
const MAX_VISITED: usize = 20_000_000;

/// Applies all operations of a JSON patch, or none.
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, Error> {
    bounded(object, patch)?;
    let wrong = |value| Error::Decode {
        expected: "a list of operations",
        got: kind_of(value),
    };
    let operations = patch.as_array().ok_or_else(|| wrong(patch))?;
    if operations.len() > MAX_OPERATIONS {
        return Err(Error::TooManyOperations(operations.len()));
    }
    if let Some(other) = operations.iter().find(|item| !item.is_object()) {
        return Err(wrong(other));
    }
    let mut document = Document {
        root: object.clone(),
        copied: 0,
        visited: 0,
    };
    for operation in operations {
        document.run(operation).ok_or(Error::Operation)?;
    }
    Ok(document.root)
}

struct Document {
    root: Value,
    /// Bytes copied so far.
    copied: usize,
    /// Values looked at so far, to see how deep they are.
    visited: usize,
}

impl Document {
    /// Nothing if the operation cannot be carried out.
    fn run(&mut self, operation: &Value) -> Option<()> {
        let path = pointer(operation.get("path")?.as_str()?);
        let value = || operation.get("value").cloned().unwrap_or_default();
        let from = || Some(pointer(operation.get("from")?.as_str()?));
        match operation.get("op")?.as_str()? {
            "add" => self.add(&path, value()),
            "remove" => self.remove(&path).map(drop),
            "replace" => self.replace(&path, value()),
            "move" => {
                let value = self.remove(&from()?)?;
                self.add(&path, value)
            }
            "copy" => {
                let value = self.look(&from()?)?.clone();
                // Copies can double what is there.
                self.copied += value.to_string().len();
                let fits = self.copied <= MAX_COPIED_BYTES;
                fits.then(|| self.add(&path, value))?
            }
            "test" => {
                let wanted = operation.get("value").unwrap_or(&Value::Null);
                (self.look(&path)? == wanted).then_some(())
            }
            _ => None,
        }
    }

    /// The container a path ends in.
    fn parent(&mut self, path: &[String]) -> Option<&mut Value> {
        let mut current = &mut self.root;
        for segment in path {
            current = match current {
                Value::Object(map) => map.get_mut(segment)?,
                Value::Array(items) => {
                    let index = position(segment, items.len())?;
                    items.get_mut(index)?
                }
                _ => return None,
            };
        }
        Some(current)
    }

    /// What stands at a path: null if a map lacks the key, nothing if there is no container.
    fn look(&mut self, path: &[String]) -> Option<&Value> {
        let Some((last, parents)) = path.split_last() else {
            return Some(&self.root);
        };
        match self.parent(parents)? {
            Value::Object(map) => Some(map.get(last).unwrap_or(&Value::Null)),
            Value::Array(items) => {
                let index = position(last, items.len())?;
                items.get(index)
            }
            _ => None,
        }
    }

    /// Whether a value can be put at a path without nesting too deeply.
    fn fits(&mut self, path: &[String], value: &Value) -> bool {
        let mut left = vec![(value, path.len())];
        while let Some((value, depth)) = left.pop() {
            self.visited += 1;
            if depth > MAX_DEPTH || self.visited > MAX_VISITED {
                return false;
            }
            match value {
                Value::Array(items) => left.extend(items.iter().map(|item| (item, depth + 1))),
                Value::Object(map) => left.extend(map.values().map(|item| (item, depth + 1))),
                _ => {}
            }
        }
        true
    }

    fn add(&mut self, path: &[String], value: Value) -> Option<()> {
        self.put(path, value, |items, segment, value| {
            let index = match segment {
                "-" => items.len(),
                _ => position(segment, items.len() + 1)?,
            };
            items.insert(index, value);
            Some(())
        })
    }

    fn replace(&mut self, path: &[String], value: Value) -> Option<()> {
        self.look(path)?;
        self.put(path, value, |items, segment, value| {
            let index = position(segment, items.len())?;
            *items.get_mut(index)? = value;
            Some(())
        })
    }

    /// Sets a value; what that means in a list, `set_item` knows.
    fn put(
        &mut self,
        path: &[String],
        value: Value,
        set_item: impl FnOnce(&mut Vec<Value>, &str, Value) -> Option<()>,
    ) -> Option<()> {
        if !self.fits(path, &value) {
            return None;
        }
        let Some((last, parents)) = path.split_last() else {
            self.root = value;
            return Some(());
        };
        match self.parent(parents)? {
            Value::Object(map) => {
                map.insert(last.clone(), value);
                Some(())
            }
            Value::Array(items) => set_item(items, last, value),
            _ => None,
        }
    }

    fn remove(&mut self, path: &[String]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        match self.parent(parents)? {
            Value::Object(map) => map.remove(last),
            Value::Array(items) => {
                let index = position(last, items.len())?;
                Some(items.remove(index))
            }
            _ => None,
        }
    }
}

/// The segments of a pointer, unescaped. The text before the first slash is dropped.
fn pointer(text: &str) -> Vec<String> {
    let segments = text.split('/').skip(1);
    segments
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect()
}

/// An index below `length`; negative ones count from the end.
fn position(segment: &str, length: usize) -> Option<usize> {
    let index: i64 = segment.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let index = if index < 0 { index + length } else { index };
    usize::try_from(index).ok().filter(|_| index < length)
}
