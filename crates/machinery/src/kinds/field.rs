//! What a field selector compares with.

use crate::table::{Scalar, Shape};
use serde_json::Value;

/// The text of a selectable field; what is absent counts as the zero of its type.
pub(super) fn text(object: &Value, shape: Option<Shape<'_>>, pointer: &str) -> String {
    match object.pointer(pointer) {
        None | Some(Value::Null) => shape.map_or("", |shape| zero(shape, pointer)).to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn zero(shape: Shape<'_>, pointer: &str) -> &'static str {
    let mut keys = pointer.split('/').skip(1);
    let scalar = keys.try_fold(shape, |shape, key| {
        if shape.list().is_some() {
            Some(shape.items())
        } else {
            shape.child(key)
        }
    });
    match scalar.and_then(Shape::scalar) {
        Some(Scalar::Boolean) => "false",
        Some(Scalar::Int32 | Scalar::Int64) => "0",
        _ => "",
    }
}
