//! Reading from upstream: one list and watch for each feed, for as long as it is wanted.
//!
//! ```text
//!            ┌───────── 410, unreadable event ─────────┐
//!            ▼                                         │
//! LIST, whole and unpaged ─► WATCH from its revision ──┼─► end, cut: WATCH again from the last one
//!            ▲                                         │
//!            └── empty though something is known: asked again before it counts
//! ```
//!
//! Nothing that fails takes anything away: what is known stays until a complete answer says otherwise.
//! A watch that ends at once without a word means that a lite-apiserver is cut off; then,
//! as after every failure, the next try waits a little, longer each time and never the same.

mod grace;
mod history;
mod items;
mod link;
mod stream;
mod wire;

use crate::feed::Feed;
use crate::publish::Publisher;
use edgegrid_runtime::backoff::{Backoff, Pace};
use edgegrid_runtime::shutdown::Shutdown;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

pub use link::Link;
use stream::{Ended, Following};
use wire::ReadError;

/// How long to wait after failures in a row. What a whole site lost at once comes back apart.
const PACE: Pace = Pace {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(5),
    spread: 100,
};
/// A watch that lived this long was no failure.
const MIN_WATCH_LIFE: Duration = Duration::from_secs(1);

/// What all feeds have in common.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) client: kube::Client,
    /// Whether lists are asked for as streams.
    pub(crate) stream_lists: bool,
    pub(crate) metrics: Arc<crate::metrics::Metrics>,
    /// Spreads what all nodes would do at once.
    pub(crate) jitter: Arc<Mutex<fastrand::Rng>>,
}

impl Upstream {
    /// Reads every feed that is wanted until shutdown.
    pub(crate) async fn run(self, stop: Shutdown) {
        let mut wanted = self.publisher.wanted();
        let mut tasks = JoinSet::new();
        let mut running: BTreeMap<(Feed, u64), AbortHandle> = BTreeMap::new();
        tasks.spawn(self.clone().watch_history());
        tasks.spawn(self.clone().report_own_node_gone());
        let publisher = Arc::clone(&self.publisher);
        tasks.spawn(async move { publisher.end_graces().await });
        loop {
            let now: BTreeSet<(Feed, u64)> =
                wanted.borrow_and_update().clone().into_iter().collect();
            running.retain(|feed, task| {
                let keep = now.contains(feed);
                if !keep {
                    task.abort();
                }
                keep
            });
            for feed in now {
                let follow = || tasks.spawn(self.clone().follow(feed.0.clone()));
                running.entry(feed.clone()).or_insert_with(follow);
            }
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { break },
                () = stop.requested() => break,
                // Only aborted ones end.
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    /// Follows one feed for ever.
    async fn follow(self, feed: Feed) {
        let mut following = Following::new(feed, self.publisher.node());
        let mut pause = Pause::new();
        let mut revision = self.publisher.resume(&following.feed);
        loop {
            let started = Instant::now();
            let outcome = match revision.take() {
                Some(from) => self.watch(&mut following, &from).await,
                None => self.list(&mut following).await,
            };
            let feed = &following.feed;
            // A watch that ends when it was to end has lost nothing, if the next one comes about.
            if !outcome.as_ref().is_ok_and(|ended| ended.on_time) {
                self.publisher.set_offline(feed, following.heard.elapsed());
            }
            match outcome {
                Ok(Ended {
                    resume_from,
                    events,
                    ..
                }) => {
                    revision = resume_from;
                    if events > 0 || started.elapsed() >= MIN_WATCH_LIFE {
                        pause.reset();
                        continue;
                    }
                    tracing::debug!(%feed, "watch ended at once: upstream is cut off");
                }
                Err(error) => {
                    revision = error
                        .keeps_revision()
                        .then(|| self.publisher.resume(feed))
                        .flatten();
                    pause.report(feed, &error);
                    self.metrics.failures.inc();
                    self.publisher.set_failed(feed);
                }
            }
            pause.wait().await;
        }
    }
}

/// How long to wait after failures in a row, and what to say about them.
struct Pause {
    failures: Backoff<()>,
    jitter: RandomState,
    said: String,
}

impl Pause {
    fn new() -> Self {
        Self {
            failures: Backoff::new(PACE),
            jitter: RandomState::new(),
            said: String::new(),
        }
    }

    fn reset(&mut self) {
        self.failures.success(&());
        self.said.clear();
    }

    async fn wait(&mut self) {
        let jitter = self.jitter.hash_one(Instant::now());
        sleep(self.failures.failure(&(), jitter)).await;
    }

    /// An error that goes on is logged once: flash is small.
    fn report(&mut self, feed: &Feed, error: &ReadError) {
        let text = error.to_string();
        if text == self.said {
            tracing::debug!(%feed, error = text, "upstream still cannot be read");
        } else {
            tracing::warn!(%feed, error = text, "cannot list or watch, will retry");
            self.said = text;
        }
    }
}
