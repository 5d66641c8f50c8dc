//! The normal form of built-in objects.
//!
//! The reference server decodes every object into a Go struct and encodes it again: unknown fields
//! vanish, empty optional values vanish, structs that are not pointers always appear. Ownership is
//! tracked on that form, so we produce it too, from the table instead of from structs.

use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::shape::{Field, Omit, Scalar, Shape};
use crate::quantity::Quantity;

/// An object in normal form.
#[derive(Debug, Clone, PartialEq)]
pub struct Normal {
    /// The object with nothing but declared fields, in declared types.
    pub object: Value,
    /// Paths of fields that were dropped because their type does not declare them.
    pub unknown: Vec<String>,
}

/// A value that its type cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: expected {expected}, got {got}")]
pub struct NormalError {
    /// Path of the value.
    pub path: String,
    /// What the type holds.
    pub expected: &'static str,
    /// The JSON type of the value.
    pub got: &'static str,
}

/// Deeper values are refused: recursion must end.
const MAX_DEPTH: usize = 256;

/// The normal form of an object of a built-in type.
pub fn normal(object: &Value, shape: Shape<'_>) -> Result<Normal, NormalError> {
    let mut walk = Walk::default();
    let object = walk.value(object, shape)?;
    Ok(Normal {
        object,
        unknown: walk.unknown,
    })
}

/// What an object of a type is before anything is set: the "old" object of a create.
pub fn zero(shape: Shape<'_>) -> Value {
    let mut walk = Walk::default();
    walk.structure(&Map::new(), shape)
        .map_or(Value::Null, Value::Object)
}

/// Whether a value is what Go calls empty: null, false, zero, or nothing inside.
pub fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

#[derive(Default)]
struct Walk {
    path: Vec<String>,
    unknown: Vec<String>,
}

impl Walk {
    fn value(&mut self, value: &Value, shape: Shape<'_>) -> Result<Value, NormalError> {
        if self.path.len() > MAX_DEPTH {
            return Err(self.wrong("a shallower value", "deeper nesting"));
        }
        if shape.is_deduced() || (shape.scalar() == Some(Scalar::Any) && shape.is_map()) {
            return Ok(value.clone());
        }
        match value {
            Value::Null => Ok(empty(shape)),
            Value::Object(map) if is_struct(shape) => self.structure(map, shape).map(Value::Object),
            Value::Object(map) if shape.is_map() => self.map(map, shape),
            Value::Array(items) if shape.list().is_some() => self.list(items, shape),
            scalar => match shape.scalar() {
                Some(kind) => self.scalar(scalar, kind),
                None => Err(self.wrong(expected(shape), kind_of(scalar))),
            },
        }
    }

    fn structure(
        &mut self,
        map: &Map<String, Value>,
        shape: Shape<'_>,
    ) -> Result<Map<String, Value>, NormalError> {
        let mut result = Map::new();
        for (name, field) in shape.fields() {
            self.path.push(format!(".{name}"));
            let value = match map.get(name).filter(|value| !value.is_null()) {
                Some(value) => present(self.value(value, shape.field_shape(field))?, field, shape),
                None => absent(field, shape),
            };
            // An empty list resets ownership: it must not be lost.
            let value = match map.get(name) {
                Some(list) if name == "managedFields" && !list.is_null() => Some(list.clone()),
                _ => value,
            };
            if let Some(value) = value {
                result.insert(name.to_owned(), value);
            }
            self.path.pop();
        }
        for name in map.keys().filter(|name| shape.field(name).is_none()) {
            let path = format!("{}.{name}", self.path.concat());
            self.unknown.push(path.trim_start_matches('.').to_owned());
        }
        Ok(result)
    }

    fn map(&mut self, map: &Map<String, Value>, shape: Shape<'_>) -> Result<Value, NormalError> {
        let mut result = Map::new();
        for (key, value) in map {
            self.path.push(format!(".{key}"));
            let value = self.value(value, shape.child_or_deduced(key))?;
            result.insert(key.clone(), value);
            self.path.pop();
        }
        Ok(Value::Object(result))
    }

    fn list(&mut self, items: &[Value], shape: Shape<'_>) -> Result<Value, NormalError> {
        let mut result = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            self.path.push(format!("[{index}]"));
            result.push(self.value(item, shape.items())?);
            self.path.pop();
        }
        Ok(Value::Array(result))
    }

    fn scalar(&self, value: &Value, kind: Scalar) -> Result<Value, NormalError> {
        let wrong = |expected| Err(self.wrong(expected, kind_of(value)));
        match (kind, value) {
            (Scalar::Time | Scalar::MicroTime, Value::String(text)) => {
                match time(text, kind == Scalar::MicroTime) {
                    Some(text) => Ok(Value::String(text)),
                    None => wrong("a time"),
                }
            }
            (Scalar::Bytes, Value::Array(bytes)) => match encoded(bytes) {
                Some(text) => Ok(Value::String(text)),
                None => wrong("bytes"),
            },
            (Scalar::Bytes, Value::String(text)) if !is_base64(text) => wrong("base 64"),
            (Scalar::Text | Scalar::Bytes | Scalar::IntOrString, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Number, Value::Number(_)) => Ok(value.clone()),
            (Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString, Value::Number(number)) => {
                match whole(number, kind) {
                    Some(number) => Ok(number),
                    None => wrong("a whole number"),
                }
            }
            (Scalar::Quantity, Value::String(_) | Value::Number(_)) => {
                let text = value.as_str().map_or(value.to_string(), str::to_owned);
                match text.parse::<Quantity>() {
                    Ok(quantity) => Ok(Value::String(quantity.to_string())),
                    Err(_) => wrong("a quantity"),
                }
            }
            (Scalar::Any, Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
                Ok(value.clone())
            }
            (Scalar::Boolean, _) => wrong("a boolean"),
            (Scalar::Number | Scalar::Int32 | Scalar::Int64, _) => wrong("a number"),
            _ => wrong("text"),
        }
    }

    fn wrong(&self, expected: &'static str, got: &'static str) -> NormalError {
        NormalError {
            path: self.path.concat().trim_start_matches('.').to_owned(),
            expected,
            got,
        }
    }
}

/// A point in time in the form it is shown in: UTC, in whole seconds or with six digits more.
fn time(text: &str, is_fine: bool) -> Option<String> {
    let time: Timestamp = text.parse().ok()?;
    let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    if text.as_bytes().get(10) != Some(&b'T') || (is_fine && digits != 6) {
        return None;
    }
    let form = if is_fine { "%FT%T.%6fZ" } else { "%FT%TZ" };
    Some(time.strftime(form).to_string())
}

/// Whether a text is groups of four digits, padded at the end.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len().is_multiple_of(4) && text.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

/// Bytes that were given as numbers, in base 64.
fn encoded(bytes: &[Value]) -> Option<String> {
    let byte = |value: &Value| u8::try_from(value.as_u64()?).ok();
    let bytes: Option<Vec<u8>> = bytes.iter().map(byte).collect();
    Some(base64(&bytes?))
}

/// Bytes as text (RFC 4648).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let letter = LETTERS[(bits >> shift & 63) as usize];
            text.push(if place <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

/// The object as apply and strategic merge patches hand it on: whole numbers that are too large for their type lose their upper
/// bits, as in the reference server.
pub fn wrapped(object: &Value, shape: Shape<'_>) -> Value {
    match object {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), wrapped(value, shape.child_or_deduced(key))))
            .collect(),
        Value::Array(items) => items
            .iter()
            .map(|item| wrapped(item, shape.items()))
            .collect(),
        Value::Number(number) if shape.scalar() == Some(Scalar::Int32) => {
            match number.as_i64().map(i64::to_le_bytes) {
                Some([a, b, c, d, ..]) => i32::from_le_bytes([a, b, c, d]).into(),
                None => object.clone(),
            }
        }
        other => other.clone(),
    }
}

/// A type with declared fields; other maps have keys the user chose.
fn is_struct(shape: Shape<'_>) -> bool {
    shape.is_map() && shape.others().is_none()
}

/// What a declared field becomes when it was given.
fn present(value: Value, field: &Field, parent: Shape<'_>) -> Option<Value> {
    let keeps = field.omit == Omit::Never || field.pointer || is_struct(parent.field_shape(field));
    (keeps || !is_zero(&value)).then_some(value)
}

/// What a declared field becomes when it was not given.
fn absent(field: &Field, parent: Shape<'_>) -> Option<Value> {
    let shape = parent.field_shape(field);
    if field.pointer {
        return (field.omit == Omit::Never).then_some(Value::Null);
    }
    if is_struct(shape) && field.omit != Omit::Zero {
        return Some(zero(shape));
    }
    let is_time = matches!(shape.scalar(), Some(Scalar::Time | Scalar::MicroTime));
    let shown = field.omit == Omit::Never || (is_time && field.omit != Omit::Zero);
    shown.then(|| match shape.scalar() {
        Some(_) if !shape.is_map() => empty(shape),
        _ => Value::Null,
    })
}

/// What a null stands for where it is not a missing field: a map value or a list item.
fn empty(shape: Shape<'_>) -> Value {
    if is_struct(shape) {
        return zero(shape);
    }
    match shape.scalar() {
        Some(Scalar::Text | Scalar::Bytes) => Value::from(""),
        Some(Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString) => {
            Value::from(0)
        }
        Some(Scalar::Boolean) => Value::from(false),
        Some(Scalar::Quantity) => Value::from("0"),
        _ => Value::Null,
    }
}

/// `3.0` is the whole number 3.
fn whole(number: &Number, kind: Scalar) -> Option<Value> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and small"
    )]
    let value = number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
    })?;
    let fits = kind == Scalar::Int64 || i32::try_from(value).is_ok();
    fits.then(|| Value::from(value))
}

fn expected(shape: Shape<'_>) -> &'static str {
    if shape.is_map() { "a map" } else { "a list" }
}

/// The type of a value, in words.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
