//! Who should look again when something changed that concerns many clusters.

use edgegrid_api::names::{finalizer, parent_secret};
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::ObjectId;
use edgegrid_plan::federation::{has_finalizer, is_copy, is_federated, is_mirror};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::{ObjectMeta, PartialObjectMeta};

use super::FederatedGrid;
use crate::cache::Change;
use crate::context::Context;
use crate::queue::{Key, key};

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
        mirror::<K>(context, &own);
    } else if is_copy(metadata) {
        K::own_queue(&context.queues).extend(concerned.iter().cloned());
        queues.distribution.extend(concerned);
        queues.distribution.push(own);
    } else {
        K::own_queue(&context.queues).push(own.clone());
        for copy in context.federation.copies.of(K::KIND, &own) {
            if copy.0 == parent_secret::NAMESPACE {
                mirror::<K>(context, &copy);
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
    all_originals::<DeploymentGrid>(context);
    all_originals::<StatefulSetGrid>(context);
    all_originals::<ServiceGrid>(context);
}

/// A member was heard of.
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

/// Nodes with a label key came or went.
pub(crate) fn units(context: &Context, label: &str) {
    mirrors_by_key::<DeploymentGrid>(context, label, |grid| grid.spec.grid_uniq_key.as_deref());
    mirrors_by_key::<StatefulSetGrid>(context, label, |grid| grid.spec.grid_uniq_key.as_deref());
    mirrors_by_key::<ServiceGrid>(context, label, |grid| grid.spec.grid_uniq_key.as_deref());
}

/// Asks for a look at every grid that is sent to members, and at its status.
pub(super) fn all_originals<K: FederatedGrid>(context: &Context) {
    // Those that were, too: a copy may be left in a namespace that is no longer a member's.
    let is_concerned = |metadata: &ObjectMeta| {
        is_federated(metadata) || is_copy(metadata) || has_finalizer(metadata, finalizer::FEDERATED)
    };
    let store = K::store(&context.caches);
    let concerned = store.state_filter(|grid| is_concerned(grid.meta()));
    let keys: Vec<Key> = concerned.iter().map(|grid| key(&**grid)).collect();
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
        mirror::<K>(context, &key(&*grid));
    }
}

/// Looks at a mirror, and at what its copy should hear.
pub(super) fn mirror<K: FederatedGrid>(context: &Context, mirror: &Key) {
    let queues = K::federation_queues(&context.queues);
    queues.mirrors.push(mirror.clone());
    if let Some(namespace) = context.federation.heard.namespace() {
        queues.copies.push((namespace, mirror.1.clone()));
    }
}
