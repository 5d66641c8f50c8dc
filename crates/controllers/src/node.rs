//! Writes on each Node what all NodeUnits together want there.

use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::names::component;
use edgegrid_plan::{ObjectId, ObjectKind, PrunedNode, node};
use edgegrid_runtime::executor::{Class, WriteError};
use kube::Resource;

use crate::context::Context;
use crate::controller;
use crate::notify::Notifier;
use crate::queue::key;

/// When to look again after somebody else was faster: the watch usually is sooner.
pub(crate) const CONFLICT_WAIT: Duration = Duration::from_secs(1);

/// Runs until the queue of nodes is closed.
pub async fn run(context: &Context) {
    let executor = context.execution.executor.clone();
    let notifier = Notifier::new(context.client.clone(), executor, component::NODE_UNIT);
    let reconcile = |node| reconcile(context.clone(), notifier.clone(), node);
    let (store, queue) = (context.caches.nodes.clone(), context.queues.nodes.clone());
    controller::run("node", store, queue, context.metrics.clone(), reconcile).await;
}

async fn reconcile(
    context: Context,
    notifier: Notifier,
    node: Arc<PrunedNode>,
) -> Result<Option<Duration>, WriteError> {
    let key = key(&*node);
    let id = ObjectId::cluster(ObjectKind::Node, &key.1);
    let cached = node.metadata.resource_version.as_deref();
    if let Some(wait) = context.execution.writes.behind(&id, cached) {
        return Ok(Some(wait));
    }
    let node_units = context.node_units.current(&context.caches);
    let plan = node::plan(&node, &node_units, (context.clock)());
    notifier
        .notify(&key, &node.object_ref(&()), &plan.notices)
        .await;
    let recheck = plan.recheck;
    let steps = plan.into_steps();
    let outcome = ignore_conflict(context.execution.run_in_order(&steps).await);
    let failure = outcome.as_ref().err().map(ToString::to_string);
    if context.node_failures.note(&key.1, failure) {
        let units = node_units.claiming(&node);
        let units = units.iter().map(|unit| (String::new(), unit.name.clone()));
        context.queues.node_units.extend(units);
    }
    Ok(outcome?.or(recheck))
}

/// A conflict is no failure: the object is reconciled again, unless it is gone.
pub(crate) fn ignore_conflict(
    outcome: Result<(), WriteError>,
) -> Result<Option<Duration>, WriteError> {
    match outcome {
        Ok(()) => Ok(None),
        Err(error) => match error.class {
            Class::Conflict(_) | Class::AlreadyExists => Ok(Some(CONFLICT_WAIT)),
            Class::NotFound => Ok(None),
            _ => Err(error),
        },
    }
}
