//! Makes the NodeUnits that a NodeGroup finds, keeps its status, and removes its finalizer when no NodeUnit
//! shows it.

use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::NodeGroup;
use edgegrid_api::names::component;
use edgegrid_plan::node_group::{World, plan, status, status_body};
use edgegrid_plan::{ObjectId, ObjectKind};
use edgegrid_runtime::executor::WriteError;
use kube::Resource;

use crate::context::Context;
use crate::controller;
use crate::node::{CONFLICT_WAIT, ignore_conflict};
use crate::node_unit::report;
use crate::notify::Notifier;
use crate::queue::key;

/// Runs until the queue of NodeGroups is closed.
pub async fn run(context: &Context) {
    let executor = context.execution.executor.clone();
    let notifier = Notifier::new(context.client.clone(), executor, component::NODE_GROUP);
    let reconcile = |group| reconcile(context.clone(), notifier.clone(), group);
    let (store, queue) = (
        context.caches.node_groups.clone(),
        context.queues.node_groups.clone(),
    );
    controller::run(
        "node_group",
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
    group: Arc<NodeGroup>,
) -> Result<Option<Duration>, WriteError> {
    let key = key(&*group);
    let id = ObjectId::cluster(ObjectKind::NodeGroup, &key.1);
    let cached = group.metadata.resource_version.as_deref();
    if let Some(wait) = context.execution.writes.behind(&id, cached) {
        return Ok(Some(wait));
    }
    let (plan, status) = {
        let (nodes, units) = (
            context.caches.nodes.state(),
            context.caches.node_units.state(),
        );
        let world = World {
            nodes: &nodes,
            units: &units,
        };
        (
            plan(&group, &world),
            status(&group, &world, (context.clock)()),
        )
    };
    notifier
        .notify(&key, &group.object_ref(&()), &plan.notices)
        .await;
    let is_as_wanted = plan.is_empty();
    let outcomes = context.execution.run(plan).await;
    let mut outcome = Ok(None);
    for fared in outcomes.into_values() {
        outcome = outcome.and(ignore_conflict(fared));
    }
    if !is_as_wanted && outcome.is_ok() {
        // The watch shows what was written; status follows then.
        return Ok(Some(CONFLICT_WAIT));
    }
    if group.metadata.deletion_timestamp.is_none() && group.status.as_ref() != Some(&status) {
        let written = report(
            &context,
            &id,
            group.metadata.uid.as_deref(),
            &status_body(&status),
        )
        .await;
        let wait = ignore_conflict(written)?;
        return Ok(outcome?.or(wait));
    }
    outcome
}
