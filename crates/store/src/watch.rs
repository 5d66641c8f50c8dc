//! Following a prefix: pulled in batches, woken only for what concerns it.
//!
//! A watch is a cursor. Everything up to it has been delivered, so a batch without events still
//! says how far the watcher has come; that number is what a bookmark may promise.

use crate::entry::Event;
use crate::history::MAX_EVENTS_PER_LOCK;
use crate::shared::Shared;
use crate::topic::Next;
use std::sync::Arc;
use tokio::sync::watch;

/// A position in the changes under a prefix; dropping it frees all it holds.
#[derive(Debug)]
pub struct Watch<M = ()> {
    shared: Arc<Shared<M>>,
    prefix: Box<str>,
    /// Everything up to here has been delivered.
    cursor: u64,
    /// Only ever empty while dropping.
    wake: Option<watch::Receiver<u64>>,
}

/// Some consecutive events under the prefix.
#[derive(Debug)]
pub struct Batch<M = ()> {
    /// The events, oldest first.
    pub events: Vec<Arc<Event<M>>>,
    /// Every change under the prefix up to here has now been delivered.
    pub through: u64,
}

/// The watcher was too slow: changes it has not seen are compacted. It must start from a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("watcher at revision {at} is behind the history, which starts at {oldest}")]
pub struct Lagged {
    /// How far the watcher had come.
    pub at: u64,
    /// The oldest revision that can be watched from.
    pub oldest: u64,
}

impl<M> Watch<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>, prefix: &str, after: u64) -> Self {
        let wake = {
            let mut state = shared.write();
            let revision = state.revision;
            state.topics.subscribe(prefix, revision)
        };
        Self {
            shared,
            prefix: prefix.into(),
            cursor: after,
            wake: Some(wake),
        }
    }

    /// The revision up to which everything has been delivered.
    pub fn through(&self) -> u64 {
        self.cursor
    }

    /// The next events, at most `most` of them, without waiting; none means caught up.
    pub fn try_batch(&mut self, most: usize) -> Result<Batch<M>, Lagged> {
        let mut events = Vec::new();
        while !self.pull(&mut events, most.max(1))? {}
        Ok(Batch {
            events,
            through: self.cursor,
        })
    }

    /// The next events, at least one and at most `most`; waits for the first. Can be cancelled.
    pub async fn batch(&mut self, most: usize) -> Result<Batch<M>, Lagged> {
        loop {
            let batch = self.try_batch(most)?;
            if !batch.events.is_empty() {
                return Ok(batch);
            }
            self.changed().await;
        }
    }

    /// Waits until something has happened under the prefix since the last batch. Can be cancelled.
    ///
    /// Meant to follow a batch that was empty: what was there before is not waited for.
    pub async fn changed(&mut self) {
        let cursor = self.cursor;
        if let Some(wake) = &mut self.wake {
            // The sender lives as long as a receiver does, so there is no error to handle.
            let _ = wake.wait_for(|last| *last > cursor).await;
        }
    }

    /// Looks at a bounded stretch under the lock; true once the batch is as good as it gets.
    fn pull(&mut self, events: &mut Vec<Arc<Event<M>>>, most: usize) -> Result<bool, Lagged> {
        let state = self.shared.read();
        let compacted = state.history.compacted();
        let lagged = Lagged {
            at: self.cursor,
            oldest: compacted,
        };
        let Some(topic) = state.topics.get(&self.prefix) else {
            return Err(lagged);
        };
        for _ in 0..MAX_EVENTS_PER_LOCK {
            if events.len() == most {
                return Ok(true);
            }
            let revision = match topic.next(self.cursor, compacted) {
                Next::At(revision) => revision,
                Next::Before => self.cursor + 1,
                Next::Lost => return Err(lagged),
                Next::Nothing => {
                    self.cursor = state.revision;
                    return Ok(true);
                }
            };
            let event = state.history.at(revision).ok_or(lagged)?;
            if event.key().starts_with(&*self.prefix) {
                events.push(Arc::clone(event));
            }
            self.cursor = revision;
        }
        Ok(false)
    }
}

impl<M> Drop for Watch<M> {
    fn drop(&mut self) {
        if let Some(wake) = self.wake.take() {
            self.shared.write().topics.unsubscribe(&self.prefix, wake);
        }
    }
}
