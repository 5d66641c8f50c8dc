//! From JSON to the values of CEL, as the schema types them.

use super::super::{Schema, Type};
use super::program::apply;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{IdedExpr, Value};
use serde_json::Value as Json;
use std::sync::{Arc, LazyLock};

/// Words of CEL that a field may be called, and then is reached as `__word__`.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

macro_rules! conversions {
    ($($name:ident = $text:expr;)*) => {
        $(static $name: LazyLock<Option<IdedExpr>> = LazyLock::new(|| Parser::default().parse($text).ok());)*
    };
}

conversions! {
    TIMESTAMP = "timestamp(x)";
    DATE = "timestamp(x + 'T00:00:00Z')";
    DURATION = "duration(x)";
    BYTES = "base64.decode(x)";
}

/// Converts a value; of the metadata of a resource only the names are visible to rules.
pub(super) fn from_json(json: &Json, schema: Option<&Schema>, root: bool) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => self::number(number, schema),
        Json::String(text) => self::text(text, schema),
        Json::Array(items) => {
            let below = schema.and_then(|schema| schema.items.as_deref());
            Value::List(Arc::new(
                items
                    .iter()
                    .map(|item| from_json(item, below, false))
                    .collect(),
            ))
        }
        Json::Object(map) => {
            let is_resource = root || schema.is_some_and(|schema| schema.embedded);
            let is_map = schema.is_some_and(|schema| schema.additional_schema().is_some());
            let member = |(name, value): (&String, &Json)| {
                let converted = match name.as_str() {
                    "metadata" if is_resource => metadata(value),
                    _ => from_json(value, schema.and_then(|schema| schema.child(name)), false),
                };
                let name = if is_map { name.clone() } else { escape(name) };
                (Key::String(Arc::new(name)), converted)
            };
            Value::Map(Map {
                map: Arc::new(map.iter().map(member).collect()),
            })
        }
    }
}

fn metadata(json: &Json) -> Value {
    let names = ["name", "generateName"].into_iter().filter_map(|field| {
        let text = json.get(field)?.as_str()?;
        Some((
            Key::String(Arc::new(field.to_owned())),
            Value::String(Arc::new(text.to_owned())),
        ))
    });
    Value::Map(Map {
        map: Arc::new(names.collect()),
    })
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "only whole numbers within the range of i64 are cast"
)]
fn number(number: &serde_json::Number, schema: Option<&Schema>) -> Value {
    let float = number.as_f64().unwrap_or(f64::NAN);
    let kind = schema
        .filter(|schema| !schema.int_or_string)
        .and_then(|schema| schema.kind);
    match (number.as_i64(), kind) {
        (_, Some(Type::Number)) => Value::Float(float),
        (Some(int), _) => Value::Int(int),
        (None, Some(Type::Integer)) if float.fract() == 0.0 && float.abs() < 9e18 => {
            Value::Int(float as i64)
        }
        (None, _) => Value::Float(float),
    }
}

fn text(text: &str, schema: Option<&Schema>) -> Value {
    let format = schema
        .filter(|schema| schema.kind == Some(Type::String))
        .and_then(|s| s.checks.format.as_deref());
    let typed = match format {
        Some("date-time") => apply(&TIMESTAMP, text),
        Some("date") => apply(&DATE, text),
        Some("duration") => apply(&DURATION, text),
        Some("byte") => apply(&BYTES, text),
        _ => None,
    };
    typed.unwrap_or_else(|| Value::String(Arc::new(text.to_owned())))
}

fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cel_cannot_say_are_spelled_out() {
        for (name, escaped) in [
            ("plain", "plain"),
            ("snake_case", "snake_case"),
            ("namespace", "__namespace__"),
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("a__b", "a__underscores__b"),
        ] {
            assert_eq!(escape(name), escaped);
        }
    }
}
