//! A field of an object under validation: the value, its path, and the questions rules ask.

use super::vocabulary::{self, IMMUTABLE, NOT_NEGATIVE};
use crate::names;
use crate::selector::LabelSelector;
use crate::status::FieldError;
use serde_json::Value;

/// What was found so far.
pub(super) type Errors = Vec<FieldError>;

static NULL: Value = Value::Null;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct FieldValue<'a> {
    pub(super) value: &'a Value,
    pub(super) path: String,
}

impl<'a> FieldValue<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self {
            value,
            path: String::new(),
        }
    }

    pub(super) fn new(value: &'a Value, path: &str) -> Self {
        Self {
            value,
            path: path.to_owned(),
        }
    }

    /// A member; null if there is none.
    pub(super) fn at(&self, field: &str) -> Self {
        let path = if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.path)
        };
        Self {
            value: self.value.get(field).unwrap_or(&NULL),
            path,
        }
    }

    /// A member by its path; nothing if a parent of it is absent.
    pub(super) fn within(&self, path: &str) -> Option<Self> {
        match path.split_once('.') {
            Some((parent, rest)) => {
                let parent = self.at(parent);
                parent.is_set().then(|| parent.within(rest)).flatten()
            }
            None => Some(self.at(path)),
        }
    }

    /// The value of a key the user chose.
    pub(super) fn key(&self, key: &str) -> Self {
        Self {
            value: self.value.get(key).unwrap_or(&NULL),
            path: format!("{}[{key}]", self.path),
        }
    }

    /// The items of a list, none if this is no list.
    pub(super) fn items(&self) -> Vec<Self> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items
            .map(|(index, value)| Self {
                value,
                path: format!("{}[{index}]", self.path),
            })
            .collect()
    }

    /// The keys of a map, none if this is no map.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.as_str())
    }

    /// The text, empty if there is none.
    pub(super) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// The number, zero if there is none.
    pub(super) fn number(&self) -> i64 {
        self.value.as_i64().unwrap_or(0)
    }

    pub(super) fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether there is nothing inside: absent, or an empty list, map or text.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        }
    }

    /// Reports complaints about this value.
    pub(super) fn complain(&self, errors: &mut Errors, complaints: Vec<String>) {
        errors.extend(
            complaints
                .into_iter()
                .map(|why| FieldError::invalid(&*self.path, self.value.clone(), why)),
        );
    }

    pub(super) fn invalid(&self, errors: &mut Errors, why: &str) {
        errors.push(FieldError::invalid(&*self.path, self.value.clone(), why));
    }

    pub(super) fn forbid(&self, errors: &mut Errors, why: &str) {
        errors.push(FieldError::forbidden(&*self.path, why));
    }

    pub(super) fn require(&self, errors: &mut Errors, why: &str) {
        errors.push(FieldError::required(&*self.path, why));
    }

    pub(super) fn duplicate(&self, errors: &mut Errors) {
        errors.push(FieldError::duplicate(&*self.path, self.value.clone()));
    }

    /// Must be there and not empty.
    pub(super) fn needed(&self, errors: &mut Errors) -> bool {
        if self.is_empty() {
            self.require(errors, "");
        }
        !self.is_empty()
    }

    pub(super) fn not_negative(&self, errors: &mut Errors) {
        if self.number() < 0 {
            self.invalid(errors, NOT_NEGATIVE);
        }
    }

    /// Must not be a negative quantity.
    pub(super) fn not_below_zero(&self, errors: &mut Errors) {
        if vocabulary::nanos(self.value) < 0 {
            self.invalid(errors, NOT_NEGATIVE);
        }
    }

    /// Must be one of these, if it is there.
    pub(super) fn one_of(&self, errors: &mut Errors, supported: &[&str]) {
        if self.is_set() && !supported.contains(&self.text()) {
            self.unsupported(errors, supported);
        }
    }

    pub(super) fn unsupported(&self, errors: &mut Errors, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|&value| value.to_owned()).collect();
        errors.push(FieldError::not_supported(
            &*self.path,
            self.value.clone(),
            &supported,
        ));
    }

    /// Forgets what was found inside of all but the first of these that is there.
    pub(super) fn only_first_of(&self, fields: &[&str], errors: &mut Errors) {
        let others = fields
            .iter()
            .map(|field| self.at(field))
            .filter(FieldValue::is_set)
            .skip(1);
        for prefix in others.map(|other| format!("{}.", other.path)) {
            errors.retain(|error| !error.field().starts_with(&prefix));
        }
    }

    /// Must be a DNS label, if it is there.
    pub(super) fn dns_label(&self, errors: &mut Errors) {
        if !self.is_empty() {
            self.complain(errors, names::dns_label(self.text()));
        }
    }

    /// Must be a DNS subdomain, if it is there.
    pub(super) fn dns_subdomain(&self, errors: &mut Errors) {
        if !self.is_empty() {
            self.complain(errors, names::dns_subdomain(self.text()));
        }
    }

    /// Must be what it was.
    pub(super) fn fixed(&self, errors: &mut Errors, old: &Value) {
        if self.value != old {
            self.invalid(errors, IMMUTABLE);
        }
    }

    /// Must be a port number or the name of a port.
    pub(super) fn port_or_name(&self, errors: &mut Errors) {
        let wrong = match self.value {
            Value::String(name) => vocabulary::port_name(name),
            _ => vocabulary::port(self.number()),
        };
        let shown = if self.value.is_string() {
            self.value.clone()
        } else {
            self.number().into()
        };
        errors.extend(
            wrong
                .into_iter()
                .map(|why| FieldError::invalid(&*self.path, shown.clone(), why)),
        );
    }

    /// Keys and values must be label keys and values.
    pub(super) fn labels(&self, errors: &mut Errors) {
        for key in self.keys() {
            let bad = |value: &str, why| FieldError::invalid(&*self.path, value, why);
            errors.extend(
                names::qualified_name(key)
                    .into_iter()
                    .map(|why| bad(key, why)),
            );
            let value = self.value[key].as_str().unwrap_or_default();
            errors.extend(
                names::label_value(value)
                    .into_iter()
                    .map(|why| bad(value, why)),
            );
        }
    }

    /// Must be a label selector; the parsed one, if it is.
    pub(super) fn selector(&self, errors: &mut Errors) -> Option<LabelSelector> {
        self.at("matchLabels").labels(errors);
        for expression in self.at("matchExpressions").items() {
            let (operator, values) = (expression.at("operator"), expression.at("values"));
            match operator.text() {
                "In" | "NotIn" if values.is_empty() => {
                    values.require(
                        errors,
                        "must be specified when `operator` is 'In' or 'NotIn'",
                    );
                }
                "Exists" | "DoesNotExist" if !values.is_empty() => {
                    values.forbid(
                        errors,
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    );
                }
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                _ => operator.invalid(errors, "not a valid selector operator"),
            }
            let key = expression.at("key");
            key.complain(errors, names::qualified_name(key.text()));
            for value in values.items() {
                value.complain(errors, names::label_value(value.text()));
            }
        }
        LabelSelector::from_json(self.value).ok().flatten()
    }
}
