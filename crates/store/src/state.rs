//! What readers see, and the one place where it changes.

use crate::commit::{Change, CommitError, Write};
use crate::entry::{Entry, Event, Transition};
use crate::history::History;
use crate::snapshot::Entries;
use crate::topic::Topics;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct State<M> {
    pub(crate) revision: u64,
    pub(crate) entries: Entries<M>,
    pub(crate) history: History<M>,
    pub(crate) topics: Topics,
}

/// What is left to do once the lock is released.
pub(crate) struct Aftermath<M> {
    pub(crate) awake: Vec<watch::Sender<u64>>,
    pub(crate) _evicted: Vec<Arc<Event<M>>>,
}

impl<M> State<M> {
    /// The events a transaction would make, each with a revision of its own.
    pub(crate) fn plan(&self, writes: Vec<Write>) -> Result<Vec<Arc<Event<M>>>, CommitError> {
        let mut events = Vec::with_capacity(writes.len());
        let (mut last, several, mut keys) = (self.revision, writes.len() > 1, BTreeSet::new());
        for write in writes {
            if several && !keys.insert(Arc::clone(&write.key)) {
                return Err(CommitError::Twice(write.key));
            }
            let old = self.entries.get(&*write.key).cloned();
            let (expected, found) = (write.expect, old.as_ref().map(|old| old.revision));
            if !expected.matches(found) {
                let key = write.key;
                return Err(CommitError::Conflict {
                    key,
                    expected,
                    found,
                });
            }
            let revision = last.checked_add(1).ok_or(CommitError::Exhausted(last))?;
            if let Some(transition) = transition(write, old, revision) {
                events.push(Arc::new(Event {
                    revision,
                    transition,
                }));
                last = revision;
            }
        }
        Ok(events)
    }

    /// Makes planned events the present.
    pub(crate) fn apply(&mut self, events: &[Arc<Event<M>>]) -> Aftermath<M> {
        let mut awake = Vec::new();
        for event in events {
            match event.after() {
                Some(new) => self.entries.insert(Arc::clone(&new.key), Arc::clone(new)),
                None => self.entries.remove(event.key()),
            };
            self.revision = event.revision;
            self.history.push(Arc::clone(event));
            awake.extend(
                self.topics
                    .record(event.key(), event.revision, self.history.compacted()),
            );
        }
        Aftermath {
            awake,
            _evicted: self.history.overflow(),
        }
    }
}

fn transition<M>(write: Write, old: Option<Arc<Entry<M>>>, revision: u64) -> Option<Transition<M>> {
    let value = match write.change {
        Change::Put(value) => value,
        Change::Delete => return old.map(Transition::Deleted),
        Change::Check => return None,
    };
    let (key, created) = match &old {
        Some(old) => (Arc::clone(&old.key), old.created),
        None => (write.key, revision),
    };
    let new = Arc::new(Entry {
        key,
        revision,
        created,
        value,
        memo: OnceLock::new(),
    });
    Some(match old {
        Some(old) => Transition::Updated { old, new },
        None => Transition::Created(new),
    })
}
