//! Reading JSON without losing what it said twice.
//!
//! An ordinary reader keeps the last of two equal keys and forgets the first; field validation has
//! to name them. Depth is bounded so that no body can exhaust the stack.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::RefCell;
use std::fmt;
use std::fmt::Write as _;

/// Objects and lists nest no deeper than this.
pub const MAX_DEPTH: usize = 120;

/// A key that one object has more than once; the last value counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duplicate {
    /// Where the key stands, as `spec.ports[0].name`.
    pub path: String,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "duplicate field {:?}", self.path)
    }
}

/// Why bytes are not a JSON document.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ReadError(serde_json::Error);

/// Reads one JSON document and reports repeated keys, each once, in order of appearance.
pub fn read_strict(bytes: &[u8]) -> Result<(Value, Vec<Duplicate>), ReadError> {
    let state = RefCell::new(State::default());
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Node {
        state: &state,
        depth: 0,
    }
    .deserialize(&mut deserializer)
    .map_err(ReadError)?;
    deserializer.end().map_err(ReadError)?;
    Ok((value, state.into_inner().duplicates))
}

/// Writes whole floats as integers, the way numbers are stored: `1.0` becomes `1`.
pub fn settle_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < 1e15 {
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "whole and far within the range of i64"
                )]
                let whole = float as i64;
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle_numbers),
        Value::Object(map) => map.values_mut().for_each(settle_numbers),
        _ => {}
    }
}

#[derive(Default)]
struct State {
    path: String,
    duplicates: Vec<Duplicate>,
}

#[derive(Clone, Copy)]
struct Node<'a> {
    state: &'a RefCell<State>,
    depth: usize,
}

impl Node<'_> {
    fn below<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom(format_args!("exceeded max depth of {MAX_DEPTH}")));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    /// Extends the path, and returns its length before.
    fn enter(self, step: fmt::Arguments<'_>) -> usize {
        let mut state = self.state.borrow_mut();
        let length = state.path.len();
        let _ = state.path.write_fmt(step);
        length
    }

    fn leave(self, length: usize) {
        self.state.borrow_mut().path.truncate(length);
    }

    fn note_duplicate(self) {
        let mut state = self.state.borrow_mut();
        let duplicate = Duplicate {
            path: state.path.clone(),
        };
        if !state.duplicates.contains(&duplicate) {
            state.duplicates.push(duplicate);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let below = self.below::<A::Error>()?;
        let mut items = Vec::new();
        loop {
            let length = self.enter(format_args!("[{}]", items.len()));
            let item = seq.next_element_seed(below)?;
            self.leave(length);
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let below = self.below::<A::Error>()?;
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let dot = if self.state.borrow().path.is_empty() {
                ""
            } else {
                "."
            };
            let length = self.enter(format_args!("{dot}{key}"));
            let value = access.next_value_seed(below)?;
            if map.insert(key, value).is_some() {
                self.note_duplicate();
            }
            self.leave(length);
        }
        Ok(Value::Object(map))
    }
}
