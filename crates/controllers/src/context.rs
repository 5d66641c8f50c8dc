//! What every controller has at hand: the caches to read, the queues to fill, the way to write.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use crate::caches::Caches;
use crate::execute::Execution;
use crate::federation_state::FederationState;
use crate::metrics::Metrics;
use crate::node_unit_index::{NodeFailures, NodeUnitIndex};
use crate::queues::Queues;

/// Settings of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long a unit whose Nodes were deleted keeps its workloads.
    pub unit_grace: Duration,
    /// Whether a member makes the namespaces that federated grids are for.
    pub creates_namespaces: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            unit_grace: Duration::from_mins(5),
            creates_namespaces: true,
        }
    }
}

/// The wall clock; tests pass their own, since tokio's paused one knows no dates.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Shared by all controllers of one process.
#[derive(Clone)]
pub struct Context {
    /// For the few reads that no cache serves.
    pub client: Client,
    /// Grace periods and what a member may make.
    pub config: Config,
    /// One cache per kind.
    pub caches: Caches,
    /// Which NodeUnits and NodeGroups claim which node.
    pub node_units: NodeUnitIndex,
    /// Nodes that could not be written.
    pub node_failures: NodeFailures,
    /// One queue of objects to reconcile per kind.
    pub queues: Queues,
    /// Executes plans, and knows its own last writes.
    pub execution: Execution,
    /// Counters of passes, gauges of federation.
    pub metrics: Metrics,
    /// The time of day.
    pub clock: Clock,
    /// What federation knows of other clusters.
    pub federation: FederationState,
}
