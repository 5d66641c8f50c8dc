//! Objects to reconcile, each at most once.
//!
//! A queue never holds more than there are objects, so it needs no bound: a thousand events about
//! one object before a worker is free are one pass.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use futures::Stream;
use futures::stream;
use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Namespace, empty for kinds that have none, and name.
pub type ObjectKey = (String, String);

/// The key of an object.
pub fn key<K: Resource>(object: &K) -> ObjectKey {
    let meta = object.meta();
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// Waiting objects of one kind.
#[derive(Clone, Default)]
pub struct Queue(Arc<Inner>);

#[derive(Default)]
struct Inner {
    waiting: Mutex<Waiting>,
    changed: Notify,
    closed: Notify,
}

#[derive(Default)]
struct Waiting {
    keys: BTreeSet<ObjectKey>,
    is_closed: bool,
}

impl Queue {
    /// Enqueues an object, unless it waits already.
    pub fn push(&self, key: ObjectKey) {
        if self.waiting(|waiting| waiting.keys.insert(key)) {
            self.0.changed.notify_one();
        }
    }

    /// Enqueues each of these objects.
    pub fn extend(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.waiting(|waiting| waiting.keys.extend(keys));
        self.0.changed.notify_one();
    }

    /// Enqueues every object of a cache.
    pub(crate) fn push_all<K>(&self, store: &Store<K>)
    where
        K: Resource<DynamicType = ()> + Clone + 'static,
    {
        self.extend(store.state().iter().map(|object| key(&**object)));
    }

    /// Takes no more; what waits is dropped, what runs ends.
    pub fn close(&self) {
        self.waiting(|waiting| waiting.is_closed = true);
        self.0.changed.notify_one();
        self.0.closed.notify_waiters();
    }

    /// Ends when the queue is closed.
    pub async fn closed(&self) {
        loop {
            let closed = self.0.closed.notified();
            if self.waiting(|waiting| waiting.is_closed) {
                return;
            }
            closed.await;
        }
    }

    /// The waiting objects as they come, for the one consumer of this queue.
    pub fn requests<K>(&self) -> impl Stream<Item = Result<ObjectRef<K>, Infallible>> + use<K>
    where
        K: Resource<DynamicType = ()>,
    {
        stream::unfold(self.clone(), |queue| async move {
            let (namespace, name) = queue.next().await?;
            let request = ObjectRef::new(&name);
            let request = if namespace.is_empty() {
                request
            } else {
                request.within(&namespace)
            };
            Some((Ok(request), queue))
        })
    }

    async fn next(&self) -> Option<ObjectKey> {
        loop {
            let changed = self.0.changed.notified();
            let (next, is_closed) =
                self.waiting(|waiting| (waiting.keys.pop_first(), waiting.is_closed));
            if is_closed {
                return None;
            }
            if next.is_some() {
                return next;
            }
            changed.await;
        }
    }

    fn waiting<T>(&self, act: impl FnOnce(&mut Waiting) -> T) -> T {
        act(&mut self.0.waiting.lock())
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use k8s_openapi::api::core::v1::{ConfigMap, Node};

    use super::*;

    fn named(name: &str) -> ObjectKey {
        (String::new(), name.into())
    }

    #[tokio::test]
    async fn an_object_waits_once_however_often_it_is_asked_for() {
        let queue = Queue::default();
        queue.extend([named("b"), named("a")]);
        queue.push(named("a"));
        let requests: Vec<_> = queue.requests::<Node>().take(2).collect().await;
        let names: Vec<_> = requests
            .into_iter()
            .map(|request| request.unwrap().name)
            .collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_namespace_is_kept() {
        let queue = Queue::default();
        queue.push(("shop".into(), "web".into()));
        let request = Box::pin(queue.requests::<ConfigMap>())
            .next()
            .await
            .unwrap()
            .unwrap();
        assert_eq!(request.namespace.as_deref(), Some("shop"));
    }

    #[tokio::test]
    async fn a_closed_queue_ends_its_stream() {
        let queue = Queue::default();
        queue.push(named("a"));
        queue.close();
        assert!(Box::pin(queue.requests::<Node>()).next().await.is_none());
    }
}
