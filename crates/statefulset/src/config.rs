//! What the embedding process decides: how fast to work, whether to write, and what time it is.

use std::sync::Arc;
use std::time::Duration;

use edgegrid_runtime::{Fence, Readiness};
use jiff::Timestamp;

use crate::metrics::Metrics;

/// How the controller works.
#[derive(Clone)]
pub struct Config {
    /// Sets that are worked on at once.
    pub concurrency: u16,
    /// How long to skip a set after another controller acted on it.
    pub other_manager_pause: Duration,
    /// The current time: a test has a clock of its own.
    pub clock: Clock,
    /// Asked before every write whether this process leads.
    pub fence: Fence,
    /// Where the controller reports that its caches are filled.
    pub readiness: Readiness,
    /// Where passes and their outcomes are counted.
    pub metrics: Metrics,
}

/// Gives the current time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

impl Default for Config {
    fn default() -> Self {
        Self {
            concurrency: 10,
            other_manager_pause: Duration::from_mins(1),
            clock: Arc::new(Timestamp::now),
            fence: Fence::always(),
            readiness: Readiness::default(),
            metrics: Metrics::default(),
        }
    }
}
