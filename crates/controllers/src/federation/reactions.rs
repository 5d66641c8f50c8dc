//! What federation enqueues when a watch shows a change.

use std::collections::BTreeSet;

use edgegrid_api::names::{finalizer, parent_secret};
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::federation::{has_finalizer, is_copy, is_federated, is_mirror};
use edgegrid_plan::{ObjectId, ObjectKind};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::{ObjectMeta, PartialObjectMeta};

use crate::context::Context;
use crate::federated_grid::FederatedGrid;
use crate::queue::{ObjectKey, key};
use crate::reflector::Change;

/// A grid came, changed or went: an original, a copy, a mirror, or any other.
pub(crate) fn grid<K: FederatedGrid>(context: &Context, change: &Change<K>) {
    let own = change.key();
    let concerned = context.federation.copies.apply(change);
    if matches!(change, Change::Removed(_)) {
        let id = ObjectId::namespaced(K::KIND, &own.0, &own.1);
        context.execution.writes.gone(&id);
    }
    let queues = K::federation_queues(&context.queues);
    let metadata = change.object().meta();
    if is_mirror(metadata) {
        enqueue_mirror::<K>(context, &own);
    } else if is_copy(metadata) {
        K::own_queue(&context.queues).extend(concerned.iter().cloned());
        queues.distribution.extend(concerned);
        queues.distribution.push(own);
    } else {
        K::own_queue(&context.queues).push(own.clone());
        for copy in context.federation.copies.keys(K::KIND, &own) {
            if copy.0 == parent_secret::NAMESPACE {
                enqueue_mirror::<K>(context, &copy);
            } else if matches!(change, Change::Removed(_)) {
                queues.distribution.push(copy); // it has no original any more
            }
        }
        queues.distribution.push(own);
    }
}

/// A member cluster came, changed or went.
pub(crate) fn member(context: &Context, change: &Change<PartialObjectMeta<Namespace>>) {
    context.queues.federation.members.push(change.key());
    enqueue_originals::<DeploymentGrid>(context);
    enqueue_originals::<StatefulSetGrid>(context);
    enqueue_originals::<ServiceGrid>(context);
}

/// A member renewed its Lease, or the Lease came or went.
pub(crate) fn member_lease(context: &Context, change: &Change<Lease>) {
    let (namespace, _) = change.key();
    let now = (context.clock)();
    context
        .federation
        .contacts
        .apply(&namespace, change.after().map(|lease| &**lease), now);
    if !matches!(change, Change::Changed { .. }) {
        context
            .queues
            .federation
            .members
            .push((String::new(), namespace));
    }
}

/// A StatefulSet of these grids went: a member's grid may have waited for that.
pub(crate) fn set_removed(context: &Context, grids: &BTreeSet<ObjectKey>) {
    let copies = &context.federation.copies;
    for grid in grids {
        let copies = copies.keys(ObjectKind::StatefulSetGrid, grid);
        for mirror in copies
            .iter()
            .filter(|copy| copy.0 == parent_secret::NAMESPACE)
        {
            enqueue_mirror::<StatefulSetGrid>(context, mirror);
        }
    }
}

/// Nodes with a label key came or went.
pub(crate) fn units(context: &Context, label: &str) {
    mirrors_by_key::<DeploymentGrid>(context, label, |grid| grid.spec.grid_uniq_key.as_deref());
    mirrors_by_key::<StatefulSetGrid>(context, label, |grid| grid.spec.grid_uniq_key.as_deref());
    mirrors_by_key::<ServiceGrid>(context, label, |grid| grid.spec.grid_uniq_key.as_deref());
}

/// Enqueues every grid that is sent to members, also for its status.
pub(super) fn enqueue_originals<K: FederatedGrid>(context: &Context) {
    // Those that were, too: a copy may be left in a namespace that is no longer a member's.
    let is_concerned = |metadata: &ObjectMeta| {
        is_federated(metadata) || is_copy(metadata) || has_finalizer(metadata, finalizer::FEDERATED)
    };
    let store = K::store(&context.caches);
    let concerned = store.state_filter(|grid| is_concerned(grid.meta()));
    let keys: Vec<ObjectKey> = concerned.iter().map(|grid| key(&**grid)).collect();
    K::federation_queues(&context.queues)
        .distribution
        .extend(keys.iter().cloned());
    K::own_queue(&context.queues).extend(keys);
}

fn mirrors_by_key<K: FederatedGrid>(
    context: &Context,
    label: &str,
    key_of: impl Fn(&K) -> Option<&str>,
) {
    let store = K::store(&context.caches);
    for grid in store.state_filter(|grid| is_mirror(grid.meta()) && key_of(grid) == Some(label)) {
        enqueue_mirror::<K>(context, &key(&*grid));
    }
}

/// Enqueues a mirror, and its copy, whose status may change.
pub(super) fn enqueue_mirror<K: FederatedGrid>(context: &Context, mirror: &ObjectKey) {
    let queues = K::federation_queues(&context.queues);
    queues.mirrors.push(mirror.clone());
    if let Some(namespace) = context.federation.control_link.namespace() {
        queues.copies.push((namespace, mirror.1.clone()));
    }
}
