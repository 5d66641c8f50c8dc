//! Pruning: a field that the schema does not know is not stored.
//!
//! `apiVersion`, `kind` and `metadata` of the object itself and of embedded resources always stay.
//! Below `x-kubernetes-preserve-unknown-fields` everything stays, but named properties are pruned
//! inside again.

use super::{Additional, Schema};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Prunes a whole object; returns the sorted paths of what is gone.
pub(super) fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner {
        path: String::new(),
        unknown: Vec::new(),
    };
    match object {
        Value::Object(map) => pruner.object(
            Some(schema),
            map,
            Stance {
                root: true,
                keep: schema.preserve_unknown,
            },
        ),
        other => pruner.value(Some(schema), other, false),
    }
    pruner.unknown.sort();
    pruner.unknown
}

struct Pruner {
    path: String,
    unknown: Vec<String>,
}

/// How one object is looked at.
#[derive(Clone, Copy)]
struct Stance {
    /// It is the whole resource.
    root: bool,
    /// Its unknown fields stay.
    keep: bool,
}

impl Pruner {
    /// `keep` is set for items of a list that preserves unknown fields.
    fn value(&mut self, schema: Option<&Schema>, value: &mut Value, keep: bool) {
        let keep = keep || schema.is_some_and(|schema| schema.preserve_unknown);
        match value {
            Value::Object(map) => self.object(schema, map, Stance { root: false, keep }),
            Value::Array(items) => self.list(schema, items, keep),
            _ => {}
        }
    }

    fn object(&mut self, schema: Option<&Schema>, map: &mut Map<String, Value>, stance: Stance) {
        let embedded = stance.root || schema.is_some_and(|schema| schema.embedded);
        map.retain(|key, value| {
            if embedded && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            let child = schema.map(|schema| (schema.properties.get(key), &schema.additional));
            let below = match child {
                Some((Some(property), _)) => Some(Some(property)),
                Some((None, Additional::Of(additional))) => Some(Some(&**additional)),
                Some((None, Additional::Any(_))) => Some(None),
                _ => None,
            };
            match below {
                Some(below) => self.inside(key, |pruner| pruner.value(below, value, false)),
                None if stance.keep => {}
                None => self.inside(key, |pruner| pruner.unknown.push(pruner.path.clone())),
            }
            below.is_some() || stance.keep
        });
    }

    fn list(&mut self, schema: Option<&Schema>, items: &mut [Value], keep: bool) {
        let below = schema.and_then(|schema| schema.items.as_deref());
        if keep && below.is_none() {
            return;
        }
        for (index, item) in items.iter_mut().enumerate() {
            let length = self.path.len();
            let _ = write!(self.path, "[{index}]");
            self.value(below, item, keep);
            self.path.truncate(length);
        }
    }

    fn inside(&mut self, key: &str, act: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        act(self);
        self.path.truncate(length);
    }
}
