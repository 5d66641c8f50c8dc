//! When the snapshot is written: soon after the view has changed, seldom when only other sites
//! have, never more than the budget allows, and once more at the end.

mod budget;

use crate::metrics::Metrics;
use crate::publish::{Changes, Publisher};
use crate::snapshot;
use budget::Budget;
use edgegrid_runtime::shutdown::Shutdown;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Changes of the view that come within this time go to disk together.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// What changes only other sites' endpoints goes to disk after this time.
const DEBOUNCE_MAX: Duration = Duration::from_mins(10);

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
        let mut budget = Budget::new(self.bytes_per_hour);
        let mut written = Changes::default();
        loop {
            tokio::select! {
                () = self.due(written, &mut budget) => {}
                () = stop.requested() => break,
            }
            written = self.write(&mut budget).await;
        }
        if self.now() != written && self.publisher.is_open() {
            self.write(&mut budget).await;
        }
    }

    /// Returns when it is time for the next snapshot.
    async fn due(&self, written: Changes, budget: &mut Budget) {
        let mut changes = self.publisher.changes.subscribe();
        while self.now() == written || !self.publisher.is_open() {
            // The sender is the publisher's, which lives as long as this.
            let _ = changes.changed().await;
        }
        let visible = async {
            while self.now().view == written.view {
                let _ = changes.changed().await;
            }
        };
        tokio::select! {
            () = visible => sleep(DEBOUNCE).await,
            () = sleep(DEBOUNCE_MAX) => {}
        }
        sleep(budget.wait()).await;
    }

    fn now(&self) -> Changes {
        *self.publisher.changes.borrow()
    }

    async fn write(&self, budget: &mut Budget) -> Changes {
        let now = self.now();
        let (image, folder) = (self.publisher.image(), self.folder.clone());
        let saved = tokio::task::spawn_blocking(move || snapshot::save(&folder, &image)).await;
        match saved {
            Ok(Ok(bytes)) => {
                budget.spend(bytes);
                self.metrics.snapshot_bytes.inc_by(bytes);
                tracing::debug!(bytes, "wrote the snapshot");
            }
            Ok(Err(error)) => self.failed(&error),
            Err(error) => self.failed(&error),
        }
        now
    }

    fn failed(&self, error: &dyn std::error::Error) {
        self.metrics.snapshot_failures.inc();
        tracing::warn!(folder = %self.folder.display(), %error, "cannot write the snapshot");
    }
}
