//! The sets that something happened to: each waits once, however often it happens.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use futures::Stream;
use futures::stream;
use tokio::sync::Notify;

/// Namespace and name of a set.
pub(crate) type SetName = (String, String);

/// Sets to look at.
#[derive(Default)]
pub(crate) struct Wake {
    waiting: Mutex<BTreeSet<SetName>>,
    bell: Notify,
}

impl Wake {
    pub(crate) fn wake(&self, sets: impl IntoIterator<Item = SetName>) {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(sets);
        self.bell.notify_one();
    }

    /// The sets as they are woken, for one listener.
    pub(crate) fn woken(
        self: std::sync::Arc<Self>,
    ) -> impl Stream<Item = SetName> + Send + 'static {
        stream::unfold(self, async |wake| {
            loop {
                if let Some(set) = wake.take() {
                    return Some((set, wake));
                }
                wake.bell.notified().await;
            }
        })
    }

    fn take(&self) -> Option<SetName> {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_first()
    }
}
