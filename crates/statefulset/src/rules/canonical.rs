//! JSON exactly as Go's encoder writes it after a trip through generic values. Revision names are
//! hashes of these bytes, so that a byte more would restart every pod of a set on take-over.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Integers up to here survive Go's numbers, which are floats.
const EXACT: u64 = 1 << 53;

/// The canonical text of a value: sorted keys, no blanks, HTML-safe strings, float numbers.
pub fn text(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value);
    text
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            // Sorted here, whatever order the map keeps in this build.
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(key, _)| key.as_bytes());
            out.push('{');
            for (index, (key, item)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write(out, item);
            }
            out.push('}');
        }
    }
}

fn write_number(out: &mut String, number: &Number) {
    let exact = number
        .as_i64()
        .filter(|value| value.unsigned_abs() <= EXACT);
    if let Some(exact) = exact {
        let _ = write!(out, "{exact}");
        return;
    }
    let float = number.as_f64().unwrap_or_default();
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let written = format!("{float:e}");
        // Go's exponents always have a sign.
        let _ = match written.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                write!(out, "{digits}e+{exponent}")
            }
            _ => write!(out, "{written}"),
        };
        return;
    }
    let _ = write!(out, "{float}");
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_what_go_writes() {
        let cases = [
            (
                json!({ "b": 1, "$patch": "replace", "a": [true, null] }),
                r#"{"$patch":"replace","a":[true,null],"b":1}"#,
            ),
            (
                json!("<a & b>\u{2028}\n\u{1}é"),
                r#""\u003ca \u0026 b\u003e\u2028\n\u0001é""#,
            ),
            (json!(9_007_199_254_740_992_i64), "9007199254740992"),
            // The largest integer loses its last digits in a float, in Go as here.
            (json!(i64::MAX), "9223372036854776000"),
            (json!(0.5), "0.5"),
            (json!(1.0), "1"),
            (json!(1e21), "1e+21"),
            (json!(1e-7), "1e-7"),
        ];
        for (value, wanted) in cases {
            assert_eq!(text(&value), wanted);
        }
    }
}
