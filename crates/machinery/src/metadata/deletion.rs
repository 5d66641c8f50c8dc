//! How an object goes: marked first while it has finalizers or grace, removed when it has none.

use super::{metadata_mut, revision};
use crate::status::{GroupResource, Status};
use serde_json::Value;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a delete request insists on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Preconditions<'a> {
    /// The object must still be this one.
    pub uid: Option<&'a str>,
    /// The object must still be at this revision.
    pub resource_version: Option<&'a str>,
}

/// What becomes of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are collected afterwards.
    Background,
    /// They are deleted before their owner, which waits for them.
    Foreground,
    /// They stay, without their owner.
    Orphan,
}

impl Preconditions<'_> {
    /// Refuses with a conflict if the stored object is not the one that was meant; the answer names the kind.
    pub fn check(&self, object: &Value, kind: &GroupResource) -> Result<(), Status> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let why = match (self.uid, self.resource_version) {
            (Some(uid), _) if uid != text("uid") => format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                text("uid")
            ),
            (_, Some(version)) if version != revision(object) => format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
                revision(object)
            ),
            _ => return Ok(()),
        };
        Err(Status::conflict(kind, text("name"), why))
    }
}

/// The finalizers of an object once a delete with this policy has been accepted.
///
/// Without a policy the two finalizers of garbage collection stay as they are.
pub fn propagation_finalizers(finalizers: &[String], policy: Option<Propagation>) -> Vec<String> {
    let Some(policy) = policy else {
        return finalizers.to_vec();
    };
    let mut kept: Vec<String> = finalizers
        .iter()
        .filter(|name| !matches!(name.as_str(), ORPHAN | FOREGROUND))
        .cloned()
        .collect();
    match policy {
        Propagation::Background => {}
        Propagation::Foreground => kept.push(FOREGROUND.to_owned()),
        Propagation::Orphan => kept.push(ORPHAN.to_owned()),
    }
    kept
}

/// Marks an object as going at `stamp`, with so many seconds of grace; generation goes up if it has one.
///
/// An object that is marked already keeps its mark; [`shorten_grace`] is the only way to move it.
pub fn mark_deleted(object: &mut Value, stamp: &str, grace_seconds: u64) {
    let metadata = metadata_mut(object);
    if metadata
        .get("deletionTimestamp")
        .is_some_and(|stamp| !stamp.is_null())
    {
        return;
    }
    metadata.insert("deletionTimestamp".to_owned(), stamp.into());
    metadata.insert(
        "deletionGracePeriodSeconds".to_owned(),
        grace_seconds.into(),
    );
    if let Some(generation) = metadata
        .get("generation")
        .and_then(Value::as_i64)
        .filter(|generation| *generation > 0)
    {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
}

/// Moves the end of the grace of a marked object forward; returns whether anything changed.
pub fn shorten_grace(object: &mut Value, stamp: &str, grace_seconds: u64) -> bool {
    let metadata = metadata_mut(object);
    let present = metadata
        .get("deletionGracePeriodSeconds")
        .and_then(Value::as_u64);
    if present.is_none_or(|present| grace_seconds >= present) {
        return false;
    }
    metadata.insert("deletionTimestamp".to_owned(), stamp.into());
    metadata.insert(
        "deletionGracePeriodSeconds".to_owned(),
        grace_seconds.into(),
    );
    true
}

/// Whether a marked object can be removed: no finalizer is left, and no grace.
pub fn is_removable(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let is_finalizing = metadata["finalizers"]
        .as_array()
        .is_some_and(|finalizers| !finalizers.is_empty());
    let grace = metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
    !metadata["deletionTimestamp"].is_null() && !is_finalizing && grace == 0
}
