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
    foreign: Counter,
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
            foreign: Counter::default(),
        }
    }
}

impl Metrics {
    /// Shows them in `registry`.
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
            "Passes left to another controller",
            self.foreign.clone(),
        );
    }

    pub(crate) fn observe(&self, error: Option<&Error>, took: Duration) {
        let outcome = match error {
            None => "completed",
            Some(Error::StaleCache { .. } | Error::ClaimLeaving { .. }) => "waiting",
            Some(_) => "failed",
        };
        self.passes.get_or_create(&Outcome { outcome }).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn foreign(&self) {
        self.foreign.inc();
    }
}
