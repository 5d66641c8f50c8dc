//! PATCH: changes an object by a JSON, merge or strategic merge patch, or by apply.

use edgegrid_machinery::apply;
use edgegrid_machinery::patch::{Error, json_patch, merge_patch, strategic_merge_patch};
use edgegrid_machinery::status::{Cause, FieldError, GroupResource, Status};
use edgegrid_machinery::table::wrapped;
use serde_json::Value;

use crate::answer::Answer;
use crate::body::{self, Read};
use crate::patch_type::{JSON, MERGE, is_apply};
use crate::request::{Live, Request};
use crate::write::{self, Decoded, Ownership};

/// Members of an operation of a JSON patch.
const OPERATION: [&str; 4] = ["op", "path", "from", "value"];

pub(crate) fn patch(request: &Request<'_>) -> Result<Answer, Status> {
    let patch = read(request)?;
    request.retried(|| {
        let live = request.find(request.name())?;
        match (is_apply(&request.media_type), live) {
            (false, Some(live)) => {
                let decoded = patched(request, &live.object, &patch)?;
                write::change(request, &live, decoded, Ownership::Track)
            }
            (true, Some(live)) => apply_to(request, &live, &patch),
            (true, None) if request.subresource().is_none() => create(request, &patch).map(Some),
            (_, None) => Err(request.not_found(request.name())),
        }
    })
}

/// The patch itself, in the form of its type.
pub(crate) fn read(request: &Request<'_>) -> Result<Read, Status> {
    if is_apply(&request.media_type) {
        let read = body::yaml(&request.body)
            .map_err(|error| Status::bad_request(format!("error encoding patch: {error}")))?;
        check_applied(request, &read.value)?;
        return Ok(read);
    }
    let mut read =
        body::json(&request.body).map_err(|_| Status::bad_request("invalid JSON patch"))?;
    if request.media_type == JSON {
        read.complaints.extend(unknown_members(&read.value));
        for complaint in &mut read.complaints {
            complaint.insert_str(0, "json patch ");
        }
    }
    Ok(read)
}

fn unknown_members(patch: &Value) -> Vec<String> {
    let operations = patch.as_array().into_iter().flatten().enumerate();
    let members = operations.flat_map(|(index, operation)| {
        let keys = operation.as_object().into_iter().flat_map(|map| map.keys());
        keys.map(move |key| (index, key))
    });
    members
        .filter(|(_, key)| !OPERATION.contains(&key.as_str()))
        .map(|(index, key)| format!("unknown field \"[{index}].{key}\""))
        .collect()
}

/// The object that a plain patch makes of another.
pub(crate) fn patched(
    request: &Request<'_>,
    object: &Value,
    patch: &Read,
) -> Result<Decoded, Status> {
    let value = match request.media_type.as_str() {
        JSON => json_patch(object, &patch.value),
        MERGE => merge_patch(object, &patch.value),
        _ => {
            let shape = request.served.shape();
            let object = strategic_merge_patch(object, &patch.value, shape);
            object.map(|object| wrapped(&object, shape))
        }
    };
    let mut value = value.map_err(|error| refusal(&error))?;
    write::check_type(request, &mut value).map_err(|status| unreadable(&status))?;
    let complaints = patch.complaints.clone();
    write::decode(request, Read { value, complaints }).map_err(|status| unreadable(&status))
}

fn refusal(error: &Error) -> Status {
    match error.code() {
        400 => Status::bad_request(error.to_string()),
        413 => Status::request_too_large(error),
        422 => Status::rejected(error),
        _ => Status::unmergeable(error),
    }
}

/// A patch that makes an object nobody can read is itself at fault.
fn unreadable(status: &Status) -> Status {
    let error = FieldError::invalid("patch", Value::Null, status.message());
    Status::invalid(&GroupResource::new("", ""), "", &[error])
}

fn apply_to(request: &Request<'_>, live: &Live, patch: &Read) -> Result<Option<Answer>, Status> {
    let object = merged(request, Some(&live.object), &patch.value)?.object;
    let decoded = decode_applied(request, object, patch)?;
    write::change(request, live, decoded, Ownership::Settled)
}

fn create(request: &Request<'_>, patch: &Read) -> Result<Answer, Status> {
    if let Some(uid) = patch.value["metadata"]["uid"].as_str() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        let resource = request.served.group_resource();
        return Err(Status::conflict(&resource, request.name(), why));
    }
    let object = merged(request, None, &patch.value)?.object;
    let decoded = decode_applied(request, object, patch)?;
    write::create_named(request, decoded, Ownership::Settled)
}

/// What an apply made, in the form in which it is stored.
pub(crate) fn decode_applied(
    request: &Request<'_>,
    value: Value,
    patch: &Read,
) -> Result<Decoded, Status> {
    let decoded = request.served.decode_applied(value);
    let (object, unknown) = decoded.map_err(|status| Status::unmergeable(status.message()))?;
    write::check_fields(request, object, patch.complaints.clone(), &unknown)
}

/// The object that an apply makes of another, with its managers.
pub(crate) fn merged(
    request: &Request<'_>,
    live: Option<&Value>,
    body: &Value,
) -> Result<apply::Outcome, Status> {
    let force = request.options.force.unwrap_or_default();
    write::as_writer(request, |writer| apply::apply(writer, live, body, force)).map_err(|error| {
        let code = error.code();
        match error {
            apply::Error::Conflict(conflicts) => {
                let causes = conflicts.0.iter().map(|conflict| Cause {
                    reason: "FieldManagerConflict".to_owned(),
                    message: conflict.cause(),
                    field: conflict.field(),
                });
                Status::apply_conflict(conflicts.to_string(), causes.collect())
            }
            error if code == 400 => Status::bad_request(error.to_string()),
            error => Status::unmergeable(error),
        }
    })
}

/// What is applied says what it is.
fn check_applied(request: &Request<'_>, body: &Value) -> Result<(), Status> {
    if !body.is_object() && !body.is_null() {
        return Err(Status::bad_request("error decoding patch: not an object"));
    }
    let text = |field: &str| body[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let read = &request.served.read;
    if version == read.api_version() && kind == read.kind {
        return Ok(());
    }
    let slash = if version.contains('/') { "" } else { "/" };
    Err(Status::bad_request(format!(
        "invalid object type: {slash}{version}, Kind={kind}"
    )))
}
