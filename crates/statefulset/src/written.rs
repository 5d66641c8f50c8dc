//! Read your writes: a set is not looked at again before the caches show what was written for it.
//!
//! Without this, a pass on an old cache would make a pod a second time or delete its successor's
//! place; names and preconditions would save us, at the price of refused calls and wrong events.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cache::{Cache, Entry};
use crate::calls::Error;
use crate::rules::{Claim, Pod, Revision, Set};

/// Longer than any watch lags that still lives.
const PATIENCE: Duration = Duration::from_secs(10);

/// All that is watched.
#[derive(Default)]
pub(crate) struct Caches {
    pub(crate) sets: Cache<Set>,
    pub(crate) pods: Cache<Pod>,
    pub(crate) claims: Cache<Claim>,
    pub(crate) revisions: Cache<Revision>,
}

/// A resource that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sets,
    Pods,
    Claims,
    Revisions,
}

/// What was written for each set, by its uid.
#[derive(Default)]
pub(crate) struct Writes {
    marks: Mutex<BTreeMap<String, Marks>>,
}

#[derive(Default, Clone)]
struct Marks {
    sets: u64,
    pods: u64,
    claims: u64,
    revisions: u64,
    /// Pods deleted, name and uid: until they are seen to go.
    deleted: BTreeMap<String, String>,
}

impl Caches {
    /// Waits until every resource was listed.
    pub(crate) async fn ready(&self) {
        self.sets.ready().await;
        self.pods.ready().await;
        self.claims.ready().await;
        self.revisions.ready().await;
    }

    /// Waits until everything that was written for a set can be seen.
    pub(crate) async fn show(&self, writes: &Writes, set: &Set) -> Result<(), Error> {
        let Some(marks) = writes.of(&set.uid) else {
            return Ok(());
        };
        within("StatefulSets", self.sets.has_seen(marks.sets)).await?;
        within("Pods", self.pods.has_seen(marks.pods)).await?;
        within("PersistentVolumeClaims", self.claims.has_seen(marks.claims)).await?;
        within(
            "ControllerRevisions",
            self.revisions.has_seen(marks.revisions),
        )
        .await?;
        for (name, uid) in &marks.deleted {
            let is_leaving = |pod: &Pod| pod.uid != *uid || pod.is_terminating;
            within("Pods", self.pods.until((&set.namespace, name), is_leaving)).await?;
        }
        writes.forget(&set.uid);
        Ok(())
    }
}

impl Writes {
    /// A write for a set, at this revision.
    pub(crate) fn note(&self, caches: &Caches, uid: &str, kind: Kind, version: u64) {
        let mut all = self.lock();
        let marks = all.entry(uid.to_owned()).or_default();
        let mark = match kind {
            Kind::Sets => &mut marks.sets,
            Kind::Pods => &mut marks.pods,
            Kind::Claims => &mut marks.claims,
            Kind::Revisions => &mut marks.revisions,
        };
        *mark = version.max(*mark);
        match kind {
            Kind::Sets => note(&caches.sets, version),
            Kind::Pods => note(&caches.pods, version),
            Kind::Claims => note(&caches.claims, version),
            Kind::Revisions => note(&caches.revisions, version),
        }
    }

    /// A pod deleted for a set.
    pub(crate) fn note_deleted(&self, uid: &str, pod: (&str, &str)) {
        let mut all = self.lock();
        let marks = all.entry(uid.to_owned()).or_default();
        marks.deleted.insert(pod.0.to_owned(), pod.1.to_owned());
    }

    /// The set has gone, or everything was seen.
    pub(crate) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn of(&self, uid: &str) -> Option<Marks> {
        self.lock().get(uid).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Marks>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note<T: Entry>(cache: &Cache<T>, version: u64) {
    cache.note_written(version);
}

async fn within(kind: &'static str, seen: impl Future<Output = ()>) -> Result<(), Error> {
    let seen = tokio::time::timeout(PATIENCE, seen).await;
    seen.map_err(|_| Error::StaleCache { kind })
}
