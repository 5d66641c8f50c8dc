//! Ownership after writes that are not applies.

use serde_json::{Map, Value, json};

use super::managed::{Identity, Managers, Operation, Owned};
use super::order::equal;
use super::path::PathSet;
use super::typed::fits;
use super::update::{Changes, reconcile, set_managers, settle, split};
use super::{Writer, within_depth};

/// The new object with its managers, after a write that is not an apply.
///
/// `live` is the stored object in the version of the request, nothing on create; `new` is the
/// decoded and defaulted object, with the `managedFields` that the client sent. A client may replace
/// the list, or reset it by sending an empty one; through a subresource it may not.
#[must_use]
pub fn track_update(writer: &Writer<'_>, live: Option<&Value>, new: &Value) -> Value {
    let (mut object, sent) = split(new);
    let (bare, list) = match live {
        Some(live) => split(live),
        None => (blank(writer), Value::Null),
    };
    if !within_depth(new) || !within_depth(&bare) {
        return with_list(object, list);
    }
    let sent = if live.is_none() { Value::Null } else { sent };
    let mut managers = base(writer, &list, &sent);
    let shape = writer.versions.shape(writer.api_version);
    let has_paths = shape.is_none_or(|shape| fits(&object, shape) && fits(&bare, shape));
    if has_paths && (live.is_none() || !managers.entries.is_empty()) {
        credit(writer, &bare, &object, &mut managers);
        managers.cap();
    }
    set_managers(&mut object, &managers);
    object
}

/// Puts the old times back if nothing but times differs, so that nothing needs to be stored.
pub fn restore_times(live: &Value, new: &mut Value) {
    let (old_object, old_list) = split(live);
    let (new_object, new_list) = split(new);
    if same_but_times(&old_list, &new_list)
        && equal(&old_object, &new_object)
        && !old_list.is_null()
    {
        *new = with_list(new_object, old_list);
    }
}

fn same_but_times(old: &Value, new: &Value) -> bool {
    let timeless = |list: &Value| -> Option<Vec<Value>> {
        let entries = list.as_array()?.iter().map(|entry| {
            let mut entry = entry.clone();
            entry.as_object_mut().map(|entry| entry.remove("time"));
            entry
        });
        Some(entries.collect())
    };
    match (timeless(old), timeless(new)) {
        (Some(mut old), Some(mut new)) => {
            // The order depends on times.
            old.sort_by_cached_key(Value::to_string);
            new.sort_by_cached_key(Value::to_string);
            old == new
        }
        _ => false,
    }
}

fn with_list(mut object: Value, list: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        && !list.is_null()
    {
        metadata.insert("managedFields".to_owned(), list);
    }
    object
}

/// What the tracking starts from: the client's list if it is usable, else the live one.
fn base(writer: &Writer<'_>, live: &Value, sent: &Value) -> Managers {
    let live = || Managers::decode(live).unwrap_or_default();
    if writer.subresource.is_some() {
        return live();
    }
    if *sent == json!([]) || *sent == json!([{}]) {
        return Managers::default();
    }
    match Managers::decode(sent) {
        Ok(managers) if !managers.entries.is_empty() => managers,
        _ => live(),
    }
}

/// An object of the kind before anything is set.
pub(super) fn blank(writer: &Writer<'_>) -> Value {
    let blank = writer.versions.blank(writer.api_version);
    let mut blank = blank.unwrap_or_else(|| Value::Object(Map::new()));
    if let Some(map) = blank.as_object_mut() {
        map.insert("apiVersion".to_owned(), Value::from(writer.api_version));
    }
    blank
}

/// Credits the writer with what changed, and takes it from everyone else.
pub(super) fn credit(writer: &Writer<'_>, live: &Value, new: &Value, managers: &mut Managers) {
    reconcile(writer, managers);
    let mut changes = Changes::new(writer, live, new);
    if settle(&mut changes, managers, None, true).is_err() {
        return;
    }
    let Some(change) = changes.at(writer.api_version) else {
        return;
    };
    let gain = trackable(&change.written().recursive_difference(writer.reset));
    if gain.is_empty() {
        return;
    }
    let identity = Identity::new(
        writer.manager,
        Operation::Update,
        writer.api_version,
        writer.subresource,
    );
    let owned = managers.entries.entry(identity).or_insert_with(|| Owned {
        api_version: writer.api_version.to_owned(),
        set: PathSet::default(),
        time: None,
    });
    owned.set = owned.set.union(&gain);
    owned.time = Some(writer.now.to_owned());
}

/// The set without what identifies an object or belongs to the server.
pub(super) fn trackable(set: &PathSet) -> PathSet {
    set.difference(&PathSet::of_fields(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ]))
}
