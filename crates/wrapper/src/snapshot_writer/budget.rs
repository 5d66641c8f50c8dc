//! How many bytes may go to disk: a bucket that fills slowly and allows a few writes in a row.

use std::time::Duration;
use tokio::time::Instant;

const HOUR: f64 = 3600.0;

/// Bytes that may be written now. A write may overdraw it once; the next waits until it is paid.
#[derive(Debug)]
pub(crate) struct Budget {
    per_hour: u64,
    most: f64,
    left: f64,
    since: Instant,
}

impl Budget {
    /// A full one: a quarter of an hour's bytes may be written at once.
    pub(crate) fn new(per_hour: u64) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a few bytes more or less do not matter"
        )]
        let most = per_hour as f64 / 4.0;
        Self {
            per_hour: per_hour.max(1),
            most,
            left: most,
            since: Instant::now(),
        }
    }

    /// How long to wait before the next write.
    pub(crate) fn wait(&mut self) -> Duration {
        self.fill();
        if self.left > 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64((1.0 - self.left) / self.per_second())
    }

    /// Notes a write.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.fill();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a few bytes more or less do not matter"
        )]
        let bytes = bytes as f64;
        self.left -= bytes;
    }

    fn fill(&mut self) {
        let now = Instant::now();
        let filled = now.duration_since(self.since).as_secs_f64() * self.per_second();
        self.left = (self.left + filled).min(self.most);
        self.since = now;
    }

    fn per_second(&self) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a few bytes more or less do not matter"
        )]
        let per_hour = self.per_hour as f64;
        per_hour / HOUR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_hour_of_changes_writes_no_more_than_the_budget_and_what_was_saved_up() {
        let (per_hour, size) = (64 << 20, 5 << 20);
        let mut budget = Budget::new(per_hour);
        let (start, mut written) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_hours(1) {
            let wait = budget.wait();
            tokio::time::advance(wait + Duration::from_secs(1)).await;
            if wait.is_zero() {
                budget.spend(size);
                written += size;
            }
        }
        assert!(written <= per_hour + per_hour / 4 + size, "{written}");
        assert!(written >= per_hour * 9 / 10, "{written}");
    }
}
