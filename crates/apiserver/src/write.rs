//! What every write has in common, from the decoded object to the store.
//!
//! ```text
//! create: default ─► own ─► stamp ─► prepare ─► admit ─► validate ─► put if absent
//! change: check ─► default ─► own ─► carry over ─► prepare ─► admit ─► validate ─► put if unchanged
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use edgegrid_listwatch::{Memo, storable};
use edgegrid_machinery::apply::{Writer, restore_times, track_update};
use edgegrid_machinery::metadata::{self, Birth};
use edgegrid_machinery::schema::Verdict;
use edgegrid_machinery::status::Status;
use edgegrid_store::{CommitError, Entry, Event, Expect};
use serde_json::Value;

use crate::admission::{Operation, admit};
use crate::answer::{Answer, Content};
use crate::options::FieldValidation;
use crate::request::{Live, Request};
use crate::{crds, namespaces};

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

/// A body in the form in which it is stored; unknown and doubled fields are dropped, reported or refused.
pub(crate) fn decode(
    request: &Request<'_>,
    value: Value,
    duplicates: &[String],
) -> Result<(Value, Vec<String>), Status> {
    let decoded = request.served.decode(value)?;
    let doubled = duplicates
        .iter()
        .map(|path| format!("duplicate field \"{path}\""));
    let unknown = decoded
        .unknown
        .iter()
        .map(|path| format!("unknown field \"{}\"", path.trim_start_matches('.')));
    let complaints: Vec<String> = doubled.chain(unknown).collect();
    match request.options.field_validation {
        _ if complaints.is_empty() => Ok((decoded.object, Vec::new())),
        FieldValidation::Ignore => Ok((decoded.object, Vec::new())),
        FieldValidation::Warn => Ok((decoded.object, complaints)),
        FieldValidation::Strict => {
            let (kind, version) = (&request.served.read.kind, &request.served.read.version);
            let complaints = complaints.join(", ");
            Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {complaints}"
            )))
        }
    }
}

/// Refuses a body of another kind or version than its path.
pub(crate) fn check_type(request: &Request<'_>, object: &Value) -> Result<(), Status> {
    let (version, kind) = (request.served.read.api_version(), &request.served.read.kind);
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    match (text("apiVersion"), text("kind")) {
        (own, _) if own.is_empty() || object["kind"].as_str().is_none_or(str::is_empty) => {
            Err(Status::bad_request(format!(
                "Object 'apiVersion' or 'Kind' is missing; this path takes {version} {kind}"
            )))
        }
        (own, _) if own != version => Err(Status::bad_request(format!(
            "the API version in the data ({own}) does not match the expected API version ({version})"
        ))),
        (_, own) if own != **kind => Err(Status::bad_request(format!(
            "the kind in the data ({own}) does not match the expected kind ({kind})"
        ))),
        _ => Ok(()),
    }
}

/// Stores a new object.
pub(crate) fn create(
    request: &Request<'_>,
    object: Value,
    ownership: Ownership,
) -> Result<Answer, Status> {
    let mut object = object;
    metadata::place(&mut object, request.namespace().unwrap_or_default())?;
    metadata::check_new(&object)?;
    let doubled = dedup_owners(&mut object);
    let is_generated = object["metadata"]["name"]
        .as_str()
        .is_none_or(str::is_empty);
    let mut name = String::new();
    for _ in 0..NAME_TRIES {
        let (new, mut warnings) = prepare_new(request, object.clone(), ownership)?;
        new["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut name);
        match put(request, &name, &new, Expect::Absent) {
            Ok(content) => {
                warnings.extend(doubled);
                return Ok(Answer {
                    warnings,
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

fn prepare_new(
    request: &Request<'_>,
    mut new: Value,
    ownership: Ownership,
) -> Result<(Value, Vec<String>), Status> {
    let (served, shared) = (&request.served, request.server);
    let (uid, suffix, now) = (shared.ids.uid(), shared.ids.suffix(), shared.clock.stamp());
    let birth = Birth {
        uid: &uid,
        now: &now,
        suffix: &suffix,
    };
    served.default(&mut new);
    // The writer is credited with what it sent, also where the server does not take it over.
    if ownership == Ownership::Track {
        new = tracked(request, None, &new);
    }
    metadata::stamp(&mut new, birth, served.generation());
    served.prepare_create(&mut new);
    namespaces::prepare_create(request, &mut new);
    crds::prepare(request, &mut new, None);
    admit(request, Operation::Create, None, &mut new)?;
    let warnings = judged(request, &new, served.validate_create(&new))?;
    crds::check(request, &new)?;
    Ok((new, warnings))
}

/// Stores a change of a live object, or gives nothing if it was changed meanwhile.
pub(crate) fn change(
    request: &Request<'_>,
    live: &Live,
    mut new: Value,
    ownership: Ownership,
) -> Result<Option<Answer>, Status> {
    let (served, old) = (&request.served, &live.object);
    check_identity(request, &mut new, old)?;
    // A patch is credited with what it says twice, a whole object is not.
    let is_patch = request.media_type.contains("-patch+");
    let mut doubled = (!is_patch).then(|| dedup_owners(&mut new)).flatten();
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    served.default(&mut new);
    if ownership == Ownership::Track {
        new = tracked(request, Some(old), &new);
    }
    metadata::carry_over(&mut new, old);
    if is_patch {
        doubled = dedup_owners(&mut new);
    }
    restore_times(old, &mut new);
    served.prepare_update(&mut new, old, request.subresource());
    crds::prepare(request, &mut new, Some(old));
    admit(request, Operation::Update, Some(old), &mut new)?;
    metadata::advance_generation(&mut new, old, served.generation());
    let mut warnings = judged(
        request,
        &new,
        served.validate_update(&new, old, request.subresource()),
    )?;
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
    match content {
        Ok(content) => Ok(Some(Answer {
            warnings,
            ..Answer::ok(content)
        })),
        Err(CommitError::Conflict { .. }) => Ok(None),
        Err(error) => Err(Status::internal(error)),
    }
}

fn check_identity(request: &Request<'_>, new: &mut Value, old: &Value) -> Result<(), Status> {
    check_named(request, new)?;
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    if name != request.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.name()
        )));
    }
    metadata::place(new, request.namespace().unwrap_or_default())?;
    let resource = request.served.group_resource();
    metadata::check_uid(new, old, &resource)?;
    metadata::check_revision(
        new,
        old,
        &resource,
        request.served.allows_unconditional_update(),
    )
}

/// Refuses an object without a name where the path says one.
pub(crate) fn check_named(request: &Request<'_>, object: &Value) -> Result<(), Status> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        let path = request.name();
        return Err(Status::bad_request(format!(
            "the name of the object ({path} based on URL) was undeterminable: name must be provided"
        )));
    }
    Ok(())
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

/// Removes a stored object for good.
pub(crate) fn remove(
    request: &Request<'_>,
    last: &Value,
    expect: Expect,
) -> Result<Content, CommitError> {
    let name = last["metadata"]["name"].as_str().unwrap_or_default();
    let mut last = last.clone();
    if !request.options.dry_run {
        let event = request
            .server
            .reader
            .store()
            .delete(request.key(name), expect)?;
        if let Some(event) = event {
            crds::after_removal(request, &last);
            last["metadata"]["resourceVersion"] = event.revision.to_string().into();
        }
    }
    Ok(Content::Object(last))
}

/// Writes an object, unless it is only tried out.
pub(crate) fn put(
    request: &Request<'_>,
    name: &str,
    object: &Value,
    expect: Expect,
) -> Result<Content, CommitError> {
    let (store, key) = (request.server.reader.store(), request.key(name));
    if request.options.dry_run {
        let found = store.get(&key).map(|entry| entry.revision());
        let holds = match expect {
            Expect::Absent => found.is_none(),
            Expect::Revision(revision) => found == Some(revision),
            _ => true,
        };
        if holds {
            return Ok(Content::Object(object.clone()));
        }
        return Err(CommitError::Conflict {
            key: key.into(),
            expected: expect,
            found,
        });
    }
    let event = store.put(key, storable(object), expect)?;
    crds::after_write(request, object);
    Ok(Content::Stored(stored(&event)))
}

fn stored(event: &Event<Memo>) -> Arc<Entry<Memo>> {
    event
        .after()
        .expect("invariant: a put leaves a version behind")
        .clone()
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

fn judged(request: &Request<'_>, object: &Value, verdict: Verdict) -> Result<Vec<String>, Status> {
    if verdict.errors.is_empty() {
        return Ok(verdict.warnings);
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::invalid(
        &request.served.group_kind(),
        name,
        &verdict.errors,
    ))
}
