//! What makes a schema structural: every field has a type in one place, and the logical
//! combinators (`allOf`, `anyOf`, `oneOf`, `not`) only constrain what is declared there.

use super::{Additional, ListType, Schema, Type};
use crate::status::FieldError;
use serde_json::Value;

/// Complaints about the structure, sorted by text.
pub(super) fn errors(schema: &Schema, json: &Value, at: &str) -> Vec<FieldError> {
    let mut check = Check { errors: Vec::new() };
    check.node(schema, json, at, Level::Root);
    check.complete(schema, schema, at, at);
    check.errors.sort_by_cached_key(ToString::to_string);
    check.errors
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

struct Check {
    errors: Vec<FieldError>,
}

/// Keywords that carry structure and so have no place below a combinator.
const STRUCTURE: [(&str, &str); 12] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-embedded-resource",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-int-or-string",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-list-map-keys",
        "must be empty to be structural",
    ),
    (
        "x-kubernetes-list-type",
        "must be undefined to be structural",
    ),
    (
        "x-kubernetes-map-type",
        "must be undefined to be structural",
    ),
];

/// Keywords of JSON Schema that Kubernetes has no use for.
const UNSUPPORTED: [&str; 7] = [
    "id",
    "$schema",
    "$ref",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
];

impl Check {
    fn node(&mut self, schema: &Schema, json: &Value, at: &str, level: Level) {
        self.keywords(json, at);
        self.kind(schema, at, level);
        self.lists(schema, json, at);
        if schema.kind == Some(Type::Array) && schema.items.is_none() {
            self.required(format!("{at}.items"), "must be specified");
        }
        if let Some(items) = &schema.items {
            self.node(items, &json["items"], &format!("{at}.items"), Level::Item);
        }
        for (name, child) in &schema.properties {
            self.node(
                child,
                &json["properties"][name],
                &format!("{at}.properties[{name}]"),
                Level::Field,
            );
        }
        if let Additional::Of(child) = &schema.additional {
            self.node(
                child,
                &json["additionalProperties"],
                &format!("{at}.additionalProperties"),
                Level::Field,
            );
        }
        if !matches!(schema.additional, Additional::Unsaid) {
            let why = match (level, schema.embedded, schema.properties.is_empty()) {
                (Level::Root, _, _) => Some("must not be used at the root"),
                (_, true, _) => Some("must not be used if x-kubernetes-embedded-resource is set"),
                (_, _, false) => Some("additionalProperties and properties are mutual exclusive"),
                _ => None,
            };
            if let Some(why) = why {
                self.errors.push(FieldError::forbidden(
                    format!("{at}.additionalProperties"),
                    why,
                ));
            }
        }
        self.combinators(
            json,
            at,
            is_int_or_string(json),
            is_int_or_string(&json["allOf"][0]),
        );
    }

    fn keywords(&mut self, json: &Value, at: &str) {
        for keyword in UNSUPPORTED
            .into_iter()
            .filter(|keyword| json.get(keyword).is_some())
        {
            self.errors.push(FieldError::forbidden(
                format!("{at}.{keyword}"),
                format!("{keyword} is not supported"),
            ));
        }
        if json["uniqueItems"] == true {
            let why =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.errors
                .push(FieldError::forbidden(format!("{at}.uniqueItems"), why));
        }
    }

    fn kind(&mut self, schema: &Schema, at: &str, level: Level) {
        let field = format!("{at}.type");
        let must_be_object = "must be object if x-kubernetes-embedded-resource is true";
        match schema.kind {
            None if schema.embedded => self.required(field, must_be_object),
            Some(kind) if schema.embedded && kind != Type::Object => {
                self.errors
                    .push(FieldError::invalid(field, kind.name(), must_be_object));
            }
            None if !schema.int_or_string && !schema.preserve_unknown => self.required(
                field,
                match level {
                    Level::Root => "must not be empty at the root",
                    Level::Item => "must not be empty for specified array items",
                    Level::Field => "must not be empty for specified object fields",
                },
            ),
            Some(kind) if level == Level::Root && kind != Type::Object => {
                self.errors.push(FieldError::invalid(
                    field,
                    kind.name(),
                    "must be object at the root",
                ));
            }
            _ => {}
        }
        let why = "must be false if x-kubernetes-int-or-string is true";
        for (set, keyword) in [
            (
                schema.preserve_unknown,
                "x-kubernetes-preserve-unknown-fields",
            ),
            (schema.embedded, "x-kubernetes-embedded-resource"),
        ] {
            if schema.int_or_string && set {
                self.errors
                    .push(FieldError::invalid(format!("{at}.{keyword}"), true, why));
            }
        }
        if schema.embedded && !schema.preserve_unknown && schema.properties.is_empty() {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.required(format!("{at}.properties"), why);
        }
    }

    fn lists(&mut self, schema: &Schema, json: &Value, at: &str) {
        let written = json["x-kubernetes-list-type"].as_str();
        if let Some(other) = written.filter(|text| !matches!(*text, "atomic" | "set" | "map")) {
            let supported = ["atomic", "map", "set"].map(str::to_owned);
            self.errors.push(FieldError::not_supported(
                format!("{at}.x-kubernetes-list-type"),
                other,
                &supported,
            ));
        }
        if written.is_some() && schema.kind != Some(Type::Array) {
            self.required(
                format!("{at}.type"),
                "must be array if x-kubernetes-list-type is specified",
            );
        }
        let keys_written = json["x-kubernetes-list-map-keys"]
            .as_array()
            .is_some_and(|keys| !keys.is_empty());
        match &schema.list {
            ListType::Map(keys) if keys.is_empty() => {
                let why = "must not be empty if x-kubernetes-list-type is map";
                self.required(format!("{at}.x-kubernetes-list-map-keys"), why);
            }
            ListType::Map(keys) => self.map_keys(keys, schema, at),
            _ if keys_written => {
                let why = "must be map if x-kubernetes-list-map-keys is non-empty";
                self.required(format!("{at}.x-kubernetes-list-type"), why);
            }
            _ => {}
        }
    }

    fn map_keys(&mut self, keys: &[String], schema: &Schema, at: &str) {
        let Some(items) = &schema.items else { return };
        for key in keys {
            let field = format!("{at}.items.properties[{key}]");
            match items.properties.get(key) {
                None => {
                    let why = "entries must all be names of item properties";
                    self.errors.push(FieldError::invalid(
                        format!("{at}.x-kubernetes-list-map-keys"),
                        key.as_str(),
                        why,
                    ));
                }
                Some(property)
                    if property.default.is_none() && !items.checks.required.contains(key) =>
                {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    self.required(format!("{field}.default"), why);
                }
                Some(_) => {}
            }
        }
    }

    fn combinators(&mut self, json: &Value, at: &str, skip_any: bool, skip_first_all: bool) {
        for keyword in ["anyOf", "allOf", "oneOf"] {
            let members = json[keyword]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            for (index, member) in members.iter().enumerate() {
                let at = format!("{at}.{keyword}[{index}]");
                match keyword {
                    "anyOf" if skip_any => {}
                    "allOf" if skip_first_all && index == 0 => self.nested(member, &at, true),
                    _ => self.nested(member, &at, false),
                }
            }
        }
        if json.get("not").is_some() {
            self.nested(&json["not"], &format!("{at}.not"), false);
        }
    }

    fn nested(&mut self, json: &Value, at: &str, skip_any: bool) {
        for (keyword, why) in STRUCTURE
            .into_iter()
            .filter(|(keyword, _)| is_set(&json[*keyword]))
        {
            self.errors
                .push(FieldError::forbidden(format!("{at}.{keyword}"), why));
        }
        if is_set(&json["x-kubernetes-validations"]) {
            let field = format!("{at}.x-kubernetes-validations");
            self.errors.push(FieldError::forbidden(
                field,
                "must be empty to be structural",
            ));
        }
        if json.get("items").is_some() {
            self.nested(&json["items"], &format!("{at}.items"), false);
        }
        for (name, child) in json["properties"].as_object().into_iter().flatten() {
            let at = format!("{at}.properties[{name}]");
            if name == "metadata" {
                self.errors.push(FieldError::forbidden(
                    at.clone(),
                    "must not be specified in a nested context",
                ));
            }
            self.nested(child, &at, false);
        }
        self.combinators(json, at, skip_any, false);
    }

    /// Every field named below a combinator must be declared beside it.
    fn complete(&mut self, constraint: &Schema, declared: &Schema, at: &str, from: &str) {
        let checks = &constraint.checks;
        let members = [
            ("allOf", &checks.all_of),
            ("anyOf", &checks.any_of),
            ("oneOf", &checks.one_of),
        ];
        for (keyword, members) in members {
            for (index, member) in members.iter().enumerate() {
                self.declared(member, declared, at, &format!("{from}.{keyword}[{index}]"));
            }
        }
        if let Some(not) = &checks.not {
            self.declared(not, declared, at, &format!("{from}.not"));
        }
    }

    fn declared(&mut self, constraint: &Schema, declared: &Schema, at: &str, from: &str) {
        self.complete(constraint, declared, at, from);
        let items = constraint
            .items
            .as_deref()
            .map(|items| ("items".to_owned(), items, declared.items.as_deref()));
        let fields = constraint.properties.iter();
        let fields = fields.map(|(name, child)| {
            (
                format!("properties[{name}]"),
                child,
                declared.properties.get(name),
            )
        });
        for (name, child, counterpart) in items.into_iter().chain(fields) {
            let (at, from) = (format!("{at}.{name}"), format!("{from}.{name}"));
            match counterpart {
                Some(counterpart) => self.declared(child, counterpart, &at, &from),
                None => self.required(at, &format!("because it is defined in {from}")),
            }
        }
    }

    fn required(&mut self, field: String, why: &str) {
        self.errors.push(FieldError::required(field, why));
    }
}

/// The one pattern with types below a combinator that is allowed.
fn is_int_or_string(json: &Value) -> bool {
    json["anyOf"] == serde_json::json!([{"type": "integer"}, {"type": "string"}])
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}
