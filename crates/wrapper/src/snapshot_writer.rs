//! When the snapshot is written: soon after the view has changed, seldom when only other sites
//! have, never more than the budget allows, and once more at the end.
//!
//! ```text
//! changed ─► debounce ─► budget ─► write ─┬─ written
//!                                         └─ not: wait 1 s … 1 min, write again, cut off or not
//! all was forgotten ─► remove, at once and before anything else
//! ```

mod budget;

use crate::metrics::Metrics;
use crate::publish::{Changes, Publisher};
use crate::snapshot;
use budget::Budget;
use edgegrid_runtime::backoff::{Backoff, Pace};
use edgegrid_runtime::logging::chain;
use edgegrid_runtime::shutdown::Shutdown;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Changes of the view that come within this time go to disk together.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// What changes only other sites' endpoints goes to disk after this time.
const DEBOUNCE_MAX: Duration = Duration::from_mins(10);
/// How long to wait after failures in a row.
const PACE: Pace = Pace {
    first: Duration::from_secs(1),
    longest: Duration::from_mins(1),
    spread: 20,
};
/// At the end nobody waits long: this pause between tries, for this long in all.
const LAST_PAUSE: Duration = Duration::from_millis(500);
const LAST_TRIES: Duration = Duration::from_secs(3);

/// Writes snapshots of what a publisher knows.
pub(crate) struct Writer {
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) folder: PathBuf,
    pub(crate) bytes_per_hour: u64,
}

impl Writer {
    /// Writes until shutdown.
    pub(crate) async fn run(self, stop: Shutdown) {
        self.publisher.set_on_disk(self.on_disk());
        let mut budget = Budget::new(self.bytes_per_hour);
        tokio::select! {
            () = self.follow(&mut budget) => {}
            () = stop.requested() => {}
        }
        let last = async {
            while self.is_behind() && !self.update(&mut budget).await {
                sleep(LAST_PAUSE).await;
            }
        };
        if timeout(LAST_TRIES, last).await.is_err() {
            tracing::error!(folder = %self.folder.display(), "ending without a last snapshot");
        }
    }

    /// Keeps the file as new as it is to be, for ever.
    async fn follow(&self, budget: &mut Budget) {
        let mut failures = Backoff::new(PACE);
        let jitter = RandomState::new();
        loop {
            tokio::select! {
                () = self.due(budget) => {}
                () = self.cleared_after(self.on_disk().cleared) => {}
            }
            let mut cleared = self.now().cleared;
            while !self.update(budget).await {
                let wait = failures.failure(&(), jitter.hash_one(Instant::now()));
                tokio::select! {
                    () = sleep(wait.max(budget.wait())) => {}
                    // A disk that refuses a new file may still let go of the old one.
                    () = self.cleared_after(cleared) => {}
                }
                cleared = self.now().cleared;
            }
            failures.success(&());
        }
    }

    /// Returns when it is time for the next snapshot.
    async fn due(&self, budget: &mut Budget) {
        let mut changes = self.publisher.changes.subscribe();
        let on_disk = self.on_disk();
        while self.now() == on_disk || !self.publisher.is_open() {
            // The sender is the publisher's, which lives as long as this.
            let _ = changes.changed().await;
        }
        let visible = async {
            while self.now().view == on_disk.view {
                let _ = changes.changed().await;
            }
        };
        tokio::select! {
            () = visible => sleep(DEBOUNCE).await,
            () = sleep(DEBOUNCE_MAX) => {}
        }
        sleep(budget.wait()).await;
    }

    /// Returns when everything was forgotten more often than this.
    async fn cleared_after(&self, times: u64) {
        let mut changes = self.publisher.changes.subscribe();
        let _ = changes.wait_for(|now| now.cleared != times).await;
    }

    fn now(&self) -> Changes {
        *self.publisher.changes.borrow()
    }

    fn on_disk(&self) -> Changes {
        self.publisher.on_disk().unwrap_or_default()
    }

    /// Whether there is something to remove or to write.
    fn is_behind(&self) -> bool {
        let (now, on_disk) = (self.now(), self.on_disk());
        now.cleared != on_disk.cleared || (now != on_disk && self.publisher.is_open())
    }

    /// Brings the file up to date; gives whether it is.
    async fn update(&self, budget: &mut Budget) -> bool {
        let (now, on_disk) = (self.now(), self.on_disk());
        if now.cleared != on_disk.cleared && !self.remove(now, on_disk).await {
            return false;
        }
        // A view that is not complete, or no more, is nothing to come back to.
        !self.publisher.is_open() || self.write(budget).await
    }

    /// Removes what a crash would bring back: it belongs to another cluster.
    async fn remove(&self, now: Changes, on_disk: Changes) -> bool {
        let folder = self.folder.clone();
        let removed = tokio::task::spawn_blocking(move || snapshot::remove(&folder)).await;
        match removed.map_err(std::io::Error::other).flatten() {
            Ok(()) => {
                let cleared = now.cleared;
                self.publisher.set_on_disk(Changes { cleared, ..on_disk });
                tracing::info!(folder = %self.folder.display(), "removed the snapshot of another cluster");
                true
            }
            Err(error) => {
                self.metrics.snapshot_failures.inc();
                tracing::error!(folder = %self.folder.display(), %error, "cannot remove the snapshot of another cluster");
                false
            }
        }
    }

    async fn write(&self, budget: &mut Budget) -> bool {
        let now = self.now();
        let (image, folder) = (self.publisher.image(), self.folder.clone());
        let saved = tokio::task::spawn_blocking(move || snapshot::save(&folder, &image)).await;
        let failure = match saved {
            Ok(Ok(bytes)) => {
                budget.spend(bytes);
                self.metrics.snapshot_bytes.inc_by(bytes);
                self.publisher.set_on_disk(now);
                tracing::debug!(bytes, "wrote the snapshot");
                return true;
            }
            Ok(Err(error)) => {
                budget.spend(error.bytes);
                self.metrics.snapshot_bytes.inc_by(error.bytes);
                chain(&error)
            }
            Err(error) => error.to_string(),
        };
        self.metrics.snapshot_failures.inc();
        tracing::warn!(folder = %self.folder.display(), error = failure, "cannot write the snapshot, will retry");
        false
    }
}

#[cfg(test)]
mod tests;
