//! The numbers that a set's status shows, and when a rollout is over.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::pod::Pod;
use super::set::Set;

/// The part of a status that is ours; conditions belong to others and are never touched.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Generation of the spec that was acted on.
    pub observed_generation: i64,
    /// Pods that exist.
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
