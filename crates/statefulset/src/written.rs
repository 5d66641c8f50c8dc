//! Read your writes: there is no pass over a set before the caches show what was written for it.
//!
//! Without this, a pass on an old cache would make a pod a second time or delete its successor's
//! place; names and preconditions would save us, at the price of refused calls and wrong events.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cache::{Cache, Entry};
use crate::calls::Error;
use crate::rules::{Claim, Pod, Revision, Set};

/// Longer than any watch lags that is still alive.
const CACHE_LAG_TIMEOUT: Duration = Duration::from_secs(10);

/// The caches of all that is watched.
#[derive(Default)]
pub(crate) struct Caches {
    pub(crate) sets: Cache<Set>,
    pub(crate) pods: Cache<Pod>,
    pub(crate) claims: Cache<Claim>,
    pub(crate) revisions: Cache<Revision>,
}

/// The four resources that are watched and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
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
    /// Pods that were deleted, name and uid: until they are seen to go.
    deleted: BTreeMap<String, String>,
}

impl Caches {
    /// Waits until every resource was listed.
    pub(crate) async fn wait_until_ready(&self) {
        self.sets.wait_until_ready().await;
        self.pods.wait_until_ready().await;
        self.claims.wait_until_ready().await;
        self.revisions.wait_until_ready().await;
    }

    /// Waits until everything that was written for a set can be seen.
    pub(crate) async fn wait_for_writes(&self, writes: &Writes, set: &Set) -> Result<(), Error> {
        let Some(marks) = writes.marks(&set.uid) else {
            return Ok(());
        };
        in_time("StatefulSets", self.sets.wait_until_seen(marks.sets)).await?;
        in_time("Pods", self.pods.wait_until_seen(marks.pods)).await?;
        in_time(
            "PersistentVolumeClaims",
            self.claims.wait_until_seen(marks.claims),
        )
        .await?;
        in_time(
            "ControllerRevisions",
            self.revisions.wait_until_seen(marks.revisions),
        )
        .await?;
        for (name, uid) in &marks.deleted {
            let is_leaving = |pod: &Pod| pod.uid != *uid || pod.is_terminating;
            in_time(
                "Pods",
                self.pods
                    .wait_for_object((&set.namespace, name), is_leaving),
            )
            .await?;
        }
        writes.forget(&set.uid);
        Ok(())
    }
}

impl Writes {
    /// Notes a write for a set, at this resource version.
    pub(crate) fn note(&self, caches: &Caches, uid: &str, resource: Watched, version: u64) {
        let mut all = self.marks.lock();
        let marks = all.entry(uid.to_owned()).or_default();
        let mark = match resource {
            Watched::Sets => &mut marks.sets,
            Watched::Pods => &mut marks.pods,
            Watched::Claims => &mut marks.claims,
            Watched::Revisions => &mut marks.revisions,
        };
        *mark = version.max(*mark);
        match resource {
            Watched::Sets => note(&caches.sets, version),
            Watched::Pods => note(&caches.pods, version),
            Watched::Claims => note(&caches.claims, version),
            Watched::Revisions => note(&caches.revisions, version),
        }
    }

    /// Notes a pod that was deleted for a set.
    pub(crate) fn note_deleted(&self, uid: &str, pod: (&str, &str)) {
        let mut all = self.marks.lock();
        let marks = all.entry(uid.to_owned()).or_default();
        marks.deleted.insert(pod.0.to_owned(), pod.1.to_owned());
    }

    /// Forgets a set that was deleted, or whose writes were all seen.
    pub(crate) fn forget(&self, uid: &str) {
        self.marks.lock().remove(uid);
    }

    fn marks(&self, uid: &str) -> Option<Marks> {
        self.marks.lock().get(uid).cloned()
    }
}

fn note<T: Entry>(cache: &Cache<T>, version: u64) {
    cache.note_written(version);
}

async fn in_time(kind: &'static str, seen: impl Future<Output = ()>) -> Result<(), Error> {
    let seen = tokio::time::timeout(CACHE_LAG_TIMEOUT, seen).await;
    seen.map_err(|_| Error::StaleCache { kind })
}
