//! PATCH: changes an object by a JSON, merge or strategic merge patch, or by apply.

use edgegrid_machinery::apply;
use edgegrid_machinery::metadata;
use edgegrid_machinery::patch::{Error, json_patch, merge_patch, strategic_merge_patch};
use edgegrid_machinery::status::{Cause, FieldError, GroupResource, Status};
use edgegrid_machinery::table::wrapped;
use serde_json::Value;

use crate::answer::Answer;
use crate::request::{Live, Request};
use crate::update::TRIES;
use crate::write::Ownership;
use crate::{body, write};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(crate) fn patch(request: &Request<'_>) -> Result<Answer, Status> {
    let is_apply = request.media_type == APPLY;
    if request.options.force.is_some() && !is_apply {
        return Err(options_invalid(FieldError::forbidden(
            "force",
            "may not be specified for non-apply patch",
        )));
    }
    if is_apply {
        return apply_patch(request);
    }
    let patch = body::json(&request.body)?.value;
    // A patch that names a revision is made from it and no other.
    let is_conditional = !metadata::revision(&patch).is_empty();
    for _ in 0..TRIES {
        let live = request.live(request.name())?;
        let patched = patched(request, &live.object, &patch)?;
        let (object, complaints) =
            write::decode(request, patched, &[]).map_err(|status| unreadable(&status))?;
        if let Some(mut answer) = write::change(request, &live, object, Ownership::Track)? {
            answer.warnings.splice(0..0, complaints);
            return Ok(answer);
        }
        if is_conditional {
            break;
        }
    }
    Err(Status::modified(
        &request.served.group_resource(),
        request.name(),
    ))
}

fn patched(request: &Request<'_>, object: &Value, patch: &Value) -> Result<Value, Status> {
    let result = match request.media_type.as_str() {
        JSON => json_patch(object, patch),
        MERGE => merge_patch(object, patch),
        STRATEGIC if !request.served.is_custom() => {
            let shape = request.served.shape();
            strategic_merge_patch(object, patch, shape).map(|object| wrapped(&object, shape))
        }
        _ => return Err(unsupported(request)),
    };
    result.map_err(|error| refusal(request, &error))
}

fn refusal(request: &Request<'_>, error: &Error) -> Status {
    match error.code() {
        400 => Status::bad_request(error.to_string()),
        413 => Status::request_too_large(body::MAX_BYTES),
        422 => Status::invalid(&request.served.group_kind(), request.name(), &[]),
        _ => Status::unmergeable(error),
    }
}

/// A patch that makes an object nobody can read is itself at fault.
fn unreadable(status: &Status) -> Status {
    let error = FieldError::invalid("patch", Value::Null, status.message());
    Status::invalid(&GroupResource::new("", ""), "", &[error])
}

fn unsupported(request: &Request<'_>) -> Status {
    let mut taken = vec![JSON, MERGE];
    if !request.served.is_custom() {
        taken.push(STRATEGIC);
    }
    taken.push(APPLY);
    Status::unsupported_media_type(&taken)
}

fn apply_patch(request: &Request<'_>) -> Result<Answer, Status> {
    if !request.options.manager_given {
        return Err(options_invalid(FieldError::required(
            "fieldManager",
            "is required for apply patch",
        )));
    }
    let read = body::yaml(&request.body)?;
    check_applied(request, &read.value)?;
    for _ in 0..TRIES {
        let live = request.find(request.name())?;
        if let Some(answer) = apply_once(request, live.as_ref(), &read.value)? {
            return Ok(answer);
        }
    }
    Err(Status::modified(
        &request.served.group_resource(),
        request.name(),
    ))
}

/// Applies to what is there now, or gives nothing if that changed meanwhile.
fn apply_once(
    request: &Request<'_>,
    live: Option<&Live>,
    body: &Value,
) -> Result<Option<Answer>, Status> {
    let Some(live) = live else {
        return create_applied(request, body).map(Some);
    };
    let applied = merged(request, Some(&live.object), body)?;
    let object = request.served.decode_applied(applied);
    let object = object.map_err(|status| Status::unmergeable(status.message()))?;
    write::change(request, live, object.object, Ownership::Settled)
}

fn create_applied(request: &Request<'_>, body: &Value) -> Result<Answer, Status> {
    let (resource, name) = (request.served.group_resource(), request.name());
    if request.subresource().is_some() || !metadata::revision(body).is_empty() {
        return Err(Status::not_found(&resource, name));
    }
    if let Some(uid) = body["metadata"]["uid"].as_str() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&resource, name, why));
    }
    let applied = merged(request, None, body)?;
    let object = request.served.decode_applied(applied);
    let object = object.map_err(|status| Status::unmergeable(status.message()))?;
    write::check_named(request, &object.object)?;
    write::create(request, object.object, Ownership::Settled)
}

fn merged(request: &Request<'_>, live: Option<&Value>, body: &Value) -> Result<Value, Status> {
    let force = request.options.force.unwrap_or_default();
    match write::as_writer(request, |writer| apply::apply(writer, live, body, force)) {
        Ok(outcome) => Ok(outcome.object),
        Err(apply::Error::Conflict(conflicts)) => {
            let causes = conflicts.0.iter().map(|conflict| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: conflict.cause(),
                field: conflict.field(),
            });
            Err(Status::apply_conflict(
                conflicts.to_string(),
                causes.collect(),
            ))
        }
        Err(
            error
            @ (apply::Error::ManagedFields | apply::Error::Version(_) | apply::Error::TooDeep),
        ) => Err(Status::bad_request(error.to_string())),
        Err(error) => Err(Status::unmergeable(error)),
    }
}

/// What is applied says what it is, and its name is that of the path.
fn check_applied(request: &Request<'_>, body: &Value) -> Result<(), Status> {
    if !body.is_object() {
        return Err(Status::bad_request(
            "error decoding YAML: an apply patch must be an object",
        ));
    }
    write::check_type(request, body)?;
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    if !name.is_empty() && name != request.name() {
        return Err(Status::bad_request(format!(
            "metadata.name: Invalid value: {name:?}: must be {:?}, the name on the URL",
            request.name()
        )));
    }
    Ok(())
}

fn options_invalid(error: FieldError) -> Status {
    Status::invalid(
        &GroupResource::new("meta.k8s.io", "PatchOptions"),
        "",
        &[error],
    )
}
