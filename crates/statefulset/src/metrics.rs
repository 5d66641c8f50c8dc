//! What is counted: how passes end and how long they take.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::calls::Error;

/// The counts of one process; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    passes: Family<Outcome, Counter>,
    seconds: Histogram,
    skipped: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            passes: Family::default(),
            seconds: Histogram::new(exponential_buckets(0.001, 4.0, 8)),
            skipped: Counter::default(),
        }
    }
}

impl Metrics {
    /// Registers all counts in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let ours = registry.sub_registry_with_prefix("statefulset");
        ours.register(
            "passes",
            "Passes over a set, by outcome",
            self.passes.clone(),
        );
        ours.register(
            "pass_seconds",
            "How long a pass takes",
            self.seconds.clone(),
        );
        ours.register(
            "stood_back",
            "Passes skipped because another controller acts on the set",
            self.skipped.clone(),
        );
    }

    pub(crate) fn observe(&self, error: Option<&Error>, took: Duration) {
        let outcome = match error {
            None => "completed",
            Some(Error::StaleCache { .. } | Error::ClaimBeingDeleted { .. }) => "waiting",
            Some(_) => "failed",
        };
        self.passes.get_or_create(&Outcome { outcome }).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn count_skipped(&self) {
        self.skipped.inc();
    }
}
