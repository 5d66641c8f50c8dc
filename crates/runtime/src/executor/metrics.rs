//! What the executor counts.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{Target, Verb};

/// Outcome of a write that worked.
const DONE: &str = "done";
/// Upper bounds of the duration's buckets, in seconds.
const BOUNDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Writes by verb, kind and outcome, and how long they took; clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    writes: Family<WriteLabels, Counter>,
    durations: Family<DurationLabels, Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    verb: &'static str,
    kind: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    verb: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            writes: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
        }
    }
}

impl Metrics {
    /// Metrics that `registry` shows.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let (writes, durations) = (metrics.writes.clone(), metrics.durations.clone());
        registry.register(
            "api_writes",
            "Writes to the API server by verb, kind and outcome",
            writes,
        );
        registry.register_with_unit(
            "api_write_duration",
            "Time from sending a write to its answer",
            Unit::Seconds,
            durations,
        );
        metrics
    }

    /// Counts one write; `failure` names the class of its error.
    pub(super) fn observe(
        &self,
        verb: Verb,
        target: &Target,
        failure: Option<&'static str>,
        took: Duration,
    ) {
        let labels = WriteLabels {
            verb: verb.name(),
            kind: target.api.kind.clone(),
            outcome: failure.unwrap_or(DONE),
        };
        self.writes.get_or_create(&labels).inc();
        let labels = DurationLabels { verb: verb.name() };
        self.durations
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }
}
