//! The loop around every controller: take an object from the queue, reconcile it, come back when
//! that says so or, after an error, later each time.

use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_runtime::backoff::{Backoff, Pace};
use edgegrid_runtime::logging::chain;
use futures::{FutureExt, StreamExt};
use kube::Resource;
use kube::runtime::controller::{Action, Config, applier};
use kube::runtime::reflector::Store;
use parking_lot::Mutex;
use tracing::{debug, warn};

use crate::metrics::{Metrics, Outcome};
use crate::queue::{ObjectKey, Queue, key};

/// Objects that one controller reconciles at the same time.
const CONCURRENCY: u16 = 32;

/// Reconciles every object that the queue asks for, until the queue is closed; what runs then is
/// ended in order. Never the same object twice at a time.
pub async fn run<K, P, F, E>(
    name: &'static str,
    store: Store<K>,
    queue: Queue,
    metrics: Metrics,
    reconcile: P,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    P: Fn(Arc<K>) -> F,
    F: Future<Output = Result<Option<Duration>, E>> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let backoff = Mutex::new(Backoff::<ObjectKey>::new(Pace::default()));
    let failed = |object: Arc<K>, error: &E, _: Arc<()>| {
        let key = key(&*object);
        let mut backoff = backoff.lock();
        let wait = backoff.failure(&key, jitter(&key));
        warn!(controller = name, namespace = key.0, name = key.1, ?wait, error = %chain(error), "reconcile failed, retrying");
        metrics.observe(name, Outcome::Failed);
        Action::requeue(wait)
    };
    let timed = |object: Arc<K>, _: Arc<()>| {
        let key = key(&*object);
        let running = reconcile(object);
        let (backoff, metrics) = (&backoff, &metrics);
        async move {
            let recheck = running.await?;
            backoff.lock().success(&key);
            metrics.observe(
                name,
                recheck.map_or(Outcome::Completed, |_| Outcome::Waiting),
            );
            Ok(recheck.map_or_else(Action::await_change, Action::requeue))
        }
        .boxed()
    };
    let config = Config::default().concurrency(CONCURRENCY);
    applier(
        timed,
        failed,
        Arc::new(()),
        store,
        queue.requests::<K>().boxed(),
        config,
    )
    .for_each(|finished| async move {
        if let Err(error) = finished {
            // Failures were logged above; what is left is an object that went meanwhile.
            debug!(controller = name, %error, "object is gone, nothing to reconcile");
        }
    })
    .await;
}

/// Spreads the retries of objects that failed together; the same object always gets the same.
fn jitter(key: &ObjectKey) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}
