//! The sets that are due for a pass: each is in the queue once, however often it is added.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::Stream;
use futures::stream;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Namespace and name of a set.
pub(crate) type SetName = (String, String);

/// Sets that are due for a pass.
#[derive(Default)]
pub(crate) struct Queue {
    due: Mutex<BTreeSet<SetName>>,
    notify: Notify,
}

impl Queue {
    pub(crate) fn add(&self, sets: impl IntoIterator<Item = SetName>) {
        self.due.lock().extend(sets);
        self.notify.notify_one();
    }

    /// The sets as they become due, for one reader.
    pub(crate) fn into_stream(self: Arc<Self>) -> impl Stream<Item = SetName> + Send + 'static {
        stream::unfold(self, async |queue| {
            loop {
                if let Some(set) = queue.pop() {
                    return Some((set, queue));
                }
                queue.notify.notified().await;
            }
        })
    }

    fn pop(&self) -> Option<SetName> {
        self.due.lock().pop_first()
    }
}
