//! What all handles and watches of a store share.
//!
//! Two locks. Writers queue on the journal's; readers and the moment of publication share the
//! state's, which nobody holds for longer than a map update or a few reference counts.

use crate::commit::Journal;
use crate::entry::Event;
use crate::history::{MAX_EVENTS_PER_LOCK, RevisionError};
use crate::state::State;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use tokio::sync::watch;

pub(crate) struct Shared<M> {
    pub(crate) journal: Mutex<Box<dyn Journal>>,
    pub(crate) state: RwLock<State<M>>,
    pub(crate) progress: watch::Sender<u64>,
}

impl<M> Shared<M> {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State<M>> {
        self.state.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State<M>> {
        self.state.write()
    }

    /// The events under a prefix in `(after, through]`, a bounded stretch for each hold of the lock.
    pub(crate) fn events(
        &self,
        prefix: &str,
        after: u64,
        through: u64,
    ) -> Result<Vec<Arc<Event<M>>>, RevisionError> {
        let mut found = Vec::new();
        let mut cursor = after;
        while cursor < through {
            let state = self.read();
            let stop = through.min(cursor.saturating_add(MAX_EVENTS_PER_LOCK));
            while cursor < stop {
                let Some(event) = state.history.at(cursor + 1) else {
                    return Err(RevisionError::TooOld {
                        asked: after,
                        oldest: state.history.compacted(),
                    });
                };
                if event.key().starts_with(prefix) {
                    found.push(Arc::clone(event));
                }
                cursor += 1;
            }
        }
        Ok(found)
    }
}

impl<M> std::fmt::Debug for Shared<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("revision", &self.read().revision)
            .finish_non_exhaustive()
    }
}
