//! Numbers: ranges of formats, bounds and multiples, in integers where the value is one.

use super::validate::{Found, Walk};
use super::{Schema, Type};
use crate::status::go_float;
use serde_json::Value;
use std::cmp::Ordering;

/// A JSON number as the server holds it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl From<&serde_json::Number> for Number {
    fn from(number: &serde_json::Number) -> Self {
        match number.as_i64() {
            Some(int) => Self::Int(int),
            None => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(int) => int.into(),
            Number::Float(float) => float.into(),
        }
    }
}

impl Number {
    #[allow(
        clippy::cast_precision_loss,
        reason = "bounds are floats in the schema language itself"
    )]
    fn float(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

/// Checks a number against format, bounds and `multipleOf`.
pub(super) fn check(
    walk: &Walk<'_>,
    schema: &Schema,
    number: Number,
    path: &str,
    found: &mut Found,
) {
    let checks = &schema.checks;
    let range = &Range::new(schema);
    if !range.contains(number) {
        walk.floating(range.complaint("Checked", path), found);
    }
    if let Some(factor) = checks.multiple_of {
        if !range.contains(Number::Float(factor)) {
            walk.floating(range.complaint("MultipleOf", path), found);
        }
        if !is_multiple(number, factor) {
            let why = format!("should be a multiple of {}", go_float(factor));
            walk.invalid(path, number, &why, found);
        }
    }
    if let Some(limit) = checks.minimum {
        let exclusive = checks.exclusive_minimum;
        let min = Bound {
            limit,
            exclusive,
            range,
            name: "Minimum",
            words: "greater than",
            wrong: Ordering::Less,
        };
        min.check(walk, number, path, found);
    }
    if let Some(limit) = checks.maximum {
        let exclusive = checks.exclusive_maximum;
        let max = Bound {
            limit,
            exclusive,
            range,
            name: "Maximum",
            words: "less than",
            wrong: Ordering::Greater,
        };
        max.check(walk, number, path, found);
    }
}

/// A limit on one side.
struct Bound<'a> {
    limit: f64,
    exclusive: bool,
    range: &'a Range,
    name: &'static str,
    words: &'static str,
    /// How a number compares with the limit that is beyond it.
    wrong: Ordering,
}

impl Bound<'_> {
    fn check(&self, walk: &Walk<'_>, number: Number, path: &str, found: &mut Found) {
        let fits = self.range.contains(Number::Float(self.limit));
        if !fits {
            walk.floating(
                self.range
                    .complaint(&format!("{} boundary", self.name), path),
                found,
            );
        }
        // An integer is compared with the whole part of the limit, as the original does.
        let whole = fits && matches!(number, Number::Int(_));
        let limit = if whole {
            self.limit.trunc()
        } else {
            self.limit
        };
        let order = number.float().partial_cmp(&limit);
        if order == Some(self.wrong) || (self.exclusive && order == Some(Ordering::Equal)) {
            let or_equal = if self.exclusive { "" } else { " or equal to" };
            let why = format!("should be {}{or_equal} {}", self.words, go_float(limit));
            walk.invalid(path, number, &why, found);
        }
    }
}

/// Whether two JSON values are the same, whatever way their numbers are written.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        _ => a == b,
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "guarded: the factor is a whole number in range"
)]
fn is_multiple(number: Number, factor: f64) -> bool {
    if factor <= 0.0 {
        return true;
    }
    match number {
        Number::Int(int) if factor.fract() == 0.0 && factor < 9e18 => int % (factor as i64) == 0,
        number => {
            let quotient = if factor < 1.0 {
                1.0 / factor * number.float()
            } else {
                number.float() / factor
            };
            (quotient - quotient.round()).abs() <= f64::EPSILON * quotient.abs().max(1.0)
        }
    }
}

/// What a number of this type and format can hold.
struct Range {
    kind: Option<Type>,
    format: Option<&'static str>,
}

impl Range {
    fn new(schema: &Schema) -> Self {
        let kind = schema
            .kind
            .filter(|kind| matches!(kind, Type::Integer | Type::Number));
        let format = match (kind, schema.checks.format.as_deref()) {
            (Some(Type::Integer), Some("int32")) => Some("int32"),
            (Some(Type::Integer), Some("int64")) => Some("int64"),
            (Some(Type::Number), Some("float")) => Some("float"),
            (Some(Type::Number), Some("double")) => Some("double"),
            _ => None,
        };
        Self {
            kind: if schema.int_or_string { None } else { kind },
            format,
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "the limits of i64 as floats")]
    fn contains(&self, number: Number) -> bool {
        match (self.kind, self.format, number) {
            (Some(Type::Integer), Some("int32"), Number::Int(int)) => i32::try_from(int).is_ok(),
            (Some(Type::Integer), Some("int32"), Number::Float(float)) => {
                float.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float)
            }
            (Some(Type::Integer), _, Number::Float(float)) => {
                float.fract() == 0.0 && (i64::MIN as f64..i64::MAX as f64).contains(&float)
            }
            (_, Some("float"), number) => number.float().abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }

    fn complaint(&self, what: &str, path: &str) -> String {
        let kind = self.kind.map_or("", Type::name);
        match self.format {
            Some(format) => {
                format!("{what} value must be of type {kind} with format {format} in {path}")
            }
            None => format!("{what} value must be of type {kind} (default format) in {path}"),
        }
    }
}
