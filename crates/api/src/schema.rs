//! Schemas of the Kubernetes types that our kinds contain, and the finish of a definition.
//!
//! They are written out here because the generated ones carry a page of text per field
//! and rules (`required`) that we cannot afford on objects already stored.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::names::annotation;

/// Number of what [`crate::crds`] gives: raised with every change of it, so that a controller upgrades
/// older definitions and leaves newer ones alone.
pub const SCHEMA_VERSION: u64 = 3;

/// A JSON object kept as it is.
pub(crate) fn open_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A number or a name.
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-int-or-string": true })
}

/// A moment as RFC 3339 writes it.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// Kubernetes' conditions: one per type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status"],
            "properties": {
                "type": { "type": "string", "description": "What the condition is about." },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "reason": { "type": "string", "description": "One word for programs." },
                "message": { "type": "string", "description": "What is the case and what to do about it." },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When status last changed.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "description": "Generation of the spec that the condition is about.",
                },
            },
        },
    })
}

/// Requirements of a label selector.
pub(crate) fn label_requirements(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["key", "operator"],
            "properties": {
                "key": { "type": "string", "description": "Label key." },
                "operator": { "type": "string", "description": "In, NotIn, Exists or DoesNotExist." },
                "values": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "Values for In and NotIn.",
                },
            },
        },
    })
}

/// A list of taints of a Node.
pub(crate) fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["key", "effect"],
            "properties": {
                "key": { "type": "string" },
                "value": { "type": "string" },
                "effect": { "type": "string", "description": "NoSchedule, PreferNoSchedule or NoExecute." },
                "timeAdded": { "type": "string", "format": "date-time" },
            },
        },
    })
}

/// A reference to any object.
pub(crate) fn object_reference(_: &mut SchemaGenerator) -> Schema {
    let names = [
        "apiVersion",
        "kind",
        "namespace",
        "name",
        "uid",
        "fieldPath",
        "resourceVersion",
    ];
    let properties: serde_json::Map<_, _> = names
        .into_iter()
        .map(|name| (name.to_owned(), json!({ "type": "string" })))
        .collect();
    json_schema!({ "type": "object", "properties": properties })
}

/// Makes a derived definition safe for objects that are already stored.
///
/// An object without a spec is served with an empty one: our types need a spec to read,
/// and `required` would lock the object against every later write. Nothing is nullable:
/// CEL takes a null for a value that is there, which would slip past the rules.
pub(crate) fn finish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas = crd
        .spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut());
    for schema in schemas {
        schema.required = None;
        forbid_null(schema);
        let spec = schema
            .properties
            .as_mut()
            .and_then(|all| all.get_mut("spec"));
        if let Some(spec) = spec {
            spec.default = Some(JSON(json!({})));
        }
    }
    let annotations = crd.metadata.annotations.get_or_insert_default();
    let version = SCHEMA_VERSION.to_string();
    annotations.insert(annotation::SCHEMA_VERSION.into(), version);
    crd
}

fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|all| all.values_mut())
    {
        forbid_null(property);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        forbid_null(values);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        forbid_null(items);
    }
}
