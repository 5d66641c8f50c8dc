//! The store itself: one writer at a time, any number of readers beside it.

use crate::commit::{Change, CommitError, Expect, Forgetful, Journal, Record, Write};
use crate::entry::{Entry, Event};
use crate::history::{History, Limits, RevisionError};
use crate::shared::Shared;
use crate::snapshot::{Entries, Snapshot};
use crate::state::State;
use crate::topic::Topics;
use crate::watch::Watch;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// The revision of a store nothing was written to. Zero is left to mean "none" where revisions are
/// told to others.
const FIRST: u64 = 1;

/// A handle on the store; clones share it.
#[derive(Debug)]
pub struct Store<M = ()> {
    shared: Arc<Shared<M>>,
}

/// What a store starts with.
#[derive(Debug)]
pub struct Builder<M = ()> {
    revision: u64,
    limits: Limits,
    entries: Entries<M>,
    journal: Box<dyn Journal>,
}

impl<M> Store<M> {
    /// Starts describing a store.
    pub fn builder() -> Builder<M> {
        Builder {
            revision: FIRST,
            limits: Limits::default(),
            entries: Entries::new(),
            journal: Box::new(Forgetful),
        }
    }

    /// Writes a version of a key.
    pub fn put(
        &self,
        key: impl Into<Arc<str>>,
        value: impl Into<Bytes>,
        expect: Expect,
    ) -> Result<Arc<Event<M>>, CommitError> {
        let change = Change::Put(value.into());
        let mut events = self.commit(vec![Write {
            key: key.into(),
            expect,
            change,
        }])?;
        Ok(events.swap_remove(0)) // a put makes exactly one event
    }

    /// Removes a key; nothing happens, and no revision is made, if it is absent.
    pub fn delete(
        &self,
        key: impl Into<Arc<str>>,
        expect: Expect,
    ) -> Result<Option<Arc<Event<M>>>, CommitError> {
        let events = self.commit(vec![Write {
            key: key.into(),
            expect,
            change: Change::Delete,
        }])?;
        Ok(events.into_iter().next())
    }

    /// Makes all changes or none; no snapshot of the present shows only some of them.
    ///
    /// Each change gets a revision of its own, in the order given: were they to share one, a watcher
    /// cut off between them could not say where to go on.
    pub fn commit(&self, writes: Vec<Write>) -> Result<Vec<Arc<Event<M>>>, CommitError> {
        let mut journal = self.shared.journal.lock();
        let events = self.shared.read().plan(writes)?;
        let Some(last) = events.last().map(|event| event.revision) else {
            return Ok(events);
        };
        journal.append(&events.iter().map(|event| record(event)).collect::<Vec<_>>())?;
        let aftermath = self.shared.write().apply(&events);
        self.shared.progress.send_replace(last);
        for topic in &aftermath.awake {
            topic.send_replace(last);
        }
        Ok(events)
    }

    /// Forgets the events up to and including a revision.
    pub fn compact(&self, through: u64) {
        let evicted = self.shared.write().history.compact(through);
        drop(evicted);
    }

    /// The last revision made.
    pub fn revision(&self) -> u64 {
        self.shared.read().revision
    }

    /// The oldest revision that can still be read and watched from.
    pub fn oldest(&self) -> u64 {
        self.shared.read().history.compacted()
    }

    /// Returns once a revision has been made; pending for ever if it never is.
    pub async fn reached(&self, revision: u64) {
        let mut progress = self.shared.progress.subscribe();
        // The sender lives as long as `self`, so there is no error to handle.
        let _ = progress.wait_for(|current| *current >= revision).await;
    }

    /// The current version of a key.
    pub fn get(&self, key: &str) -> Option<Arc<Entry<M>>> {
        self.shared.read().entries.get(key).cloned()
    }

    /// Everything as it is now.
    pub fn snapshot(&self) -> Snapshot<M> {
        let state = self.shared.read();
        Snapshot {
            revision: state.revision,
            prefix: "".into(),
            entries: state.entries.clone(),
        }
    }

    /// The keys under a prefix as they were at a revision.
    pub fn snapshot_at(&self, prefix: &str, revision: u64) -> Result<Snapshot<M>, RevisionError> {
        let mut snapshot = self.snapshot().under(prefix);
        let present = snapshot.revision;
        self.check(revision)?;
        for event in self
            .shared
            .events(prefix, revision, present)?
            .into_iter()
            .rev()
        {
            match event.before() {
                Some(old) => snapshot
                    .entries
                    .insert(Arc::clone(&old.key), Arc::clone(old)),
                None => snapshot.entries.remove(event.key()),
            };
        }
        snapshot.revision = revision.min(present);
        Ok(snapshot)
    }

    /// Follows the keys under a prefix, starting with the first change after a revision.
    pub fn watch(&self, prefix: &str, after: u64) -> Result<Watch<M>, RevisionError> {
        self.check(after)?;
        Ok(Watch::new(Arc::clone(&self.shared), prefix, after))
    }

    /// How many different prefixes are being watched; for metrics and tests.
    pub fn watched_prefixes(&self) -> usize {
        self.shared.read().topics.len()
    }

    fn check(&self, asked: u64) -> Result<(), RevisionError> {
        let state = self.shared.read();
        let (oldest, current) = (state.history.compacted(), state.revision);
        match asked {
            _ if asked < oldest => Err(RevisionError::TooOld { asked, oldest }),
            _ if asked > current => Err(RevisionError::TooNew { asked, current }),
            _ => Ok(()),
        }
    }
}

impl<M> Builder<M> {
    /// Goes on after a revision: the first write gets the next one. Never lowers it.
    #[must_use]
    pub fn after(mut self, revision: u64) -> Self {
        self.revision = self.revision.max(revision);
        self
    }

    /// Keeps this much of the past.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Starts with a key in place, as it was recorded; the store's revision is at least its own.
    #[must_use]
    pub fn entry(mut self, record: Record<'_>) -> Self {
        let (key, revision, created): (Arc<str>, _, _) =
            (record.key.into(), record.revision, record.created);
        match record.value.cloned() {
            Some(value) => {
                let entry = Entry {
                    key: Arc::clone(&key),
                    revision,
                    created,
                    value,
                    memo: OnceLock::new(),
                };
                self.entries.insert(key, Arc::new(entry));
            }
            None => drop(self.entries.remove(&*key)),
        }
        self.after(revision)
    }

    /// Tells a journal of every transaction.
    #[must_use]
    pub fn journal(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Box::new(journal);
        self
    }

    /// The store; its history starts empty, so nothing before its revision can be asked for.
    pub fn build(self) -> Store<M> {
        let (revision, entries) = (self.revision, self.entries);
        let history = History::new(revision, self.limits);
        let state = State {
            revision,
            entries,
            history,
            topics: Topics::default(),
        };
        Store {
            shared: Arc::new(Shared {
                journal: Mutex::new(self.journal),
                state: RwLock::new(state),
                progress: watch::Sender::new(revision),
            }),
        }
    }
}

impl<M> Clone for Store<M> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<M> Default for Store<M> {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl std::fmt::Debug for dyn Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Journal")
    }
}

fn record<M>(event: &Event<M>) -> Record<'_> {
    let new = event.after();
    let created = new
        .or(event.before())
        .map_or(event.revision, |entry| entry.created);
    Record {
        revision: event.revision,
        created,
        key: event.key(),
        value: new.map(|new| &new.value),
    }
}
