//! Whole objects inside an object: `x-kubernetes-embedded-resource`.

use super::{Schema, walk};
use crate::metadata;
use crate::names::{self, NameRule};
use crate::status::FieldError;
use serde_json::{Map, Value};

/// Violations of type and metadata rules in embedded objects.
pub(super) fn errors(schema: &Schema, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk::visit(schema, object, "", &mut |schema, value, path| {
        if let (true, Value::Object(map)) = (schema.embedded, value) {
            resource(map, path, &mut errors);
        }
    });
    errors
}

fn resource(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for field in ["apiVersion", "kind"] {
        let at = format!("{path}.{field}");
        match map.get(field) {
            None => errors.push(FieldError::required(at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(at, "", "must not be empty"));
            }
            Some(Value::String(text)) => errors.extend(
                type_error(field, text).map(|why| FieldError::invalid(at, text.as_str(), why)),
            ),
            Some(other) => errors.push(FieldError::invalid(at, other.clone(), "must be a string")),
        }
    }
    let Some(metadata) = map.get("metadata") else {
        return;
    };
    let mut metadata = metadata.clone();
    if let Some(fields) = metadata.as_object_mut() {
        let unnamed = fields
            .get("name")
            .and_then(Value::as_str)
            .is_none_or(str::is_empty);
        if unnamed {
            fields.insert("name".to_owned(), "x".into());
        }
        let namespaced = fields
            .get("namespace")
            .and_then(Value::as_str)
            .is_some_and(|name| !name.is_empty());
        let rules = metadata::Rules {
            name: NameRule::PathSegment,
            namespaced,
            strict_finalizers: false,
        };
        errors.extend(metadata::validate(
            &metadata,
            rules,
            &format!("{path}.metadata"),
        ));
    }
}

fn type_error(field: &str, text: &str) -> Option<String> {
    if field == "apiVersion" {
        return (text.matches('/').count() > 1)
            .then(|| format!("unexpected GroupVersion string: {text}"));
    }
    let complaints = names::dns_1035_label(&text.to_lowercase());
    (!complaints.is_empty()).then(|| {
        format!(
            "may have mixed case, but should otherwise match: {}",
            complaints.join(",")
        )
    })
}
