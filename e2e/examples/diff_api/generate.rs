//! Objects from shapes: a field is chosen, and what must stand around it is put there too.

use edgegrid_machinery::table::{Scalar, Shape};
use serde_json::{Map, Value, json};

use crate::fields::{Path, Step};
use crate::rng::Rng;
use crate::values::{self, UNIONS};

/// Nothing plausible is nested deeper.
const MAX_DEPTH: usize = 12;

/// Puts plausible values at chosen places.
pub(crate) struct Generator<'a> {
    pub(crate) rng: &'a mut Rng,
}

impl Generator<'_> {
    /// Sets the field at `path`, with everything a parent must have.
    pub(crate) fn set(&mut self, object: &mut Value, shape: Shape<'_>, path: &Path) {
        self.set_path(object, shape, path, &mut Vec::new());
    }

    fn set_path(
        &mut self,
        value: &mut Value,
        shape: Shape<'_>,
        path: &[Step],
        trail: &mut Vec<String>,
    ) {
        let Some((step, rest)) = path.split_first() else {
            *value = self.value(shape, trail, 0);
            return;
        };
        match step {
            Step::Field(name) => {
                if !value.is_object() {
                    *value = self.minimal(shape, trail, 0);
                }
                let Some(map) = value.as_object_mut() else {
                    return;
                };
                leave_rivals(map, trail, name);
                trail.push(name.clone());
                let place = map.entry(name.clone()).or_insert(Value::Null);
                self.set_path(place, shape.child_or_deduced(name), rest, trail);
                trail.pop();
            }
            Step::Item => {
                if value.as_array().is_none_or(Vec::is_empty) {
                    *value = json!([self.minimal(shape.items(), trail, 0)]);
                }
                let Some(items) = value.as_array_mut() else {
                    return;
                };
                if items.len() < 3 && self.rng.chance(15) {
                    let new = self.minimal(shape.items(), trail, 0);
                    items.push(new);
                }
                let index = self.rng.below(items.len());
                self.set_path(&mut items[index], shape.items(), rest, trail);
            }
            Step::Key => {
                if !value.is_object() {
                    *value = json!({});
                }
                let key = values::key(trail, self.rng);
                let child = shape.child_or_deduced(&key);
                self.set_path(&mut value[&key], child, rest, trail);
            }
        }
    }

    /// A value with something in it.
    fn value(&mut self, shape: Shape<'_>, trail: &mut Vec<String>, depth: usize) -> Value {
        if let Some(value) = values::subtree(trail, self.rng) {
            return value;
        }
        if let Some(scalar) = shape.scalar() {
            return self.scalar(scalar, trail);
        }
        if shape.list().is_some() {
            return json!([self.value(shape.items(), trail, depth + 1)]);
        }
        let mut value = self.minimal(shape, trail, depth);
        if let (Some(others), Some(map)) = (shape.others(), value.as_object_mut())
            && map.is_empty()
        {
            let key = values::key(trail, self.rng);
            map.insert(key, self.value(others, trail, depth + 1));
        }
        value
    }

    /// The least that a value must have.
    fn minimal(&mut self, shape: Shape<'_>, trail: &mut Vec<String>, depth: usize) -> Value {
        if let Some(value) = values::subtree(trail, self.rng) {
            return value;
        }
        if let Some(scalar) = shape.scalar() {
            return self.scalar(scalar, trail);
        }
        if depth > MAX_DEPTH {
            return Value::Null;
        }
        if shape.list().is_some() {
            return json!([self.minimal(shape.items(), trail, depth + 1)]);
        }
        let mut map = values::companions(trail);
        for (name, field) in shape.fields().filter(|(_, field)| field.required) {
            if !map.contains_key(name) {
                trail.push(name.to_owned());
                let value = self.minimal(shape.field_shape(field), trail, depth + 1);
                trail.pop();
                map.insert(name.to_owned(), value);
            }
        }
        map.into()
    }

    fn scalar(&mut self, scalar: Scalar, trail: &[String]) -> Value {
        if let Some(value) = values::plausible(trail, self.rng) {
            return value;
        }
        match scalar {
            Scalar::Text => self.rng.pick(&["alpha", "beta", "gamma"]).to_owned().into(),
            Scalar::Bytes => self
                .rng
                .pick(&["YWxwaGE=", "YmV0YQ==", ""])
                .to_owned()
                .into(),
            Scalar::Int32 | Scalar::Int64 => self.rng.pick(&[1, 2, 5, 30]).to_owned().into(),
            Scalar::Number => self.rng.pick(&[1.5, 2.0]).to_owned().into(),
            Scalar::Boolean => self.rng.chance(60).into(),
            Scalar::Quantity => self
                .rng
                .pick(&["1", "100m", "2Gi", "1500m"])
                .to_owned()
                .into(),
            Scalar::Time => self
                .rng
                .pick(&["2026-01-02T03:04:05Z", "2025-12-31T23:59:59Z"])
                .to_owned()
                .into(),
            Scalar::MicroTime => self
                .rng
                .pick(&["2026-01-02T03:04:05.123456Z"])
                .to_owned()
                .into(),
            Scalar::IntOrString => self
                .rng
                .pick(&[json!(1), json!("25%"), json!(8080)])
                .to_owned(),
            Scalar::Any => self
                .rng
                .pick(&[json!("any"), json!(7), json!(true)])
                .to_owned(),
        }
    }

    /// Makes something wrong: a value, a type, or a field that does not exist.
    pub(crate) fn spoil(&mut self, object: &mut Value) {
        let mut pointers = Vec::new();
        leaves(object, "", &mut pointers);
        if pointers.is_empty() {
            return;
        }
        let pointer = self.rng.pick(&pointers).clone();
        let Some(place) = object.pointer_mut(&pointer) else {
            return;
        };
        *place = match self.rng.below(8) {
            0 => Value::Null,
            1 => json!(-1),
            2 => json!("Not Valid!"),
            3 => json!({ "unknownField": 1 }),
            4 => json!([1]),
            5 => json!(""),
            6 => json!("x".repeat(300)),
            _ => json!(1_000_000_000_000_i64),
        };
    }

    /// Removes something that is there.
    pub(crate) fn remove(&mut self, object: &mut Value) {
        let mut pointers = Vec::new();
        leaves(object, "", &mut pointers);
        if pointers.is_empty() {
            return;
        }
        let pointer = self.rng.pick(&pointers).clone();
        let Some((parent, key)) = pointer.rsplit_once('/') else {
            return;
        };
        match object.pointer_mut(parent) {
            Some(Value::Object(map)) => {
                map.remove(&key.replace("~1", "/").replace("~0", "~"));
            }
            Some(Value::Array(items)) if items.len() > 1 => {
                items.pop();
            }
            _ => {}
        }
    }
}

/// Everything below metadata's identity that a client may take away or get wrong.
fn leaves(value: &Value, pointer: &str, found: &mut Vec<String>) {
    const KEPT: [&str; 6] = [
        "/apiVersion",
        "/kind",
        "/metadata/name",
        "/metadata/uid",
        "/metadata/resourceVersion",
        "/metadata/namespace",
    ];
    if KEPT.contains(&pointer) {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                leaves(
                    value,
                    &format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &format!("{pointer}/{index}"), found);
            }
        }
        _ => found.push(pointer.to_owned()),
    }
}

/// Of some fields only one may be set.
fn leave_rivals(map: &mut Map<String, Value>, trail: &[String], name: &str) {
    for (place, members) in UNIONS {
        if values::ends_with(trail, place) && members.contains(&name) {
            map.retain(|key, _| key == name || !members.contains(&&**key));
        }
    }
}
