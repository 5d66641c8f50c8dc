//! Our own last writes, so that no pass acts on a cache that has not seen them.
//!
//! A cache runs behind the API server. A pass that sees the world as it was before our own last
//! write would make the same write again. What we wrote is remembered until the watch shows
//! it, or for a while: an object that vanished before the watch saw it is never shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_plan::ObjectId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// After this time the cache is believed, whatever was written.
pub const CACHE_TIMEOUT: Duration = Duration::from_secs(10);

/// The last write of each object.
#[derive(Clone, Default)]
pub struct Writes(Arc<Mutex<BTreeMap<ObjectId, Write>>>);

#[derive(Clone, Debug)]
struct Write {
    /// Revision that the write gave the object, `None` for a deletion.
    revision: Option<u64>,
    at: Instant,
}

impl Writes {
    /// Notes a write and the revision it gave the object.
    pub fn wrote(&self, id: &ObjectId, resource_version: Option<&str>) {
        let revision = resource_version.and_then(|revision| revision.parse().ok());
        self.insert(id, revision);
    }

    /// Notes that we deleted an object.
    pub fn deleted(&self, id: &ObjectId) {
        self.insert(id, None);
    }

    fn insert(&self, id: &ObjectId, revision: Option<u64>) {
        let at = Instant::now();
        let mut writes = self.0.lock();
        writes.insert(id.clone(), Write { revision, at });
    }

    /// How long to wait for the cache, which has the object at `cached` (`None`: not at all).
    /// `None` when the cache shows our last write or something newer.
    pub fn behind(&self, id: &ObjectId, cached: Option<&str>) -> Option<Duration> {
        let mut writes = self.0.lock();
        let write = writes.get(id)?;
        let left = (write.at + CACHE_TIMEOUT).saturating_duration_since(Instant::now());
        let cached: Option<u64> = cached.and_then(|revision| revision.parse().ok());
        let is_seen = match (write.revision, cached) {
            (Some(written), Some(cached)) => cached >= written,
            (Some(_), None) => false,
            (None, cached) => cached.is_none(),
        };
        if is_seen || left.is_zero() {
            writes.remove(id);
            return None;
        }
        Some(left)
    }

    /// Forgets an object that the watch shows to be gone.
    pub fn gone(&self, id: &ObjectId) {
        let mut writes = self.0.lock();
        writes.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use edgegrid_plan::ObjectKind;

    use super::*;

    fn id() -> ObjectId {
        ObjectId::namespaced(ObjectKind::Deployment, "shop", "web-a")
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_is_behind_until_it_shows_our_last_write() {
        let writes = Writes::default();
        assert_eq!(writes.behind(&id(), None), None, "nothing written");
        writes.wrote(&id(), Some("100"));
        assert!(writes.behind(&id(), None).is_some());
        assert!(writes.behind(&id(), Some("99")).is_some());
        assert_eq!(writes.behind(&id(), Some("100")), None);
        writes.wrote(&id(), Some("100"));
        assert_eq!(
            writes.behind(&id(), Some("1000")),
            None,
            "numbers, not text"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_is_seen_when_the_object_is_gone() {
        let writes = Writes::default();
        writes.deleted(&id());
        assert!(writes.behind(&id(), Some("5")).is_some());
        assert_eq!(writes.behind(&id(), None), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_vanished_unseen_is_not_waited_for_for_ever() {
        let writes = Writes::default();
        writes.wrote(&id(), Some("100"));
        tokio::time::advance(CACHE_TIMEOUT).await;
        assert_eq!(writes.behind(&id(), None), None);
    }
}
