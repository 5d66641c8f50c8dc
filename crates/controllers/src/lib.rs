//! The controllers: what each watches and how it gathers what its plan needs. Nothing is decided
//! here.
//!
//! ```text
//! watches ─► reactions ─► queues ─► gather (caches) ─► plan (pure) ─► execute
//!                                                        └─► status, events, when to look again
//! ```
//!
//! No pass starts before every cache has shown all there is: a world without its nodes would look
//! like one whose units are all gone. [`process::run`] puts it all together.

use edgegrid_runtime::executor::Executor;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kube::Client;

pub mod cache;
pub mod children;
pub mod context;
pub mod controller;
pub mod default_unit;
pub mod definitions;
pub mod departures;
mod deployment_grid;
pub mod execute;
pub mod federation;
mod gather;
mod grid_memory;
pub mod look;
pub mod metrics;
pub mod node;
pub mod node_group;
pub mod node_unit;
pub mod notify;
pub mod process;
pub mod queue;
pub mod rbac;
mod reactions;
pub mod reservations;
mod service_grid;
mod site_reactions;
pub mod sites;
mod stateful_set_grid;
mod watches;
mod workload_grid;
pub mod writes;

pub use context::{Caches, Clock, Config, Context, Queues};
pub use metrics::Metrics;

use execute::Execution;
use federation::{Connector, Federation};
use sites::{NodeFailures, SiteView};
use writes::Writes;

/// What the controllers need to run.
pub struct Setup {
    /// Reads.
    pub client: Client,
    /// Writes.
    pub executor: Executor,
    /// Settings.
    pub config: Config,
    /// Counts.
    pub metrics: Metrics,
    /// The time of day.
    pub clock: Clock,
    /// How a member reaches its control cluster.
    pub connector: Connector,
}

impl Setup {
    fn context(self, caches: Caches) -> Context {
        Context {
            client: self.client,
            config: self.config,
            caches,
            sites: SiteView::default(),
            node_failures: NodeFailures::default(),
            queues: Queues::default(),
            execution: Execution {
                executor: self.executor,
                writes: Writes::default(),
            },
            metrics: self.metrics,
            clock: self.clock,
            federation: Federation::new(self.connector),
        }
    }
}

/// All controllers side by side; each ends when its queue is closed.
async fn controllers(context: &Context) {
    let running: Vec<BoxFuture<'_, ()>> = vec![
        Box::pin(node::run(context)),
        Box::pin(node_unit::run(context)),
        Box::pin(node_group::run(context)),
        Box::pin(default_unit::run(context)),
        Box::pin(deployment_grid::run(context)),
        Box::pin(stateful_set_grid::run(context)),
        Box::pin(service_grid::run(context)),
        Box::pin(federation::run(context)),
    ];
    all_of(running).await;
}

/// Runs all until each has ended. Only those are polled that have something to do, which `join_all` does
/// not promise: every answer to a write would wake every watch.
async fn all_of(running: Vec<BoxFuture<'_, ()>>) {
    FuturesUnordered::from_iter(running).collect::<()>().await;
}
