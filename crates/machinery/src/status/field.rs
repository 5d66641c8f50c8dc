//! What is wrong with one field, in the words every `kubectl` user has seen.

use super::Cause;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;

/// One broken rule at one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    kind: FieldErrorKind,
    field: String,
    value: Option<Value>,
    detail: String,
}

/// The classes of broken rules; they become the `reason` of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// The value names something that is not there.
    NotFound,
    /// A value is missing.
    Required,
    /// A value that must be unique is there twice.
    Duplicate,
    /// The value breaks a rule.
    Invalid,
    /// The value is none of the allowed ones.
    NotSupported,
    /// Nothing may be here.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// There are too many items.
    TooMany,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// The rule itself could not be evaluated.
    Internal,
}

impl FieldErrorKind {
    /// The `reason` of the cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    /// Whether rules about the object as a whole can no longer be validated.
    pub fn blocks_rules(self) -> bool {
        matches!(
            self,
            Self::NotSupported | Self::Required | Self::TooLong | Self::TooMany | Self::TypeInvalid
        )
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

impl FieldError {
    /// The value breaks a rule.
    pub fn invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::with_value(FieldErrorKind::Invalid, field, value, detail)
    }

    /// The value has the wrong JSON type.
    pub fn type_invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::with_value(FieldErrorKind::TypeInvalid, field, value, detail)
    }

    /// A value is missing.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Required,
            field: field.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// Nothing may be here.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Forbidden,
            field: field.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// The rule itself could not be evaluated.
    pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Internal,
            field: field.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// A value that must be unique is there twice.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::with_value(FieldErrorKind::Duplicate, field, value, "")
    }

    /// The value names something that is not there.
    pub fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::with_value(FieldErrorKind::NotFound, field, value, "")
    }

    /// The value is none of the supported ones.
    pub fn not_supported(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: &[String],
    ) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| quoted(value)).collect();
        let detail = if supported.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", supported.join(", "))
        };
        Self::with_value(FieldErrorKind::NotSupported, field, value, detail)
    }

    /// The value has more than `max` bytes.
    pub fn too_long(field: impl Into<String>, max: u64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        Self {
            kind: FieldErrorKind::TooLong,
            field: field.into(),
            value: None,
            detail,
        }
    }

    /// There are more than `max` items.
    pub fn too_many(field: impl Into<String>, actual: usize, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::with_value(
            FieldErrorKind::TooMany,
            field,
            actual,
            format!("must have at most {max} {unit}"),
        )
    }

    /// An error of any class that shows the value.
    pub fn with_value(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            field: field.into(),
            value: Some(value.into()),
            detail: detail.into(),
        }
    }

    /// An error of any class that does not show the value.
    pub fn without_value(
        kind: FieldErrorKind,
        field: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            field: field.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// The class, which also says whether rules in CEL are still evaluated.
    pub fn kind(&self) -> FieldErrorKind {
        self.kind
    }

    /// The path of the field.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Moves the error from below one path to below another.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        if let Some(rest) = self.field.strip_prefix(from) {
            self.field = format!("{to}{rest}");
        }
    }

    /// The message without the path.
    pub fn body(&self) -> String {
        let mut body = self.kind.words().to_owned();
        if let Some(value) = &self.value {
            let _ = write!(body, ": {}", shown(value));
        }
        if !self.detail.is_empty() {
            let _ = write!(body, ": {}", self.detail);
        }
        body
    }

    /// This error as a cause of a status.
    pub fn cause(&self) -> Cause {
        Cause {
            reason: self.kind.reason().to_owned(),
            message: self.body(),
            field: self.field.clone(),
        }
    }

    /// Several errors as one message: each once, in brackets when there are more.
    pub fn join(errors: &[Self]) -> String {
        let mut seen = BTreeSet::new();
        let texts: Vec<String> = errors
            .iter()
            .map(ToString::to_string)
            .filter(|text| seen.insert(text.clone()))
            .collect();
        match &texts[..] {
            [] => String::new(),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// `text` in double quotes with Go's escapes.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A float as Go prints it: shortest form, with an exponent only when very large or small.
pub fn go_float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = exponent
            .strip_prefix('-')
            .map_or(('+', exponent), |digits| ('-', digits));
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{number}")
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float),
            _ => number.to_string(),
        },
        other => {
            let json = other.to_string();
            json.replace('&', "\\u0026")
                .replace('<', "\\u003c")
                .replace('>', "\\u003e")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_error_stands_alone_and_several_stand_in_brackets() {
        let one = FieldError::invalid("spec.replicas", -1, "must be greater than or equal to 0");
        assert_eq!(
            FieldError::join(std::slice::from_ref(&one)),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        );
        let two = FieldError::required("spec.name", "");
        assert_eq!(
            FieldError::join(&[one.clone(), two, one])
                .matches(", ")
                .count(),
            1
        );
    }

    #[test]
    fn floats_print_like_go() {
        for (number, text) in [
            (1.5, "1.5"),
            (3.0, "3"),
            (1e21, "1e+21"),
            (1e-7, "1e-07"),
            (-0.25, "-0.25"),
        ] {
            assert_eq!(go_float(number), text);
        }
    }
}
