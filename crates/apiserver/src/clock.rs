//! The server's time: tokio's, so that a paused clock carries it through hours at once.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Wall time that advances with tokio's clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Timestamp,
    started: Instant,
}

impl Clock {
    /// A clock that shows `origin` now.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self {
            origin,
            started: Instant::now(),
        }
    }

    /// The present, in full precision.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.started.elapsed()).unwrap_or_default();
        self.origin.saturating_add(elapsed).unwrap_or(self.origin)
    }

    /// The time so many seconds from now, as objects show it.
    pub(crate) fn stamp_in(&self, seconds: u64) -> String {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let now = self.now();
        let then = now.saturating_add(SignedDuration::from_secs(seconds));
        text(then.unwrap_or(now))
    }

    /// The time as objects show it: whole seconds, UTC.
    pub(crate) fn stamp(&self) -> String {
        text(self.now())
    }
}

fn text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
