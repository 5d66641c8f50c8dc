//! What changed between two values, as path sets.

use serde_json::Value;

use super::order::equal;
use super::path::{Element, PathSet};
use super::typed::{Form, form, grouped};
use crate::table::Shape;

/// The paths that changed between an old and a new value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Only in the old value.
    pub removed: PathSet,
    /// In both, but different.
    pub modified: PathSet,
    /// Only in the new value.
    pub added: PathSet,
}

impl Comparison {
    /// Paths with a new value.
    pub fn written(&self) -> PathSet {
        self.modified.union(&self.added)
    }

    /// Without the paths an endpoint resets, and what lies below them.
    #[must_use]
    pub fn without(&self, reset: &PathSet) -> Self {
        Self {
            removed: self.removed.recursive_difference(reset),
            modified: self.modified.recursive_difference(reset),
            added: self.added.recursive_difference(reset),
        }
    }
}

/// Compares two objects of one shape. The order of keyed lists and sets does not matter.
pub fn compare(old: &Value, new: &Value, shape: Shape<'_>) -> Comparison {
    let mut walk = Walk::default();
    walk.pair(Some(old), Some(new), shape);
    walk.result
}

#[derive(Default)]
struct Walk {
    path: Vec<Element>,
    result: Comparison,
}

impl Walk {
    fn pair(&mut self, old: Option<&Value>, new: Option<&Value>, shape: Shape<'_>) {
        let leaf = match (old, new) {
            (None, None) => return,
            (Some(value), None) | (None, Some(value)) => {
                self.as_form(old, new, shape, form(value, shape))
            }
            (Some(a), Some(b)) => {
                let (old_form, new_form) = (form(a, shape), form(b, shape));
                if old_form != new_form {
                    self.as_form(old, new, shape, old_form);
                }
                self.as_form(old, new, shape, new_form)
            }
        };
        if !leaf {
            match (old, new) {
                (None, _) => self.result.added.insert(&self.path),
                (_, None) => self.result.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Compares two values in one form; returns whether they counted as leaves.
    fn as_form(
        &mut self,
        old: Option<&Value>,
        new: Option<&Value>,
        shape: Shape<'_>,
        form: Form,
    ) -> bool {
        let is_leaf = match form {
            Form::Leaf => true,
            Form::List => list(old).is_empty() && list(new).is_empty(),
            Form::Map => is_bare(old) && is_bare(new),
        };
        if is_leaf {
            self.leaf(old, new);
        } else if form == Form::Map {
            self.map(old, new, shape);
        } else {
            self.list(list(old), list(new), shape);
        }
        is_leaf
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.result.added.insert(&self.path),
            (_, None) => self.result.removed.insert(&self.path),
            (Some(a), Some(b)) if !equal(a, b) => self.result.modified.insert(&self.path),
            _ => {}
        }
    }

    fn map(&mut self, old: Option<&Value>, new: Option<&Value>, shape: Shape<'_>) {
        let old = old.and_then(Value::as_object);
        let new = new.and_then(Value::as_object);
        let only_new = new.into_iter().flat_map(|map| map.keys());
        let only_new = only_new.filter(|key| old.is_none_or(|old| !old.contains_key(*key)));
        let keys = old.into_iter().flat_map(|map| map.keys()).chain(only_new);
        for key in keys {
            self.path.push(Element::field(key));
            let (a, b) = (old.and_then(|m| m.get(key)), new.and_then(|m| m.get(key)));
            self.pair(a, b, shape.child_or_deduced(key));
            self.path.pop();
        }
    }

    fn list(&mut self, old: &[Value], new: &[Value], shape: Shape<'_>) {
        let old = grouped(old, shape);
        let mut new = grouped(new, shape);
        for (element, before) in old {
            let after = new.remove(&element).unwrap_or_default();
            self.path.push(element);
            self.items(&before, &after, shape.items());
            self.path.pop();
        }
        for (element, after) in new {
            self.path.push(element);
            self.items(&[], &after, shape.items());
            self.path.pop();
        }
    }

    /// Items that share one key; more than one on a side can only be compared as a whole.
    fn items(&mut self, before: &[&Value], after: &[&Value], shape: Shape<'_>) {
        match (before, after) {
            (before, after) if before.len() <= 1 && after.len() <= 1 => {
                self.pair(before.first().copied(), after.first().copied(), shape);
            }
            (before, after) if before.len() > 1 && after.len() > 1 => {
                let same = before.len() == after.len()
                    && before.iter().zip(after).all(|(a, b)| equal(a, b));
                if !same {
                    self.result.modified.insert(&self.path);
                }
            }
            (before, after) if before.len() > 1 => {
                self.result.removed.insert(&self.path);
                self.pair(None, after.first().copied(), shape);
            }
            (before, _) => {
                self.pair(before.first().copied(), None, shape);
                self.result.added.insert(&self.path);
            }
        }
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// No map, or an empty one.
fn is_bare(value: Option<&Value>) -> bool {
    value
        .and_then(Value::as_object)
        .is_none_or(serde_json::Map::is_empty)
}
