//! What the controllers count.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is as wanted.
    Completed,
    /// To be repeated after a while.
    Waiting,
    /// An error; the pass is repeated later.
    Failed,
}

/// Passes by controller and outcome, and how a member stands to its control cluster; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    passes: Family<PassLabels, Counter>,
    /// 1 while this cluster is a member whose control cluster is out of contact.
    pub(crate) control_cluster_lost: Gauge,
    /// Grids of this member that its control cluster no longer shows.
    pub(crate) copies_missing: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassLabels {
    controller: &'static str,
    outcome: &'static str,
}

impl Metrics {
    /// Metrics that `registry` shows.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "passes",
            "Passes over objects by controller and outcome",
            metrics.passes.clone(),
        );
        registry.register(
            "control_cluster_lost",
            "Whether this cluster is a member and its control cluster is out of contact",
            metrics.control_cluster_lost.clone(),
        );
        registry.register(
            "copies_missing",
            "Grids of this member that its control cluster no longer shows and did not ask to remove",
            metrics.copies_missing.clone(),
        );
        metrics
    }

    pub(crate) fn observe(&self, controller: &'static str, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Completed => "completed",
            Outcome::Waiting => "waiting",
            Outcome::Failed => "failed",
        };
        self.passes
            .get_or_create(&PassLabels {
                controller,
                outcome,
            })
            .inc();
    }
}
