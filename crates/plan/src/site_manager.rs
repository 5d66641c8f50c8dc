//! SuperEdge's site-manager hands its fields over to us.
//!
//! Its PUTs left an entry in `managedFields`. As long as that entry stands, a label it put on a
//! Node outlives every removal by us. So the entry's fields move into ours, in one patch:
//!
//! ```text
//! {site-manager, Update, [beijing, location]}  ──►  {edgegrid, Apply, [beijing, location]}
//! ```
//!
//! From then on ordinary planning applies: what is wanted stays, what is not goes. A site-manager
//! that wrote a moment ago still runs; two controllers that correct each other help nobody, so
//! nothing is written until it has been silent for a while.

use std::borrow::Cow;
use std::time::Duration;

use edgegrid_api::names::manager;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::ObjectMeta;
use serde_json::{Map, Value, json};

use crate::observed::{applied_by, fields_of};

/// How long site-manager must have been silent: twice its resync, and some.
pub const QUIET_PERIOD: SignedDuration = SignedDuration::from_secs(120);

/// The fields of an object that we own, and how site-manager's become ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Handover {
    /// Our `fieldsV1` once all has been handed over.
    pub fields: Value,
    /// Patch of `managedFields` that makes it so; empty when nothing is left to hand over.
    pub operations: Vec<Value>,
    /// Site-manager wrote no longer ago than [`QUIET_PERIOD`]: how long to wait.
    pub wait: Option<Duration>,
}

/// Who owns one of site-manager's fields from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewOwner {
    /// We own it.
    Us,
    /// Nobody owns it: we write it by other means than apply.
    Nobody,
    /// Site-manager still owns it: it is no concern of ours.
    SiteManager,
}

/// Looks at an object's `managedFields`; `new_owner` is asked for each of site-manager's fields, by path.
pub fn handover(
    metadata: &ObjectMeta,
    api_version: &str,
    now: Timestamp,
    new_owner: impl Fn(&[&str]) -> NewOwner,
) -> Handover {
    let ours = applied_by(metadata, manager::EDGEGRID).map(Cow::into_owned);
    let mut found = Handover {
        fields: ours.unwrap_or_else(|| json!({})),
        operations: Vec::new(),
        wait: None,
    };
    let mut emptied = Vec::new();
    for (index, entry) in entries(metadata).filter(|(_, entry)| is_site_managers(entry)) {
        let fields = fields_of(entry);
        let Some(fields) = fields.as_ref().and_then(|fields| fields.as_object()) else {
            continue;
        };
        let parts = split(fields, &mut Vec::new(), &new_owner);
        if parts.ours.is_empty() && !parts.is_released {
            continue;
        }
        merge(&mut found.fields, Value::Object(parts.ours));
        found.wait = found.wait.max(silence_left(entry, now));
        if parts.theirs.is_empty() {
            emptied.push(index);
        } else {
            let path = format!("/metadata/managedFields/{index}/fieldsV1");
            found
                .operations
                .push(json!({ "op": "replace", "path": path, "value": parts.theirs }));
        }
    }
    let changes = !emptied.is_empty() || !found.operations.is_empty();
    for index in emptied.iter().rev() {
        let path = format!("/metadata/managedFields/{index}");
        found
            .operations
            .push(json!({ "op": "remove", "path": path }));
    }
    let is_ours = found
        .fields
        .as_object()
        .is_some_and(|fields| !fields.is_empty());
    if changes && is_ours {
        // Before the removals, which shift what comes after them.
        found
            .operations
            .insert(0, set_our_fields(metadata, api_version, &found.fields));
    }
    found
}

/// Whether SuperEdge's site-manager wrote anything that the object still has.
pub fn is_site_managed(metadata: &ObjectMeta) -> bool {
    entries(metadata).any(|(_, entry)| is_site_managers(entry))
}

/// Whether one of our managers, or site-manager, owns a field.
pub fn is_owned(metadata: &ObjectMeta, path: &[&str]) -> bool {
    entries(metadata).any(|(_, entry)| is_ours_or_site_managers(entry) && owns_field(entry, path))
}

/// Whether one of our managers owns a field.
pub fn is_owned_by_us(metadata: &ObjectMeta, path: &[&str]) -> bool {
    entries(metadata).any(|(_, entry)| is_ours(entry) && owns_field(entry, path))
}

/// Whether anybody but our managers and site-manager owns a field.
pub fn is_owned_by_others(metadata: &ObjectMeta, path: &[&str]) -> bool {
    entries(metadata).any(|(_, entry)| {
        entry.manager.is_some() && !is_ours_or_site_managers(entry) && owns_field(entry, path)
    })
}

fn entries(metadata: &ObjectMeta) -> impl Iterator<Item = (usize, &ManagedFieldsEntry)> {
    let entries = metadata.managed_fields.iter().flatten().enumerate();
    entries.filter(|(_, entry)| entry.subresource.as_deref().unwrap_or_default().is_empty())
}

fn is_site_managers(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(manager::SITE_MANAGER)
        && entry.operation.as_deref() == Some("Update")
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    let manager = entry.manager.as_deref();
    manager.is_some_and(|manager| manager::OURS.contains(&manager))
}

fn is_ours_or_site_managers(entry: &ManagedFieldsEntry) -> bool {
    is_ours(entry) || entry.manager.as_deref() == Some(manager::SITE_MANAGER)
}

fn owns_field(entry: &ManagedFieldsEntry, path: &[&str]) -> bool {
    let fields = fields_of(entry);
    let mut at = fields.as_deref();
    for name in path {
        at = at.and_then(|at| at.get(format!("f:{name}")));
    }
    at.is_some()
}

fn silence_left(entry: &ManagedFieldsEntry, now: Timestamp) -> Option<Duration> {
    let silent = now.duration_since(entry.time.as_ref()?.0);
    Duration::try_from(QUIET_PERIOD - silent)
        .ok()
        .filter(|left| !left.is_zero())
}

/// A level of `fieldsV1` by who owns it from now on.
#[derive(Default)]
struct Parts {
    ours: Map<String, Value>,
    theirs: Map<String, Value>,
    is_released: bool,
}

/// A map that is owned as such (`.`) stays with whoever owns something in it.
fn split<'a>(
    fields: &'a Map<String, Value>,
    path: &mut Vec<&'a str>,
    new_owner: &impl Fn(&[&str]) -> NewOwner,
) -> Parts {
    let mut parts = Parts::default();
    for (key, below) in fields.iter().filter(|(key, _)| *key != ".") {
        path.push(key.strip_prefix("f:").unwrap_or(key));
        match below.as_object() {
            Some(below) if below.keys().any(|key| key != ".") => {
                let inner = split(below, path, new_owner);
                parts.is_released |= inner.is_released;
                for (side, part) in [
                    (&mut parts.ours, inner.ours),
                    (&mut parts.theirs, inner.theirs),
                ] {
                    if !part.is_empty() {
                        side.insert(key.clone(), Value::Object(part));
                    }
                }
            }
            _ => match new_owner(path) {
                NewOwner::Us => drop(parts.ours.insert(key.clone(), below.clone())),
                NewOwner::SiteManager => drop(parts.theirs.insert(key.clone(), below.clone())),
                NewOwner::Nobody => parts.is_released = true,
            },
        }
        path.pop();
    }
    if !parts.theirs.is_empty() && fields.contains_key(".") {
        parts.theirs.insert(".".into(), json!({}));
    }
    parts
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert_with(|| json!({})), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn set_our_fields(metadata: &ObjectMeta, api_version: &str, fields: &Value) -> Value {
    let ours = entries(metadata).find(|(_, entry)| {
        entry.manager.as_deref() == Some(manager::EDGEGRID)
            && entry.operation.as_deref() == Some("Apply")
    });
    match ours {
        Some((index, _)) => json!({
            "op": "replace",
            "path": format!("/metadata/managedFields/{index}/fieldsV1"),
            "value": fields,
        }),
        None => json!({
            "op": "add",
            "path": "/metadata/managedFields/-",
            "value": {
                "manager": manager::EDGEGRID, "operation": "Apply", "apiVersion": api_version,
                "fieldsType": "FieldsV1", "fieldsV1": fields,
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn metadata(entries: &Value) -> ObjectMeta {
        serde_json::from_value(json!({ "managedFields": entries })).unwrap()
    }

    fn entry(manager: &str, operation: &str, fields: &Value, time: &str) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    fn handover_of(entries: &Value) -> Handover {
        handover(&metadata(entries), "v1", NOW, |path| match path {
            ["metadata", "labels", "a"] => NewOwner::Us,
            ["spec", "taints"] => NewOwner::Nobody,
            _ => NewOwner::SiteManager,
        })
    }

    #[test]
    fn chosen_fields_pass_and_the_rest_stays_with_site_manager() {
        let fields = json!({ "f:metadata": { "f:labels": { ".": {}, "f:a": {}, "f:b": {} } } });
        let found = handover_of(&json!([
            entry(
                "kubelet",
                "Update",
                &json!({ "f:metadata": { "f:labels": { "f:a": {} } } }),
                "2020-01-01T00:00:00Z"
            ),
            entry("site-manager", "Update", &fields, "2020-01-01T00:00:00Z"),
        ]));
        assert_eq!(
            found.fields,
            json!({ "f:metadata": { "f:labels": { "f:a": {} } } })
        );
        assert_eq!(found.wait, None);
        assert_eq!(found.operations.len(), 2);
        assert_eq!(found.operations[0]["path"], "/metadata/managedFields/-");
        assert_eq!(
            found.operations[1]["path"],
            "/metadata/managedFields/1/fieldsV1"
        );
        assert_eq!(
            found.operations[1]["value"],
            json!({ "f:metadata": { "f:labels": { ".": {}, "f:b": {} } } })
        );
    }

    #[test]
    fn an_entry_with_nothing_left_is_removed_after_ours_has_grown() {
        let of_a = json!({ "f:metadata": { "f:labels": { ".": {}, "f:a": {} } } });
        let ours = json!({ "f:metadata": { "f:labels": { "f:c": {} } } });
        let found = handover_of(&json!([
            entry("site-manager", "Update", &of_a, "2020-01-01T00:00:00Z"),
            entry("edgegrid", "Apply", &ours, "2020-01-01T00:00:00Z"),
        ]));
        let paths: Vec<_> = found
            .operations
            .iter()
            .map(|one| one["path"].clone())
            .collect();
        assert_eq!(
            paths,
            [
                "/metadata/managedFields/1/fieldsV1",
                "/metadata/managedFields/0"
            ]
        );
        assert_eq!(
            found.fields,
            json!({ "f:metadata": { "f:labels": { "f:a": {}, "f:c": {} } } })
        );
    }

    #[test]
    fn a_site_manager_that_wrote_a_moment_ago_is_waited_for() {
        let of_a = json!({ "f:metadata": { "f:labels": { "f:a": {} } } });
        let found = handover_of(&json!([entry(
            "site-manager",
            "Update",
            &of_a,
            "2025-12-31T23:59:00Z"
        )]));
        assert_eq!(found.wait, Some(Duration::from_mins(1)));
    }

    #[test]
    fn what_nobody_is_to_own_is_only_released() {
        let fields = json!({ "f:spec": { "f:taints": {} } });
        let found = handover_of(&json!([entry(
            "site-manager",
            "Update",
            &fields,
            "2020-01-01T00:00:00Z"
        )]));
        assert_eq!(
            found.operations,
            [json!({ "op": "remove", "path": "/metadata/managedFields/0" })]
        );
    }

    #[test]
    fn nothing_of_interest_gives_no_operations() {
        let status = json!({ "f:metadata": { "f:labels": { "f:b": {} } } });
        let found = handover_of(&json!([entry(
            "site-manager",
            "Update",
            &status,
            "2025-12-31T23:59:59Z"
        )]));
        assert_eq!((found.operations.len(), found.wait), (0, None));
    }
}
