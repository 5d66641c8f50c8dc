//! The controllers in a process that takes turns with others.
//!
//! ```text
//! definitions served ─► watches, caches: always, so that a standby knows the world already
//! elected ─► definitions ─► caches synced ─► every object once ─► what changes ─► lost or shut down
//! ```

use std::future::Future;

use edgegrid_runtime::executor::Executor;
use edgegrid_runtime::{Elector, Readiness, Shutdown};
use futures::future::{BoxFuture, Either, join, join_all, select};
use kube::Client;

use crate::caches::Caches;
use crate::context::{Clock, Config, Context};
use crate::execute::Execution;
use crate::federation_state::FederationState;
use crate::metrics::Metrics;
use crate::node_unit_index::{NodeFailures, NodeUnitIndex};
use crate::queues::Queues;
use crate::registration::Connector;
use crate::watches::{self, ChildStores};
use crate::writes::Writes;
use crate::{
    default_unit, definitions, deployment_grid, federation, node, node_group, node_unit,
    service_grid, stateful_set_grid,
};

/// What [`run`] waits for before anything else.
const DEFINITIONS: &str = "CustomResourceDefinitions of edgegrid";

/// What the controllers need to run.
pub struct Setup {
    /// Reads and watches everything.
    pub client: Client,
    /// Writes everything, while this process is the leader.
    pub executor: Executor,
    /// Grace periods and what a member may make.
    pub config: Config,
    /// Counters of passes, gauges of federation.
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
            node_units: NodeUnitIndex::default(),
            node_failures: NodeFailures::default(),
            queues: Queues::default(),
            execution: Execution {
                executor: self.executor,
                writes: Writes::default(),
            },
            metrics: self.metrics,
            clock: self.clock,
            federation: FederationState::new(self.connector),
        }
    }
}

/// How the process fits in with others.
pub struct Process {
    /// Decides when this process works; `None` if it is the only one.
    pub elector: Option<Elector>,
    /// Whether our definitions are made and upgraded, or somebody else does that.
    pub manages_definitions: bool,
    /// Shows what the process still waits for.
    pub readiness: Readiness,
    /// Asks the process to end.
    pub shutdown: Shutdown,
}

/// Runs until shut down: passes that run then are ended in order, and the lease is released.
///
/// What is waited for is registered before the future is first polled: nobody sees a process that has not
/// begun as ready.
pub fn run(setup: Setup, process: Process) -> impl Future<Output = ()> {
    process.readiness.expect(DEFINITIONS);
    for kind in watches::CACHED {
        process.readiness.expect(cache_of(kind));
    }
    run_registered(setup, process)
}

async fn run_registered(setup: Setup, process: Process) {
    let Process {
        elector,
        manages_definitions,
        readiness,
        shutdown,
    } = process;
    let (caches, writers, child_stores) = watches::caches();
    let context = setup.context(caches);
    let watching = Box::pin(async {
        definitions::served(&context.client).await;
        readiness.reached(DEFINITIONS);
        let syncing = report_synced(&context, &child_stores, &readiness);
        join(watches::run(&context, writers), syncing).await;
    });
    let work = || work(&context, &child_stores, manages_definitions, &shutdown);
    let working = Box::pin(async {
        match elector {
            Some(elector) => elector.run(shutdown.requested(), work).await,
            None => work().await,
        }
    });
    match select(watching, working).await {
        Either::Left(_) | Either::Right(_) => {}
    }
}

/// Reports each cache as ready once it has synced.
async fn report_synced(context: &Context, child_stores: &ChildStores, readiness: &Readiness) {
    let waits = watches::syncing(&context.caches, child_stores);
    let named = watches::CACHED.into_iter().zip(waits);
    join_all(named.map(|(kind, wait)| async move {
        if wait.await.is_ok() {
            readiness.reached(&cache_of(kind));
        }
    }))
    .await;
}

fn cache_of(kind: &str) -> String {
    format!("cache of {kind}")
}

/// One term: from being elected to the shutdown.
async fn work(
    context: &Context,
    child_stores: &ChildStores,
    manages_definitions: bool,
    shutdown: &Shutdown,
) {
    let prepare = async {
        if manages_definitions {
            definitions::ensure(&context.client, &context.execution).await;
        }
        watches::synced(&context.caches, child_stores).await.is_ok()
    };
    if !before(shutdown, prepare).await.unwrap_or(false) {
        return;
    }
    context.caches.vanished_units.clear();
    enqueue_all(context);
    let closing = async {
        shutdown.requested().await;
        context.queues.close();
    };
    join(controllers(context), closing).await;
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
    crate::join::all(running).await;
}

/// What `wait` gives, or nothing if the shutdown comes first.
async fn before<T>(shutdown: &Shutdown, wait: impl Future<Output = T>) -> Option<T> {
    match select(Box::pin(shutdown.requested()), Box::pin(wait)).await {
        Either::Left(_) => None,
        Either::Right((value, _)) => Some(value),
    }
}

/// Enqueues every object: a former term may have been stopped in the middle.
fn enqueue_all(context: &Context) {
    let (caches, queues) = (&context.caches, &context.queues);
    queues.nodes.push_all(&caches.nodes);
    queues.node_units.push_all(&caches.node_units);
    queues.node_groups.push_all(&caches.node_groups);
    queues.deployment_grids.push_all(&caches.deployment_grids);
    queues
        .stateful_set_grids
        .push_all(&caches.stateful_set_grids);
    queues.service_grids.push_all(&caches.service_grids);
    federation::enqueue_all(context);
}
