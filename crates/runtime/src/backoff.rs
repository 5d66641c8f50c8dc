//! When to try again: per key, longer after every failure in a row, forgotten on success.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// How the waits grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Wait after the first failure.
    pub first: Duration,
    /// No wait is longer, but for its share of [`Pace::spread`].
    pub longest: Duration,
    /// How much of a wait jitter may add, in percent: what failed together comes back apart.
    pub spread: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            longest: Duration::from_mins(5),
            spread: 20,
        }
    }
}

/// The failures in a row of every key that failed last.
#[derive(Clone, Debug)]
pub struct Backoff<K> {
    pace: Pace,
    failed: BTreeMap<K, Failed>,
}

#[derive(Clone, Copy, Debug)]
struct Failed {
    times: u32,
    until: Instant,
}

impl<K: Ord + Clone> Backoff<K> {
    /// A backoff that knows of no failure yet.
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            failed: BTreeMap::new(),
        }
    }

    /// Notes a failure and says how long to wait. `jitter` is any number: the same one gives the
    /// same wait.
    pub fn failure(&mut self, key: &K, jitter: u64) -> Duration {
        let times = self.failed.get(key).map_or(1, |failed| failed.times + 1);
        let wait = self.pace.wait(times, jitter);
        let until = Instant::now() + wait;
        self.failed.insert(key.clone(), Failed { times, until });
        wait
    }

    /// Forgets the failures of a key that worked, or that is no more.
    pub fn success(&mut self, key: &K) {
        self.failed.remove(key);
    }

    /// How long a key still has to wait; `None` if it may be tried now.
    pub fn remaining(&self, key: &K) -> Option<Duration> {
        let failed = self.failed.get(key)?;
        let left = failed.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Forgets the keys that `keep` refuses.
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.failed.retain(|key, _| keep(key));
    }
}

impl Pace {
    /// The wait after so many failures in a row.
    fn wait(&self, times: u32, jitter: u64) -> Duration {
        let doublings = times.saturating_sub(1).min(31);
        let wait = self.first.saturating_mul(1 << doublings).min(self.longest);
        let share = u32::try_from(jitter % 101).unwrap_or(0);
        wait + wait * self.spread / 100 * share / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        first: Duration::from_secs(1),
        longest: Duration::from_mins(1),
        spread: 20,
    };

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_the_longest_and_start_over_after_success() {
        let mut backoff = Backoff::new(PACE);
        let waits: Vec<u64> = (0..9).map(|_| backoff.failure(&"a", 0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        backoff.success(&"a");
        assert_eq!(backoff.remaining(&"a"), None);
        assert_eq!(backoff.failure(&"a", 0).as_secs(), 1);
        for _ in 0..200 {
            assert!(backoff.failure(&"a", 0) <= PACE.longest);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn keys_wait_apart_and_on_the_clock_that_tests_can_pause() {
        let mut backoff = Backoff::new(PACE);
        backoff.failure(&"a", 0);
        assert_eq!(backoff.remaining(&"a"), Some(Duration::from_secs(1)));
        assert_eq!(backoff.remaining(&"b"), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(backoff.remaining(&"a"), None, "its wait is over");
        assert_eq!(backoff.failure(&"a", 0).as_secs(), 2, "not its failures");
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_only_adds_and_is_bounded_and_repeatable() {
        for jitter in [0, 1, 50, 100, 101, u64::MAX] {
            let wait = Backoff::new(PACE).failure(&"a", jitter);
            assert!(wait >= PACE.first && wait <= PACE.first * 6 / 5, "{wait:?}");
            assert_eq!(wait, Backoff::new(PACE).failure(&"a", jitter));
        }
    }
}
