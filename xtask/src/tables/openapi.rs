//! Types and their fields, from the published schemas.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::documents;
use super::golang::{Structs, Tag};

const REFERENCE: &str = "#/components/schemas/";

/// Adds a `type` line per definition and below it one line per field.
pub(super) fn render(folder: &Path, structs: &Structs<'_>, lines: &mut Vec<String>) -> Result<()> {
    let mut definitions = BTreeMap::new();
    for (_, document) in documents(folder)? {
        if let Some(schemas) = document["components"]["schemas"].as_object() {
            definitions.extend(schemas.clone());
        }
    }
    for (name, definition) in &definitions {
        lines.push(type_line(name, definition));
        let required = definition["required"].as_array();
        for (field, schema) in definition["properties"].as_object().into_iter().flatten() {
            let is_required = required.is_some_and(|names| names.contains(&Value::from(&**field)));
            let flags = flags(structs, name, field, is_required);
            lines.push(
                field_line(field, schema, &flags)
                    .with_context(|| format!("field {field} of {name}"))?,
            );
        }
    }
    Ok(())
}

fn type_line(name: &str, definition: &Value) -> String {
    let mut words = vec!["type".to_owned(), name.to_owned()];
    words.extend(special(name, definition).map(|shape| format!("as={shape}")));
    if definition["x-kubernetes-map-type"] == "atomic" {
        words.push("atomic".to_owned());
    }
    let kinds = definition["x-kubernetes-group-version-kind"].as_array();
    if let Some([kind]) = kinds.map(Vec::as_slice) {
        let part = |key: &str| kind[key].as_str().unwrap_or_default().to_owned();
        let parts = ["group", "version", "kind"].map(part);
        words.push(format!("kind={}", parts.join("/")));
    }
    words.join(" ")
}

/// Types whose JSON form is not a plain struct.
fn special(name: &str, definition: &Value) -> Option<&'static str> {
    match name.rsplit('.').next()? {
        "Quantity" => Some("quantity"),
        "IntOrString" => Some("int-or-string"),
        "Time" => Some("time"),
        "MicroTime" => Some("micro-time"),
        "RawExtension" => Some("raw"),
        "JSON"
        | "JSONSchemaPropsOrArray"
        | "JSONSchemaPropsOrBool"
        | "JSONSchemaPropsOrStringArray" => Some("any"),
        "FieldsV1" => Some("{}"),
        _ if definition["type"] == "string" => Some("string"),
        _ => None,
    }
}

fn flags(structs: &Structs<'_>, definition: &str, field: &str, required: bool) -> String {
    let embedded_from_meta = Tag {
        omitted: true,
        ..Tag::default()
    };
    let tag = structs.tag(definition, field).unwrap_or(embedded_from_meta);
    let mut flags = String::new();
    for (set, flag) in [
        (required, '!'),
        (tag.pointer, '*'),
        (tag.omitted, '?'),
        (tag.omitted_zero, '~'),
    ] {
        if set {
            flags.push(flag);
        }
    }
    flags
}

fn field_line(name: &str, schema: &Value, flags: &str) -> Result<String> {
    let mut words = vec![name.to_owned(), expression(schema)?];
    if !flags.is_empty() {
        words.push(flags.to_owned());
    }
    if let Some(kind) = schema["x-kubernetes-list-type"].as_str() {
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        let keys: Vec<&str> = keys
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let colon = if keys.is_empty() { "" } else { ":" };
        words.push(format!("list={kind}{colon}{}", keys.join(",")));
    }
    for (key, flag) in [
        ("x-kubernetes-map-type", "map"),
        ("x-kubernetes-patch-strategy", "patch"),
        ("x-kubernetes-patch-merge-key", "key"),
    ] {
        words.extend(schema[key].as_str().map(|text| format!("{flag}={text}")));
    }
    let default = &schema["default"];
    if !default.is_null() && default.as_object().is_none_or(|map| !map.is_empty()) {
        words.push(format!("default={default}"));
    }
    Ok(format!(" {}", words.join(" ")))
}

/// The type of a field as one word: `[]` before the items of a list, `{}` before the values of a map.
fn expression(schema: &Value) -> Result<String> {
    let reference = schema["$ref"]
        .as_str()
        .or(schema["allOf"][0]["$ref"].as_str());
    if let Some(reference) = reference {
        return Ok(reference.trim_start_matches(REFERENCE).to_owned());
    }
    let format = schema["format"].as_str();
    Ok(match schema["type"].as_str() {
        Some("array") => format!("[]{}", expression(&schema["items"])?),
        Some("object") => match &schema["additionalProperties"] {
            values @ Value::Object(_) => format!("{{}}{}", expression(values)?),
            _ => "{}".to_owned(),
        },
        Some("string") => match format {
            None => "string".to_owned(),
            Some("byte") => "bytes".to_owned(),
            Some(other) => anyhow::bail!("unknown text format {other}"),
        },
        Some("integer") => format.unwrap_or("integer").to_owned(),
        Some("number") => format.unwrap_or("number").to_owned(),
        Some("boolean") => "boolean".to_owned(),
        None => "any".to_owned(),
        Some(other) => anyhow::bail!("unknown type {other}"),
    })
}
