//! Types, bounds, enums and combinators: the part of validation that looks at one version of an
//! object, with an eye on the old one for ratcheting.
//!
//! The order of the checks, the way a failing `anyOf` or `oneOf` picks the alternative it reports
//! (the one with the most checks passed) and the wording follow `kube-openapi`'s validator.

use super::correlate::Pair;
use super::number::{self, Number};
use super::{Additional, Schema, Type, format};
use crate::status::{FieldError, quoted};
use serde_json::{Map, Value};

/// Violations of `value`; `base` is the path of the value within the object.
pub(super) fn errors(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    base: &str,
) -> Vec<FieldError> {
    let pair = old.map(|old| Pair {
        schema,
        new: value,
        old,
    });
    Walk { base }
        .ratcheted(
            At {
                schema,
                path: "",
                pair,
            },
            value,
        )
        .errors
}

/// Where a check stands: the schema, the path below the base, the old value if there is one.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) schema: &'a Schema,
    pub(super) path: &'a str,
    pub(super) pair: Option<Pair<'a>>,
}

/// What a check found, and how many checks passed on the way.
#[derive(Default)]
pub(super) struct Found {
    pub(super) errors: Vec<FieldError>,
    pub(super) passed: usize,
}

impl Found {
    pub(super) fn add(&mut self, error: FieldError) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        for error in other.errors {
            self.add(error);
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}

/// The path every field is reported under.
pub(super) struct Walk<'a> {
    base: &'a str,
}

impl Walk<'_> {
    /// Checks a value that has an old counterpart; unchanged values pass.
    fn ratcheted(&self, at: At<'_>, value: &Value) -> Found {
        let mut found = self.node(at, value);
        if !found.is_valid() && at.pair.is_some_and(Pair::is_equal) {
            found.errors.clear();
        }
        found
    }

    pub(super) fn node(&self, at: At<'_>, value: &Value) -> Found {
        let At { schema, path, .. } = at;
        let mut found = Found::default();
        if value.is_null() {
            if schema.has_type() {
                self.kind(schema, value, path, &mut found);
            }
            self.allowed_values(schema, value, path, &mut found);
            return found;
        }
        if schema.has_type() || format::checked_format(schema).is_some() {
            self.kind(schema, value, path, &mut found);
            found.passed += 1;
        }
        self.combinators(schema, value, path, &mut found);
        self.by_type(at, value, &mut found);
        self.allowed_values(schema, value, path, &mut found);
        if let Value::Object(map) = value {
            self.object(at, map, &mut found);
            found.passed += 1;
        }
        found.passed += 3;
        found
    }

    fn by_type(&self, at: At<'_>, value: &Value, found: &mut Found) {
        match value {
            Value::String(text) => {
                self.text(at.schema, text, at.path, found);
                found.passed += 1;
                if format::checked_format(at.schema).is_some() {
                    self.format(at.schema, text, at.path, found);
                    found.passed += 1;
                }
            }
            Value::Number(number) => {
                number::check(self, at.schema, Number::from(number), at.path, found);
                found.passed += 2;
            }
            Value::Array(items) => {
                self.list(at, items, found);
                found.passed += 2;
            }
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
    }

    fn kind(&self, schema: &Schema, value: &Value, path: &str, found: &mut Found) {
        let (kind, kind_format) = match value {
            Value::Null => ("null", ""),
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
            Value::Number(number) => match Number::from(number) {
                Number::Int(_) => ("integer", "int64"),
                Number::Float(_) => ("number", "float64"),
            },
        };
        if value.is_null() {
            if schema.nullable {
                found.passed += 1;
            } else {
                self.wrong_type(path, &schema.type_names(), kind, found);
            }
            return;
        }
        let whole = matches!(value, Value::Number(n) if matches!(Number::from(n), Number::Float(f) if is_whole(f)));
        let fits = schema.allows(kind)
            || (whole && schema.allows("integer"))
            || (kind == "integer" && schema.allows("number"));
        let is_text_or_list = matches!(value, Value::String(_) | Value::Array(_));
        let is_numeric = schema.allows("number") || schema.allows("integer");
        match format::checked_format(schema) {
            Some(format) if !is_text_or_list && !fits && kind_format != format => {
                self.wrong_type(path, format, kind_format, found);
            }
            Some(_) if is_text_or_list && !is_numeric => found.passed += 1,
            _ if !fits => self.wrong_type(path, &schema.type_names(), kind, found),
            _ => found.passed += 1,
        }
    }

    fn text(&self, schema: &Schema, text: &str, path: &str, found: &mut Found) {
        let checks = &schema.checks;
        let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            found.add(FieldError::too_long(self.field(path), max));
        } else if let Some(min) = checks.min_length.filter(|min| length < *min) {
            self.invalid(
                path,
                text,
                &format!("should be at least {min} chars long"),
                found,
            );
        } else if let Some(pattern) = checks
            .pattern
            .as_ref()
            .filter(|pattern| !pattern.is_match(text))
        {
            self.invalid(
                path,
                text,
                &format!("should match '{}'", pattern.text()),
                found,
            );
        }
    }

    fn format(&self, schema: &Schema, text: &str, path: &str, found: &mut Found) {
        if let Some(format) =
            format::checked_format(schema).filter(|format| !format::is_valid(format, text))
        {
            let why = format!("{path} in body must be of type {format}: {}", quoted(text));
            found.add(FieldError::type_invalid(self.field(path), text, why));
        }
    }

    fn list(&self, at: At<'_>, items: &[Value], found: &mut Found) {
        if let Some(schema) = &at.schema.items {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{}[{index}]", at.path);
                let pair = at.pair.and_then(|pair| pair.item(index));
                found.merge(self.ratcheted(
                    At {
                        schema,
                        path: &path,
                        pair,
                    },
                    item,
                ));
            }
        }
        let size = u64::try_from(items.len()).unwrap_or(u64::MAX);
        if let Some(min) = at.schema.checks.min_items.filter(|min| size < *min) {
            self.invalid(
                at.path,
                size,
                &format!("should have at least {min} items"),
                found,
            );
        }
        if let Some(max) = at.schema.checks.max_items.filter(|max| size > *max) {
            found.add(FieldError::too_many(self.field(at.path), items.len(), max));
        }
    }

    fn allowed_values(&self, schema: &Schema, value: &Value, path: &str, found: &mut Found) {
        let allowed = &schema.checks.values;
        if allowed.is_empty()
            || (!value.is_null() && allowed.iter().any(|allowed| number::same(allowed, value)))
        {
            return;
        }
        let names = allowed.iter().map(|allowed| match allowed {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        found.add(FieldError::not_supported(
            self.field(path),
            value.clone(),
            &names.collect::<Vec<_>>(),
        ));
    }

    fn object(&self, at: At<'_>, map: &Map<String, Value>, found: &mut Found) {
        let At { schema, path, pair } = at;
        let size = u64::try_from(map.len()).unwrap_or(u64::MAX);
        if let Some(min) = schema.checks.min_properties.filter(|min| size < *min) {
            self.invalid(
                path,
                size,
                &format!("should have at least {min} properties"),
                found,
            );
        }
        if let Some(max) = schema.checks.max_properties.filter(|max| size > *max) {
            found.add(FieldError::too_many(self.field(path), map.len(), max));
        }
        self.additional(at, map, found);
        for (key, below) in &schema.properties {
            let Some(value) = map.get(key) else { continue };
            let is_type_meta = path.is_empty() && matches!(key.as_str(), "apiVersion" | "kind");
            let pair = pair
                .filter(|_| !is_type_meta)
                .and_then(|pair| pair.field(key));
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{key}");
            found.merge(self.ratcheted(
                At {
                    schema: below,
                    path: &path,
                    pair,
                },
                value,
            ));
        }
        for key in schema
            .checks
            .required
            .iter()
            .filter(|key| !map.contains_key(*key))
        {
            found.add(FieldError::required(
                self.field(&format!("{path}.{key}")),
                "",
            ));
        }
    }

    fn additional(&self, at: At<'_>, map: &Map<String, Value>, found: &mut Found) {
        let path = at.path;
        for (key, value) in map {
            match &at.schema.additional {
                _ if at.schema.properties.contains_key(key) => {}
                Additional::Of(schema) => {
                    let pair = at.pair.and_then(|pair| pair.field(key));
                    let path = format!("{path}.{key}");
                    found.merge(self.ratcheted(
                        At {
                            schema,
                            path: &path,
                            pair,
                        },
                        value,
                    ));
                }
                Additional::Any(false) => {
                    let why = format!("{path}.{key} in body is a forbidden property");
                    found.add(FieldError::invalid(self.field(path), key.as_str(), why));
                }
                Additional::Any(true) | Additional::Unsaid => {}
            }
        }
    }

    fn wrong_type(&self, path: &str, wanted: &str, got: &str, found: &mut Found) {
        let why = format!("{path} in body must be of type {wanted}: {}", quoted(got));
        found.add(FieldError::type_invalid(self.field(path), got, why));
    }

    /// A violation that shows the value and speaks of the path within the body.
    pub(super) fn invalid(
        &self,
        path: &str,
        value: impl Into<Value>,
        why: &str,
        found: &mut Found,
    ) {
        found.add(FieldError::invalid(
            self.field(path),
            value,
            format!("{path} in body {why}"),
        ));
    }

    /// A violation that belongs to no field.
    pub(super) fn floating(&self, why: String, found: &mut Found) {
        found.add(self.composite(why));
    }

    pub(super) fn composite(&self, why: String) -> FieldError {
        FieldError::invalid(
            if self.base.is_empty() {
                "<nil>"
            } else {
                self.base
            },
            "",
            why,
        )
    }

    fn field(&self, path: &str) -> String {
        match (self.base, path.trim_start_matches('.')) {
            ("", "") => "<nil>".to_owned(),
            ("", path) => path.to_owned(),
            (base, "") => base.to_owned(),
            (base, path) => format!("{base}.{path}"),
        }
    }
}

impl Schema {
    fn has_type(&self) -> bool {
        self.kind.is_some() || self.int_or_string
    }

    fn allows(&self, kind: &str) -> bool {
        if self.int_or_string {
            matches!(kind, "integer" | "string")
        } else {
            self.kind.is_some_and(|k| k.name() == kind)
        }
    }

    fn type_names(&self) -> String {
        if self.int_or_string {
            "integer,string".to_owned()
        } else {
            self.kind.map_or("", Type::name).to_owned()
        }
    }
}

fn is_whole(number: f64) -> bool {
    number.is_finite() && number.fract() == 0.0
}
