//! What is stored (an entry is one version of one key) and what happened to it (an event).

use bytes::Bytes;
use std::sync::{Arc, OnceLock};

/// One version of one key, shared by the map, the history and every reader.
#[derive(Debug)]
pub struct Entry<M = ()> {
    pub(crate) key: Arc<str>,
    pub(crate) revision: u64,
    pub(crate) created: u64,
    pub(crate) value: Bytes,
    pub(crate) memo: OnceLock<M>,
}

/// One committed change, with what was there before it.
#[derive(Debug)]
pub struct Event<M = ()> {
    /// The revision this change made.
    pub revision: u64,
    /// What became of the key.
    pub transition: Transition<M>,
}

/// What a change made of a key.
#[derive(Debug)]
pub enum Transition<M = ()> {
    /// The key was absent before.
    Created(Arc<Entry<M>>),
    /// The key had another version before.
    Updated {
        /// The version that was replaced.
        old: Arc<Entry<M>>,
        /// The version that is there now.
        new: Arc<Entry<M>>,
    },
    /// The key is gone; this was its last version.
    Deleted(Arc<Entry<M>>),
}

impl<M> Entry<M> {
    /// The key this is a version of.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The revision that wrote this version.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision that created the key, kept over updates and renewed by delete and put.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// The bytes as they were put.
    pub fn value(&self) -> &Bytes {
        &self.value
    }

    /// The reader's own representation, computed by the first who asks and shared from then on.
    pub fn memo(&self, compute: impl FnOnce(&Self) -> M) -> &M {
        self.memo.get_or_init(|| compute(self))
    }
}

impl<M> Event<M> {
    /// The key that changed.
    pub fn key(&self) -> &str {
        match &self.transition {
            Transition::Created(entry)
            | Transition::Updated { new: entry, .. }
            | Transition::Deleted(entry) => &entry.key,
        }
    }

    /// The version after the change, unless it was a delete.
    pub fn after(&self) -> Option<&Arc<Entry<M>>> {
        match &self.transition {
            Transition::Created(new) | Transition::Updated { new, .. } => Some(new),
            Transition::Deleted(_) => None,
        }
    }

    /// The version before the change, unless the key was absent.
    pub fn before(&self) -> Option<&Arc<Entry<M>>> {
        match &self.transition {
            Transition::Created(_) => None,
            Transition::Updated { old, .. } | Transition::Deleted(old) => Some(old),
        }
    }
}
