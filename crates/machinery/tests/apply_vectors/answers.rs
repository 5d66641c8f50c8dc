//! Answers: how refusals are worded, and how objects are shown in the recordings.

use edgegrid_machinery::apply::{Error, Managers};
use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) causes: Vec<[String; 3]>,
    pub(crate) warnings: Vec<String>,
    pub(crate) object: Value,
}

pub(crate) fn refuse(code: u16, message: impl Into<String>) -> Reply {
    let reason = match code {
        400 => "BadRequest",
        404 => "NotFound",
        409 => "Conflict",
        422 => "Invalid",
        _ => "",
    };
    Reply {
        code,
        reason: reason.to_owned(),
        message: message.into(),
        ..Reply::default()
    }
}

/// A mistake in one field; `prefix` names the object.
pub(crate) fn invalid(prefix: &str, cause: &str, field: &str, text: &str) -> Reply {
    Reply {
        causes: vec![[cause.to_owned(), field.to_owned(), text.to_owned()]],
        ..refuse(422, format!("{prefix} is invalid: {field}: {text}"))
    }
}

pub(crate) fn apply_refusal(error: Error) -> Reply {
    let refusal = refuse(error.code(), error.to_string());
    match error {
        Error::Conflict(conflicts) => {
            let causes = conflicts.0.iter();
            let causes = causes
                .map(|one| ["FieldManagerConflict".to_owned(), one.field(), one.cause()])
                .collect();
            Reply { causes, ..refusal }
        }
        _ => refusal,
    }
}

pub(crate) fn check_type(body: &Value, api_version: &str, kind: &str) -> Result<(), Reply> {
    if body["apiVersion"] == api_version && body["kind"] == kind {
        return Ok(());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&body["apiVersion"]);
    let version = if version.contains('/') {
        version
    } else {
        format!("/{version}")
    };
    let kind = text(&body["kind"]);
    Err(refuse(
        400,
        format!("invalid object type: {version}, Kind={kind}"),
    ))
}

pub(crate) fn check_identity(new: &Value, live: Option<&Value>) -> Result<(), Reply> {
    let metadata = &new["metadata"];
    if live.is_some() || !metadata["namespace"].is_null() {
        let namespace = metadata["namespace"].as_str().unwrap_or("ns");
        if namespace != "ns" {
            return Err(refuse(
                400,
                "the namespace of the provided object does not match the namespace sent on the \
                 request",
            ));
        }
    }
    match metadata["name"].as_str() {
        Some("obj") => Ok(()),
        Some(name) => Err(refuse(
            400,
            format!("the name of the object ({name}) does not match the name on the URL (obj)"),
        )),
        None => Err(refuse(
            400,
            "the name of the object (obj based on URL) was undeterminable: name must be provided",
        )),
    }
}

/// An object as the recorded answers show it.
pub(crate) fn shown(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(key);
        }
    }
    object
}

/// A list of managers as the recorded answers show it.
pub(crate) fn managers(list: &Value) -> Value {
    let mut entries: Vec<Value> = list
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| {
            let subresource = entry["subresource"].as_str().unwrap_or_default();
            json!([
                entry["manager"],
                entry["operation"],
                entry["apiVersion"],
                subresource,
                entry.get("time").is_some(),
                entry["fieldsV1"],
            ])
        })
        .collect();
    entries.sort_by_cached_key(Value::to_string);
    json!(entries)
}

/// Managers whose time differs between two objects.
pub(crate) fn retimed(before: &Value, after: &Value) -> Value {
    let decode = |object: &Value| Managers::decode(&object["metadata"]["managedFields"]).unwrap();
    let (before, after) = (decode(before), decode(after));
    let changed = after.entries.iter().filter(|(identity, owned)| {
        let old = before
            .entries
            .get(identity)
            .and_then(|old| old.time.as_ref());
        old != owned.time.as_ref()
    });
    json!(
        changed
            .map(|(identity, _)| &identity.manager)
            .collect::<Vec<_>>()
    )
}
