//! Which old value a new value is to be compared with.
//!
//! Fields of objects go by name, items of `map` lists by their keys; items of other lists have no
//! counterpart. A pair that is equal in the eyes of the schema passes even where it is invalid.

use super::{ListType, Schema};
use serde_json::Value;

/// A new value with its old counterpart, under the schema that tied them together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) schema: &'a Schema,
    pub(super) new: &'a Value,
    pub(super) old: &'a Value,
}

impl Pair<'_> {
    /// The pair below a field, if both sides have it and the schema names it.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        let (new, old) = (
            self.new.as_object()?.get(name)?,
            self.old.as_object()?.get(name)?,
        );
        Some(Self {
            schema: self.schema.child(name)?,
            new,
            old,
        })
    }

    /// The pair of one item of a `map` list.
    pub(super) fn item(self, index: usize) -> Option<Self> {
        let new = self.new.as_array()?.get(index)?;
        let old = old_item(self.schema, self.old, new)?;
        Some(Self {
            schema: self.schema.items.as_deref()?,
            new,
            old,
        })
    }

    /// Whether nothing changed, as far as the schema can see.
    pub(super) fn is_equal(self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                if matches!(self.schema.list, ListType::Map(_)) && self.schema.items.is_some() {
                    new.len() == old.len()
                        && (0..new.len()).all(|index| self.item(index).is_some_and(Pair::is_equal))
                } else {
                    new == old
                }
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new
                        .keys()
                        .all(|key| self.field(key).is_some_and(Pair::is_equal))
            }
            (new, old) => new == old,
        }
    }
}

/// The old item with the same keys as `item`, when the list is one of type `map`.
pub(super) fn old_item<'a>(schema: &Schema, old: &'a Value, item: &Value) -> Option<&'a Value> {
    let ListType::Map(keys) = &schema.list else {
        return None;
    };
    let item = item.as_object()?;
    let same = |old: &&Value| {
        old.as_object()
            .is_some_and(|old| keys.iter().all(|key| old.get(key) == item.get(key)))
    };
    old.as_array()?.iter().find(same)
}
