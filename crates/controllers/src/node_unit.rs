//! Keeps each NodeUnit's markers and status, and removes its finalizer when its nodes are clean.

use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::NodeUnit;
use edgegrid_api::names::component;
use edgegrid_plan::node_unit::{Planner, World, status_body};
use edgegrid_plan::{Manager, ObjectId, ObjectKind};
use edgegrid_runtime::executor::WriteError;
use kube::Resource;
use serde_json::Value;

use crate::context::Context;
use crate::controller;
use crate::execute::target;
use crate::node::{CONFLICT_WAIT, ignore_conflict};
use crate::notify::Notifier;
use crate::queue::key;

/// Runs until the queue of NodeUnits is closed.
pub async fn run(context: &Context) {
    let executor = context.execution.executor.clone();
    let notifier = Notifier::new(context.client.clone(), executor, component::NODE_UNIT);
    let reconcile = |unit| reconcile(context.clone(), notifier.clone(), unit);
    let (store, queue) = (
        context.caches.node_units.clone(),
        context.queues.node_units.clone(),
    );
    controller::run(
        "node_unit",
        store,
        queue,
        context.metrics.clone(),
        reconcile,
    )
    .await;
}

async fn reconcile(
    context: Context,
    notifier: Notifier,
    unit: Arc<NodeUnit>,
) -> Result<Option<Duration>, WriteError> {
    let key = key(&*unit);
    let id = ObjectId::cluster(ObjectKind::NodeUnit, &key.1);
    let cached = unit.metadata.resource_version.as_deref();
    if let Some(wait) = context.execution.writes.behind(&id, cached) {
        return Ok(Some(wait));
    }
    let (plan, status) = {
        let nodes = context.caches.nodes.state();
        let node_units = context.node_units.current(&context.caches);
        let failures = context.node_failures.all();
        let world = World {
            nodes: &nodes,
            node_units: &node_units,
            failures: &failures,
        };
        let Some(planner) = Planner::new(&key.1, world) else {
            return Ok(None);
        };
        let now = (context.clock)();
        (planner.plan(now), planner.status(now))
    };
    notifier
        .notify(&key, &unit.object_ref(&()), &plan.notices)
        .await;
    let recheck = plan.recheck;
    let steps = plan.into_steps();
    let outcome = ignore_conflict(context.execution.run_in_order(&steps).await);
    if !steps.is_empty() && outcome.is_ok() {
        // The watch shows what was written; status follows then, for the new generation.
        return Ok(Some(CONFLICT_WAIT));
    }
    if unit.metadata.deletion_timestamp.is_none() && unit.status.as_ref() != Some(&status) {
        let written = report(
            &context,
            &id,
            unit.metadata.uid.as_deref(),
            &status_body(&status),
        )
        .await;
        let wait = ignore_conflict(written)?;
        return Ok(outcome?.or(wait).or(recheck));
    }
    Ok(outcome?.or(recheck))
}

/// Writes the status of a NodeUnit or NodeGroup.
pub(crate) async fn report(
    context: &Context,
    id: &ObjectId,
    uid: Option<&str>,
    body: &Value,
) -> Result<(), WriteError> {
    let manager = Manager::Edgegrid.name();
    let executor = &context.execution.executor;
    let written = executor
        .apply_status(&target(id), body, manager, uid)
        .await?;
    context
        .execution
        .writes
        .wrote(id, written.resource_version.as_deref());
    Ok(())
}
