//! Notices when another controller does our work, from the notes that the API server keeps about who
//! wrote what (`managedFields`), without comparing clocks.
//!
//! A status counter written by another manager than ours, or a pod made for our set by another one,
//! is such a sign if it was not there when we first looked: what a predecessor left is no sign.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time};
use kube::core::ObjectMeta;
use tokio::time::Instant;

use crate::names::FIELD_MANAGER;

/// Status fields that only a controller writes.
const COUNTERS: [&str; 4] = [
    "f:observedGeneration",
    "f:replicas",
    "f:currentRevision",
    "f:updateRevision",
];

/// Signs of other controllers, by the uid of the set.
#[derive(Default)]
pub(crate) struct Foreigners {
    sets: Mutex<BTreeMap<String, Signs>>,
}

#[derive(Default)]
struct Signs {
    /// Who wrote the status, and when they last did.
    writers: BTreeSet<(String, Option<Time>)>,
    last: Option<(String, Instant)>,
}

impl Foreigners {
    /// Looks at a set as it was told.
    pub(crate) fn look_at_set(&self, metadata: &ObjectMeta) {
        let uid = metadata.uid.clone().unwrap_or_default();
        let writers = status_writers(metadata);
        let mut sets = self.lock();
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

    /// Looks at a pod that a set controls and that was not there before.
    pub(crate) fn look_at_new_pod(&self, owner: &str, metadata: &ObjectMeta) {
        let maker = entries(metadata).find(|entry| {
            entry.subresource.is_none() && writes(entry, &["f:metadata"], &["f:generateName"])
        });
        let manager = maker.and_then(|entry| entry.manager.clone());
        let Some(manager) = manager.filter(|manager| manager != FIELD_MANAGER) else {
            return;
        };
        if let Some(signs) = self.lock().get_mut(owner) {
            signs.last = Some((manager, Instant::now()));
        }
    }

    /// Who else acted on a set not longer ago than this.
    pub(crate) fn within(&self, uid: &str, time: Duration) -> Option<String> {
        let sets = self.lock();
        let (manager, at) = sets.get(uid)?.last.as_ref()?;
        (at.elapsed() < time).then(|| manager.clone())
    }

    /// The set has gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Signs>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
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
