//! JSON that is kept for long, or in great numbers, and seldom read.
//!
//! As a tree of maps a value needs five to ten times the memory of its text: a thousand workloads
//! about to be applied would be most of the controller's memory.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A JSON value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed(Box<str>);

impl Packed {
    /// Parses the text again.
    pub fn value(&self) -> Value {
        let Ok(value) = serde_json::from_str(&self.0) else {
            unreachable!("invariant: written from a value")
        };
        value
    }
}

impl From<&Value> for Packed {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self::from(&value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_packed_is_read_as_it_was(value in values()) {
            let packed = Packed::from(&value);
            prop_assert_eq!(packed.value(), value.clone());
            prop_assert_eq!(serde_json::from_value::<Packed>(value).unwrap(), packed);
        }
    }
}
