//! The numbers that a set's status shows, and when a rollout is over.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::pod::Pod;
use super::set::Set;

/// With ten pods every change is written at once, with a thousand ten times a second.
const DELAY_PER_POD: Duration = Duration::from_micros(100);
const MAX_DELAY: Duration = Duration::from_secs(1);

/// The part of a status that is ours; conditions belong to others and are never touched.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Generation of the spec that was acted on.
    pub observed_generation: i64,
    /// Pods that the API server knows.
    pub replicas: i64,
    /// Pods that run and are ready.
    pub ready_replicas: i64,
    /// Pods that have been ready for long enough.
    pub available_replicas: i64,
    /// Pods of the current revision.
    pub current_replicas: i64,
    /// Pods of the update revision.
    pub updated_replicas: i64,
    /// Revision that the set had before the rollout.
    pub current_revision: String,
    /// Revision that the set shall have.
    pub update_revision: String,
    /// Hash collisions of revision names so far.
    pub collision_count: i64,
}

impl Status {
    /// What can be said about these pods.
    pub(super) fn count<'a>(
        mut self,
        set: &Set,
        pods: impl Iterator<Item = &'a Pod>,
        now: Timestamp,
    ) -> Self {
        for pod in pods.filter(|pod| pod.is_created()) {
            self.replicas += 1;
            if pod.is_running_and_ready() {
                self.ready_replicas += 1;
                self.available_replicas += i64::from(pod.is_available(set.min_ready, now));
            }
            if !pod.is_terminating {
                self.current_replicas += i64::from(pod.revision() == self.current_revision);
                self.updated_replicas += i64::from(pod.revision() == self.update_revision);
            }
        }
        self
    }

    /// The status after so many pods were deleted for a rollout, and with the rollout ended if it is.
    ///
    /// A pod of a third revision is deleted too, so the count may run out before the deletions do.
    #[must_use]
    pub fn after(mut self, deletions: i64, wanted: i64) -> Self {
        self.current_replicas = (self.current_replicas - deletions).max(0);
        let all = [self.updated_replicas, self.ready_replicas, self.replicas];
        if all.iter().all(|count| *count == wanted) {
            self.current_replicas = self.updated_replicas;
            self.current_revision.clone_from(&self.update_revision);
        }
        self
    }

    /// How long a write of it may wait after the last one: a large set's counts change faster than anybody
    /// reads them. What else a status says decides something, so that waits for nothing.
    pub fn write_delay(&self, stored: &Self) -> Duration {
        let only_counts = Self {
            replicas: stored.replicas,
            ready_replicas: stored.ready_replicas,
            available_replicas: stored.available_replicas,
            current_replicas: stored.current_replicas,
            updated_replicas: stored.updated_replicas,
            ..self.clone()
        } == *stored;
        if !only_counts {
            return Duration::ZERO;
        }
        let pods = u32::try_from(self.replicas.max(0)).unwrap_or(u32::MAX);
        DELAY_PER_POD.saturating_mul(pods).min(MAX_DELAY)
    }

    /// Whether it is worth a write over what is stored. A collision alone is not.
    pub fn differs_from(&self, stored: &Self) -> bool {
        let unobserved = self.observed_generation > stored.observed_generation;
        let same = Self {
            observed_generation: stored.observed_generation,
            collision_count: stored.collision_count,
            ..self.clone()
        };
        unobserved || same != *stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pods: i64, generation: i64) -> Status {
        Status {
            observed_generation: generation,
            replicas: pods,
            current_revision: "web-1".into(),
            ..Status::default()
        }
    }

    #[test]
    fn only_the_counts_of_a_large_set_may_wait() {
        let few = status(10, 1).write_delay(&status(9, 1));
        let many = status(1000, 1).write_delay(&status(999, 1));
        assert!(few <= Duration::from_millis(1), "{few:?}");
        assert_eq!(many, Duration::from_millis(100));
        assert_eq!(status(1000, 2).write_delay(&status(999, 1)), Duration::ZERO);
        let rolled = Status {
            current_revision: "web-2".into(),
            ..status(1000, 1)
        };
        assert_eq!(rolled.write_delay(&status(1000, 1)), Duration::ZERO);
        let endless = status(i64::MAX, 1).write_delay(&status(0, 1));
        assert_eq!(endless, MAX_DELAY);
    }
}
