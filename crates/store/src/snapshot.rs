//! A view that does not move: the keys under a prefix as they were at one revision.

use crate::entry::Entry;
use imbl::OrdMap;
use std::ops::Bound;
use std::sync::Arc;

pub(crate) type Entries<M> = OrdMap<Arc<str>, Arc<Entry<M>>>;

/// The keys under a prefix at one revision; costs a reference count to take and to keep.
#[derive(Debug)]
pub struct Snapshot<M = ()> {
    pub(crate) revision: u64,
    pub(crate) prefix: Arc<str>,
    pub(crate) entries: Entries<M>,
}

impl<M> Clone for Snapshot<M> {
    fn clone(&self) -> Self {
        Self {
            revision: self.revision,
            prefix: Arc::clone(&self.prefix),
            entries: self.entries.clone(),
        }
    }
}

impl<M> Snapshot<M> {
    /// The revision this is the state of.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The version of a key, if it existed and lies under the prefix.
    pub fn get(&self, key: &str) -> Option<&Arc<Entry<M>>> {
        self.entries
            .get(key)
            .filter(|entry| entry.key.starts_with(&*self.prefix))
    }

    /// Every entry in the byte order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry<M>>> {
        self.iter_from("")
    }

    /// The entries whose key is `start` or after it.
    pub fn iter_from(&self, start: &str) -> impl Iterator<Item = &Arc<Entry<M>>> {
        let start = start.max(&*self.prefix);
        self.entries
            .range::<_, str>((Bound::Included(start), Bound::Unbounded))
            .map(|(_, entry)| entry)
            .take_while(|entry| entry.key.starts_with(&*self.prefix))
    }

    /// The same moment, with only the keys under a longer prefix in sight.
    ///
    /// A prefix that does not lie under this snapshot's leaves nothing in sight.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        if !prefix.starts_with(&*self.prefix) {
            self.entries = Entries::new();
        }
        self.prefix = prefix.into();
        self
    }
}
