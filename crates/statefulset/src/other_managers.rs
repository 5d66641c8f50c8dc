//! Notices when another field manager does our work, from what the API server records about who wrote
//! which field (`managedFields`), without comparing clocks.
//!
//! A status counter written by another manager than ours, or a pod made for our set by another one,
//! is a sign of it, unless it was there when we first saw the set: what a predecessor left is no sign.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time};
use kube::core::ObjectMeta;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::names::FIELD_MANAGER;

/// Status fields that only a controller writes.
const COUNTERS: [&str; 4] = [
    "f:observedGeneration",
    "f:replicas",
    "f:currentRevision",
    "f:updateRevision",
];

/// Signs of other managers, by the uid of the set.
#[derive(Default)]
pub(crate) struct OtherManagers {
    sets: Mutex<BTreeMap<String, Signs>>,
}

#[derive(Default)]
struct Signs {
    /// Who wrote the status, and when they last did.
    writers: BTreeSet<(String, Option<Time>)>,
    /// The last other manager, and when we saw its write.
    last: Option<(String, Instant)>,
}

impl OtherManagers {
    /// Takes note of who wrote the status of a set.
    pub(crate) fn observe_set(&self, metadata: &ObjectMeta) {
        let uid = metadata.uid.clone().unwrap_or_default();
        let writers = status_writers(metadata);
        let mut sets = self.sets.lock();
        let Some(signs) = sets.get_mut(&uid) else {
            sets.insert(
                uid,
                Signs {
                    writers,
                    last: None,
                },
            );
            return;
        };
        let fresh = writers.difference(&signs.writers).last();
        if let Some((manager, _)) = fresh {
            signs.last = Some((manager.clone(), Instant::now()));
        }
        signs.writers.extend(writers);
    }

    /// Takes note of who created a pod that a set controls and that was not there before.
    pub(crate) fn observe_new_pod(&self, owner: &str, metadata: &ObjectMeta) {
        let creation = entries(metadata).find(|entry| {
            entry.subresource.is_none() && writes(entry, &["f:metadata"], &["f:generateName"])
        });
        let manager = creation.and_then(|entry| entry.manager.clone());
        let Some(manager) = manager.filter(|manager| manager != FIELD_MANAGER) else {
            return;
        };
        if let Some(signs) = self.sets.lock().get_mut(owner) {
            signs.last = Some((manager, Instant::now()));
        }
    }

    /// The manager that acted on a set not longer ago than this, if one did.
    pub(crate) fn acted_within(&self, uid: &str, time: Duration) -> Option<String> {
        let sets = self.sets.lock();
        let (manager, at) = sets.get(uid)?.last.as_ref()?;
        (at.elapsed() < time).then(|| manager.clone())
    }

    /// Forgets a set that was deleted.
    pub(crate) fn forget(&self, uid: &str) {
        self.sets.lock().remove(uid);
    }
}

fn status_writers(metadata: &ObjectMeta) -> BTreeSet<(String, Option<Time>)> {
    entries(metadata)
        .filter(|entry| {
            entry.subresource.as_deref() == Some("status")
                && writes(entry, &["f:status"], &COUNTERS)
        })
        .filter_map(|entry| Some((entry.manager.clone()?, entry.time.clone())))
        .filter(|(manager, _)| manager != FIELD_MANAGER)
        .collect()
}

fn entries(metadata: &ObjectMeta) -> impl Iterator<Item = &ManagedFieldsEntry> {
    metadata.managed_fields.iter().flatten()
}

fn writes(entry: &ManagedFieldsEntry, path: &[&str], fields: &[&str]) -> bool {
    let mut at = entry.fields_v1.as_ref().map(|fields| &fields.0);
    for part in path {
        at = at.and_then(|value| value.get(part));
    }
    at.is_some_and(|value| fields.iter().any(|field| value.get(field).is_some()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn metadata(entries: &[(&str, &str, Value)]) -> ObjectMeta {
        let entry = |(manager, time, fields): &(&str, &str, Value)| {
            let subresource = fields.get("f:status").map(|_| "status");
            json!({
                "manager": manager, "operation": "Update", "apiVersion": "v1", "time": time,
                "fieldsType": "FieldsV1", "fieldsV1": fields, "subresource": subresource,
            })
        };
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        serde_json::from_value(json!({ "uid": "set", "managedFields": entries })).unwrap()
    }

    fn counters() -> Value {
        json!({ "f:status": { "f:replicas": {} } })
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_predecessor_left_is_no_sign_but_its_next_write_is() {
        let managers = OtherManagers::default();
        let theirs = "kube-controller-manager";
        managers.observe_set(&metadata(&[(theirs, "2026-01-01T00:00:00Z", counters())]));
        assert_eq!(managers.acted_within("set", MINUTE), None);
        let ours = (FIELD_MANAGER, "2026-01-01T00:00:05Z", counters());
        let left = (theirs, "2026-01-01T00:00:00Z", counters());
        managers.observe_set(&metadata(&[left, ours.clone()]));
        assert_eq!(managers.acted_within("set", MINUTE), None);
        let again = (theirs, "2026-01-01T00:00:06Z", counters());
        managers.observe_set(&metadata(&[again, ours]));
        assert_eq!(
            managers.acted_within("set", MINUTE).as_deref(),
            Some(theirs)
        );
        tokio::time::advance(MINUTE).await;
        assert_eq!(managers.acted_within("set", MINUTE), None, "it has stopped");
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_of_somebody_else_is_no_sign() {
        let managers = OtherManagers::default();
        managers.observe_set(&metadata(&[]));
        let condition = json!({ "f:status": { "f:conditions": {} } });
        managers.observe_set(&metadata(&[("kubectl", "2026-01-01T00:00:00Z", condition)]));
        assert_eq!(managers.acted_within("set", MINUTE), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_made_by_another_manager_is_a_sign_and_one_of_ours_is_not() {
        let managers = OtherManagers::default();
        managers.observe_set(&metadata(&[]));
        let made = json!({ "f:metadata": { "f:generateName": {} } });
        let by = |manager| metadata(&[(manager, "2026-01-01T00:00:00Z", made.clone())]);
        managers.observe_new_pod("set", &by(FIELD_MANAGER));
        assert_eq!(managers.acted_within("set", MINUTE), None);
        managers.observe_new_pod("set", &by("other"));
        assert_eq!(
            managers.acted_within("set", MINUTE).as_deref(),
            Some("other")
        );
    }
}
