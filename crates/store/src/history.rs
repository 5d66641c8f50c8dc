//! The recent past: every event since a revision, bounded by number and by bytes.
//!
//! Each event has a revision of its own and no revision is skipped, so an event's place in the
//! queue follows from its revision and nothing is ever searched for.

use crate::entry::Event;
use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;

/// How many events a reader looks at before it lets go of the lock.
pub(crate) const MAX_EVENTS_PER_LOCK: u64 = 512;

/// How much of the past is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// At most this many events.
    pub events: usize,
    /// At most this many bytes of replaced values, their keys and the events themselves.
    pub bytes: usize,
}

/// Why a revision cannot be read or watched from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// The history does not reach back that far any more.
    #[error("revision {asked} is compacted, the oldest left is {oldest}")]
    TooOld {
        /// The revision asked for.
        asked: u64,
        /// The oldest revision that can be asked for.
        oldest: u64,
    },
    /// The revision has not been made yet.
    #[error("revision {asked} is ahead of the current {current}")]
    TooNew {
        /// The revision asked for.
        asked: u64,
        /// The last revision made.
        current: u64,
    },
}

impl Default for Limits {
    /// Room for 65,536 events and 64 MiB.
    fn default() -> Self {
        Self {
            events: 1 << 16,
            bytes: 1 << 26,
        }
    }
}

#[derive(Debug)]
pub(crate) struct History<M> {
    events: VecDeque<Arc<Event<M>>>,
    /// Everything up to here is gone, everything after it is in `events`.
    compacted: u64,
    bytes: usize,
    limits: Limits,
}

impl<M> History<M> {
    pub(crate) fn new(compacted: u64, limits: Limits) -> Self {
        Self {
            events: VecDeque::new(),
            compacted,
            bytes: 0,
            limits,
        }
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(crate) fn push(&mut self, event: Arc<Event<M>>) {
        self.bytes += cost(&event);
        self.events.push_back(event);
    }

    /// Takes out what is beyond the limits; the caller drops it when no lock is held.
    pub(crate) fn overflow(&mut self) -> Vec<Arc<Event<M>>> {
        let mut evicted = Vec::new();
        while (self.events.len() > self.limits.events || self.bytes > self.limits.bytes)
            && let Some(event) = self.pop()
        {
            evicted.push(event);
        }
        evicted
    }

    /// Takes out everything up to and including `through`.
    pub(crate) fn compact(&mut self, through: u64) -> Vec<Arc<Event<M>>> {
        let mut evicted = Vec::new();
        while self.compacted < through
            && let Some(event) = self.pop()
        {
            evicted.push(event);
        }
        evicted
    }

    /// The event of a revision, unless it is compacted or not yet made.
    pub(crate) fn at(&self, revision: u64) -> Option<&Arc<Event<M>>> {
        let index = revision.checked_sub(self.compacted)?.checked_sub(1)?;
        self.events.get(usize::try_from(index).ok()?)
    }

    fn pop(&mut self) -> Option<Arc<Event<M>>> {
        let event = self.events.pop_front()?;
        self.bytes -= cost(&event);
        self.compacted = event.revision;
        Some(event)
    }
}

/// What keeping an event costs: the new value is alive anyway until a later event replaces it.
fn cost<M>(event: &Event<M>) -> usize {
    let old = event
        .before()
        .map_or(0, |old| old.value.len() + size_of_val(&**old));
    size_of::<Event<M>>() + event.key().len() + old
}
