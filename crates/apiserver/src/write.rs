//! What every write has in common, from the decoded object to the store.
//!
//! ```text
//! create: default ─► track ─► stamp ─► prepare ─► admit ─► validate ─► put if absent
//! change: check ─► default ─► track ─► carry over ─► prepare ─► admit ─► validate ─► put if unchanged
//! ```

use std::collections::BTreeSet;

use edgegrid_machinery::apply::{Writer, restore_times, track_update};
use edgegrid_machinery::metadata::{self, CreateStamp};
use edgegrid_machinery::schema::Validation;
use edgegrid_machinery::status::Status;
use edgegrid_store::{CommitError, Expect};
use serde_json::Value;

use crate::admission::Operation;
use crate::answer::{Answer, Content};
use crate::body::Read;
use crate::options::FieldValidation;
use crate::request::{Live, Request};
use crate::storage::{committed, put, remove};
use crate::{crds, namespaces, patch_type, services};

/// Tries at a generated name before giving up.
const NAME_TRIES: usize = 8;

/// Who owns the fields of what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The writer, of what it changed.
    Track,
    /// Apply has settled it.
    Settled,
}

/// A body in the form in which it is stored, and the warnings for its sender.
#[derive(Debug, Clone)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// Drops what the kind does not know; unknown and doubled fields are reported or refused.
pub(crate) fn decode(request: &Request<'_>, read: Read) -> Result<Decoded, Status> {
    let (object, unknown) = request.served.decode(read.value)?;
    check_fields(request, object, read.complaints, &unknown)
}

/// Warns of unknown and doubled fields or refuses them, as `fieldValidation` asks.
pub(crate) fn check_fields(
    request: &Request<'_>,
    object: Value,
    complaints: Vec<String>,
    unknown: &[String],
) -> Result<Decoded, Status> {
    let unknown = unknown.iter().map(|path| path.trim_start_matches('.'));
    let mut warnings = complaints;
    warnings.extend(unknown.map(|path| format!("unknown field \"{path}\"")));
    match request.options.field_validation {
        FieldValidation::Ignore => warnings.clear(),
        FieldValidation::Strict if !warnings.is_empty() => {
            let (kind, version) = (&request.served.read.kind, &request.served.read.version);
            let complaints = warnings.join(", ");
            return Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {complaints}"
            )));
        }
        _ => {}
    }
    Ok(Decoded { object, warnings })
}

/// Refuses a body of another kind or version than its path. Built-in kinds need not say theirs.
pub(crate) fn check_type(request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
    let read = &request.served.read;
    for (field, words, expected) in [
        ("apiVersion", "API version", read.api_version()),
        ("kind", "kind", read.kind.to_string()),
    ] {
        let Some(map) = object.as_object_mut() else {
            return Err(Status::bad_request(format!(
                "not an object of kind {}",
                read.kind
            )));
        };
        let own = map.get(field).and_then(Value::as_str).unwrap_or_default();
        if own == expected {
            continue;
        }
        if !own.is_empty() {
            return Err(Status::bad_request(format!(
                "the {words} in the data ({own}) does not match the expected {words} ({expected})"
            )));
        }
        if request.served.is_custom() {
            return Err(Status::bad_request(format!(
                "Object '{field}' is missing; this path takes {expected}"
            )));
        }
        map.insert(field.to_owned(), expected.into());
    }
    Ok(())
}

/// Stores a new object.
pub(crate) fn create(
    request: &Request<'_>,
    decoded: Decoded,
    ownership: Ownership,
) -> Result<Answer, Status> {
    let Decoded {
        mut object,
        warnings: decoding_warnings,
    } = decoded;
    let _allocating = services::allocator_lock(request);
    metadata::ensure_namespace(&mut object, request.namespace().unwrap_or_default())?;
    metadata::check_new(&object)?;
    let doubled = dedup_owners(&mut object);
    let is_generated = metadata::name(&object).is_empty();
    let mut name = String::new();
    for _ in 0..NAME_TRIES {
        let (new, warnings) = prepare_new(request, object.clone(), ownership)?;
        metadata::name(&new).clone_into(&mut name);
        match put(request, &name, &new, Expect::Absent) {
            Ok(content) => {
                let warnings = decoding_warnings.into_iter().chain(warnings).chain(doubled);
                return Ok(Answer {
                    warnings: warnings.collect(),
                    ..Answer::created(content)
                });
            }
            Err(CommitError::Conflict { .. }) if is_generated => {}
            Err(CommitError::Conflict { .. }) => {
                return Err(Status::already_exists(
                    &request.served.group_resource(),
                    &name,
                ));
            }
            Err(error) => return Err(Status::internal(error)),
        }
    }
    Err(Status::generated_name_taken(
        &request.served.group_resource(),
        &name,
    ))
}

/// Stores a new object where the path says its name, and one was expected to be there.
pub(crate) fn create_named(
    request: &Request<'_>,
    mut decoded: Decoded,
    ownership: Ownership,
) -> Result<Answer, Status> {
    let object = &mut decoded.object;
    check_path(request, object)?;
    crate::served::remove_field(&mut object["metadata"], "resourceVersion");
    create(request, decoded, ownership)
}

fn prepare_new(
    request: &Request<'_>,
    mut new: Value,
    ownership: Ownership,
) -> Result<(Value, Vec<String>), Status> {
    let served = &request.served;
    let (ids, clock) = (&request.server.ids, &request.server.clock);
    let (uid, suffix, now) = (ids.uid(), ids.suffix(), clock.stamp());
    let create = CreateStamp {
        uid: &uid,
        now: &now,
        suffix: &suffix,
    };
    served.apply_defaults(&mut new);
    // The writer is credited with what it sent, also where the server does not take it over.
    if ownership == Ownership::Track {
        new = tracked(request, None, &new);
    }
    metadata::stamp(&mut new, create, served.strategy.generation());
    served.strategy.prepare_create(&mut new);
    crds::prepare(request, &mut new, None);
    request.admit(Operation::Create, None, &mut new)?;
    let warnings = warnings_or_invalid(request, &new, served.validate_create(&new))?;
    crds::check(request, &new)?;
    Ok((new, warnings))
}

/// Stores a change of a live object, or gives nothing if it was changed meanwhile.
pub(crate) fn change(
    request: &Request<'_>,
    live: &Live,
    decoded: Decoded,
    ownership: Ownership,
) -> Result<Option<Answer>, Status> {
    let (served, old) = (&request.served, &live.object);
    let Decoded {
        object: mut new,
        mut warnings,
    } = decoded;
    let _allocating = services::allocator_lock(request);
    check_identity(request, &mut new, old)?;
    let doubled = default_and_track(request, &mut new, old, ownership);
    served.prepare_update(&mut new, old, request.subresource());
    crds::prepare(request, &mut new, Some(old));
    request.admit(Operation::Update, Some(old), &mut new)?;
    if request.subresource() != Some("status") {
        metadata::advance_generation(&mut new, old, served.strategy.generation());
    }
    let validation = served.validate_update(&new, old, request.subresource());
    warnings.extend(warnings_or_invalid(request, &new, validation)?);
    warnings.extend(doubled);
    crds::check(request, &new)?;
    let expect = Expect::Revision(live.entry.revision());
    let content = if new == *old {
        Ok(Content::Stored(live.entry.clone()))
    } else if metadata::is_removable(&new) && namespaces::is_finalized(request, &new) {
        // What goes with its last finalizer is shown as it was to be stored.
        remove(request, &new, expect).map(|_| Content::Object(new))
    } else {
        put(request, request.name(), &new, expect)
    };
    let content = committed(content)?;
    Ok(content.map(|content| Answer {
        warnings,
        ..Answer::ok(content)
    }))
}

/// Fills in what was left open, credits the change to its writer, and keeps what no writer decides.
/// Gives a warning if an owner was named twice.
fn default_and_track(
    request: &Request<'_>,
    new: &mut Value,
    old: &Value,
    ownership: Ownership,
) -> Option<String> {
    // A patch is credited with what it says twice, a whole object is not.
    let is_patch =
        patch_type::is_plain(&request.media_type) || patch_type::is_apply(&request.media_type);
    let mut doubled = (!is_patch).then(|| dedup_owners(new)).flatten();
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    request.served.apply_defaults(new);
    if ownership == Ownership::Track {
        *new = tracked(request, Some(old), new);
    }
    metadata::carry_over(new, old);
    if is_patch {
        doubled = dedup_owners(new);
    }
    restore_times(old, new);
    doubled
}

fn check_identity(request: &Request<'_>, new: &mut Value, old: &Value) -> Result<(), Status> {
    check_path(request, new)?;
    let resource = request.served.group_resource();
    // To a patch the uid is a field like others, which may not change.
    if !patch_type::is_plain(&request.media_type) {
        metadata::check_uid(new, old, &resource)?;
    }
    let unconditional = request.served.strategy.allows_unconditional_update();
    metadata::check_revision(new, old, &resource, unconditional)
}

/// Refuses an object with another name or namespace than its path.
fn check_path(request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
    metadata::check_name(object, request.name())?;
    metadata::ensure_namespace(object, request.namespace().unwrap_or_default())
}

/// Keeps the first of equal references to an owner; says so if there were more.
fn dedup_owners(object: &mut Value) -> Option<String> {
    let owners = object
        .pointer_mut("/metadata/ownerReferences")?
        .as_array_mut()?;
    let mut seen = BTreeSet::new();
    let count = owners.len();
    owners.retain(|owner| seen.insert(owner.to_string()));
    (owners.len() < count)
        .then(|| "metadata.ownerReferences has an entry twice: only the first is kept".to_owned())
}

/// Credits what differs from the old object to the writer.
pub(crate) fn tracked(request: &Request<'_>, old: Option<&Value>, new: &Value) -> Value {
    as_writer(request, |writer| track_update(writer, old, new))
}

/// Acts as the one who sent the request, for the ownership of fields.
pub(crate) fn as_writer<T>(request: &Request<'_>, act: impl FnOnce(&Writer<'_>) -> T) -> T {
    let now = request.server.clock.stamp();
    let reset = request.served.reset_fields(request.subresource());
    let api_version = request.served.read.api_version();
    act(&Writer {
        versions: &*request.served,
        api_version: &api_version,
        subresource: request.subresource(),
        manager: &request.options.manager,
        reset: &reset,
        now: &now,
    })
}

fn warnings_or_invalid(
    request: &Request<'_>,
    object: &Value,
    validation: Validation,
) -> Result<Vec<String>, Status> {
    if validation.errors.is_empty() {
        return Ok(validation.warnings);
    }
    let name = metadata::name(object);
    Err(Status::invalid(
        &request.served.group_kind(),
        name,
        &validation.errors,
    ))
}
