//! What is enqueued when a watch shows a change.
//!
//! Only what can alter a plan is enqueued: the rest, heartbeats above all, ends here.

use std::sync::Arc;

use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid, WhenUnreachable};
use edgegrid_plan::unreachable::is_kept;
use edgegrid_plan::{Child, ObjectId, ObjectKind, PrunedNode};
use kube::Resource;

use crate::context::Context;
use crate::federation;
use crate::node_reactions;
use crate::queue::{Queue, key};
use crate::reflector::Change;

/// A Node came, changed or went.
pub(crate) fn node(context: &Context, change: &Change<PrunedNode>) {
    if let Change::Changed { old, new } = change
        && !new.differs(old)
    {
        return;
    }
    if matches!(change, Change::Removed(_)) {
        let id = ObjectId::cluster(ObjectKind::Node, &change.key().1);
        context.execution.writes.gone(&id);
    }
    node_reactions::node(context, change);
    let keys = context.caches.unit_keys();
    let now = (context.clock)();
    for key in context.caches.vanished_units.apply(change, &keys, now) {
        enqueue_grids_by_key(context, &key);
        federation::reactions::units(context, &key);
    }
    enqueue_grids_that_keep_pods(context, change);
}

/// A DeploymentGrid came, changed or went.
pub(crate) fn deployment_grid(context: &Context, change: &Change<DeploymentGrid>) {
    forget_unused_keys(context);
    federation::reactions::grid(context, change);
}

/// A StatefulSetGrid came, changed or went.
pub(crate) fn stateful_set_grid(context: &Context, change: &Change<StatefulSetGrid>) {
    forget_unused_keys(context);
    federation::reactions::grid(context, change);
}

/// A ServiceGrid came, changed or went.
pub(crate) fn service_grid(context: &Context, change: &Change<ServiceGrid>) {
    federation::reactions::grid(context, change);
}

/// A workload or Service with a grid's label came, changed or went.
pub(crate) fn child(context: &Context, kind: ObjectKind, change: &Change<Child>) {
    let (children, queue) = match kind {
        ObjectKind::Deployment => (
            &context.caches.deployments,
            &context.queues.deployment_grids,
        ),
        ObjectKind::StatefulSet => (
            &context.caches.stateful_sets,
            &context.queues.stateful_set_grids,
        ),
        _ => (&context.caches.services, &context.queues.service_grids),
    };
    if matches!(change, Change::Removed(_)) {
        let (namespace, name) = change.key();
        let id = ObjectId::namespaced(kind, &namespace, &name);
        context.execution.writes.gone(&id);
    }
    let grids = children.apply(change);
    if kind == ObjectKind::StatefulSet && matches!(change, Change::Removed(_)) {
        federation::reactions::set_removed(context, &grids);
    }
    queue.extend(grids);
}

fn enqueue_grids_by_key(context: &Context, label: &str) {
    let caches = &context.caches;
    let deployments = caches
        .deployment_grids
        .state_filter(|grid| grid.spec.grid_uniq_key.as_deref() == Some(label));
    push_all(&context.queues.deployment_grids, &deployments);
    let stateful_sets = caches
        .stateful_set_grids
        .state_filter(|grid| grid.spec.grid_uniq_key.as_deref() == Some(label));
    push_all(&context.queues.stateful_set_grids, &stateful_sets);
}

/// A node that is no longer reached, or is again, concerns the grids that keep pods there.
fn enqueue_grids_that_keep_pods(context: &Context, change: &Change<PrunedNode>) {
    let [old, new] = [change.before(), change.after()]
        .map(|node| node.and_then(|node| node.unreachable_since()));
    if old == new {
        return;
    }
    let labels = change.object().metadata.labels.as_ref();
    let is_concerned = |key: Option<&String>, when: Option<&WhenUnreachable>| {
        let has_key = |key| labels.is_some_and(|labels| labels.contains_key(key));
        is_kept(when) && key.is_some_and(has_key)
    };
    let caches = &context.caches;
    let deployments = caches.deployment_grids.state_filter(|grid| {
        let spec = &grid.spec;
        is_concerned(spec.grid_uniq_key.as_ref(), spec.when_unreachable.as_ref())
    });
    push_all(&context.queues.deployment_grids, &deployments);
    let stateful_sets = caches.stateful_set_grids.state_filter(|grid| {
        let spec = &grid.spec;
        is_concerned(spec.grid_uniq_key.as_ref(), spec.when_unreachable.as_ref())
    });
    push_all(&context.queues.stateful_set_grids, &stateful_sets);
}

fn forget_unused_keys(context: &Context) {
    let caches = &context.caches;
    caches.vanished_units.retain(&caches.unit_keys());
}

fn push_all<K: Resource>(queue: &Queue, objects: &[Arc<K>]) {
    queue.extend(objects.iter().map(|object| key(&**object)));
}
