//! Whether what is known belongs to the cluster, and to the history of it, that upstream has now.
//!
//! A feed that comes back goes on from the last revision it saw. After a restore from backup, or in another
//! cluster, that is nonsense, and kube-apiserver does not say so: it answers a watch from a revision of the
//! future with silence. So whenever a feed came back somebody looks ([`crate::upstream`]), and until that look
//! was answered the view counts as old as the outage.

use super::{Inner, Publisher};
use edgegrid_store::{Change, Expect, Write};
use jiff::Timestamp;
use std::time::Duration;
use tokio::sync::watch;

/// What is known of the history of the view.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The cluster, by the uid of its namespace `kube-system`.
    pub(super) cluster: Option<String>,
    /// Since when no look has confirmed the view.
    pub(super) unverified_since: Option<Timestamp>,
    /// The longest time that a feed was out of touch before it came back.
    outage: Duration,
}

/// What a look at the cluster is compared with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KnownHistory {
    /// The cluster, by the uid of its namespace `kube-system`; none before the first look.
    pub(crate) cluster: Option<String>,
    /// The newest revision that any feed goes on from.
    pub(crate) newest: u64,
    /// The longest time that a feed was out of touch before it came back.
    pub(crate) outage: Duration,
    /// How often feeds had come back.
    pub(crate) reconnects: u64,
}

impl Publisher {
    /// How often feeds came back; each time calls for a look.
    pub(crate) fn reconnects(&self) -> watch::Receiver<u64> {
        self.reconnects.subscribe()
    }

    /// What a look is compared with.
    pub(crate) fn known_history(&self) -> KnownHistory {
        let inner = self.inner();
        let revisions = inner.feeds.values();
        let revisions = revisions.filter_map(|progress| progress.revision.parse().ok());
        KnownHistory {
            cluster: inner.history.cluster.clone(),
            newest: revisions.max().unwrap_or(0),
            outage: inner.history.outage,
            reconnects: *self.reconnects.borrow(),
        }
    }

    /// Notes that a look has confirmed the view, unless feeds came back meanwhile.
    pub(crate) fn confirm_history(&self, known: &KnownHistory, cluster: String) {
        let history = &mut self.inner().history;
        if history.cluster.is_none() {
            history.cluster = Some(cluster);
            // Worth a snapshot: without it a start in another cluster is not noticed.
            self.changes.send_modify(|changes| changes.view += 1);
        }
        if *self.reconnects.borrow() == known.reconnects {
            history.unverified_since = None;
            history.outage = Duration::ZERO;
        }
    }

    /// Has every feed list again. What is known is served until then, and counts as old.
    pub(crate) fn relist_all(&self) {
        let mut inner = self.inner();
        inner.history.outage = Duration::ZERO;
        let (now, since) = (self.now(), inner.history.unverified_since);
        for progress in inner.feeds.values_mut() {
            progress.revision.clear();
            if std::mem::take(&mut progress.online) {
                progress.contact = Some(since.unwrap_or(now));
            }
        }
        self.restart_feeds(&mut inner);
    }

    /// Forgets everything: it belongs to another cluster. Clients see it all deleted.
    pub(crate) fn start_over(&self) {
        let mut inner = self.inner();
        let stored = inner.store.snapshot();
        let deletions = stored.iter().map(|entry| Write {
            key: entry.key().into(),
            expect: Expect::Anything,
            change: Change::Delete,
        });
        let deletions = deletions.collect();
        if let Err(error) = inner.store.commit(deletions) {
            tracing::error!(%error, "cannot clear the view");
        }
        for (_, unit) in std::mem::take(&mut inner.units) {
            unit.stop();
        }
        let (names, store) = (inner.index.is_naming(), inner.store.clone());
        *inner = Inner {
            endpoints_wanted: inner.endpoints_wanted,
            generation: inner.generation,
            ..Inner::new(&self.node, store, names)
        };
        if let Some(stale) = &mut inner.stale {
            stale.cleared = true;
        }
        self.restart_feeds(&mut inner);
        self.renamed.notify_one();
        self.changes.send_modify(|changes| {
            changes.view += 1;
            changes.cleared += 1;
        });
    }

    /// Has every feed start anew, whoever reads it.
    fn restart_feeds(&self, inner: &mut Inner) {
        let wanted = inner.wanted();
        inner.generation += 1;
        let generation = inner.generation;
        self.wanted.send_modify(|current| {
            *current = wanted.into_iter().map(|feed| (feed, generation)).collect();
        });
    }
}

impl Inner {
    /// Notes that a feed came back that had last been heard of at `lost`.
    pub(super) fn note_reconnect(&mut self, lost: Timestamp, now: Timestamp) {
        let history = &mut self.history;
        let since = history
            .unverified_since
            .map_or(lost, |since| since.min(lost));
        history.unverified_since = Some(since);
        // A clock that was set back says nothing about how long it was.
        let outage = Duration::try_from(now.duration_since(lost)).unwrap_or(Duration::MAX);
        history.outage = history.outage.max(outage);
    }
}
