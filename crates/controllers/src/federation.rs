//! One grid in many clusters: who watches what, and what the parts share.
//!
//! ```text
//! control cluster                                  member
//! distribution: original ─► copies                 session: Secret ─► watches of the control cluster
//! membership:   namespace ─► Lease, contact          mirrors: copy ─► mirror; its grid ─► copy's status
//! grid controllers: copies' status ─► one status     grids:   mirror ─► the member's grid
//! ```
//!
//! A cluster may be both. All parts are generic in the kind of grid.

mod control_cluster;
mod distribution;
mod member_grids;
mod member_lease;
mod membership;
mod mirrors;
pub(crate) mod reactions;
mod session;

use std::collections::BTreeMap;
use std::sync::Arc;

use edgegrid_api::names::finalizer;
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::Scope;
use edgegrid_plan::federation::copies::{Member, clusters};
use edgegrid_plan::federation::status::{self, About, Report, read};
use edgegrid_plan::federation::{
    GridObject, has_finalizer, is_federated, is_from_control, is_mirror,
};
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::ObjectMeta;
use kube::runtime::reflector::ObjectRef;

use crate::context::Context;
use crate::federated_grid::FederatedGrid;
use crate::join;
use crate::queue::ObjectKey;

/// All of federation, until the queues are closed.
pub(crate) async fn run(context: &Context) {
    let parts: Vec<BoxFuture<'_, ()>> = vec![
        Box::pin(membership::run(context)),
        Box::pin(membership::watch_contacts(context)),
        Box::pin(session::run(context)),
        Box::pin(distribution::run::<DeploymentGrid>(context)),
        Box::pin(distribution::run::<StatefulSetGrid>(context)),
        Box::pin(distribution::run::<ServiceGrid>(context)),
        Box::pin(member_grids::run::<DeploymentGrid>(context)),
        Box::pin(member_grids::run::<StatefulSetGrid>(context)),
        Box::pin(member_grids::run::<ServiceGrid>(context)),
    ];
    join::all(parts).await;
}

/// Enqueues everything that federation reconciles.
pub(crate) fn enqueue_all(context: &Context) {
    let queues = &context.queues.federation;
    queues.members.push_all(&context.caches.members);
    enqueue_kind::<DeploymentGrid>(context);
    enqueue_kind::<StatefulSetGrid>(context);
    enqueue_kind::<ServiceGrid>(context);
}

fn enqueue_kind<K: FederatedGrid>(context: &Context) {
    let queues = K::federation_queues(&context.queues);
    queues.distribution.push_all(K::store(&context.caches));
    enqueue_mirrors::<K>(context);
}

/// Enqueues every mirror of a kind.
fn enqueue_mirrors<K: FederatedGrid>(context: &Context) {
    let mirrors = K::store(&context.caches).state_filter(|grid| is_mirror(grid.meta()));
    let keys = mirrors.iter().map(|mirror| crate::queue::key(&**mirror));
    K::federation_queues(&context.queues).mirrors.extend(keys);
}

/// The members by namespace.
pub(crate) fn members(context: &Context) -> BTreeMap<String, Member> {
    let namespaces = context.caches.members.state();
    clusters(namespaces.iter().map(|namespace| &namespace.metadata))
}

/// What the members report about a grid; `None` if it concerns none.
pub(crate) fn member_reports<K: FederatedGrid>(
    context: &Context,
    metadata: &ObjectMeta,
) -> Option<Vec<Report>> {
    let key = edgegrid_plan::federation::key(metadata);
    let has_own_finalizer = has_finalizer(metadata, finalizer::FEDERATED);
    let is_removing = metadata.deletion_timestamp.is_some();
    if !has_own_finalizer && (is_removing || !is_federated(metadata)) {
        return None;
    }
    let members = members(context);
    if members.is_empty() && !has_own_finalizer {
        return None;
    }
    let now = (context.clock)();
    let undelivered = context.federation.undelivered.get(K::KIND, &key);
    let copies: BTreeMap<String, Arc<K>> = copies_of(context, &key)
        .into_iter()
        .filter_map(|copy: Arc<K>| Some((copy.meta().namespace.clone()?, copy)))
        .collect();
    let staying = members.into_iter().filter(|(_, member)| !member.is_leaving);
    let reports = staying.map(|(namespace, member)| {
        let copy = copies.get(&namespace);
        Report {
            cluster: member.cluster,
            generation: copy.and_then(|copy| copy.meta().generation),
            status: copy.map(|copy| read(&copy.reported())).unwrap_or_default(),
            away_since: context.federation.contacts.away_since(&namespace, now),
            problem: undelivered.get(&Scope::Unit(namespace)).cloned(),
        }
    });
    Some(reports.collect())
}

/// Sets the condition of a grid that came from the control cluster: whether the grid still follows it.
pub(crate) fn set_link_condition<K: FederatedGrid>(
    context: &Context,
    about: About<'_>,
    conditions: &mut Vec<Condition>,
) {
    let link = &context.federation.control_link;
    if link.namespace().is_none() || !is_from_control(about.metadata) {
        return;
    }
    let key = edgegrid_plan::federation::key(about.metadata);
    let missing = context.federation.missing.get(K::KIND, &key);
    let problem = link.error().or_else(|| missing.into_values().next());
    conditions.push(status::follows(about, problem.as_ref()));
}

/// Enqueues every grid that came from the control cluster.
fn enqueue_followers<K: FederatedGrid>(context: &Context) {
    let grids = K::store(&context.caches).state_filter(|grid| is_from_control(grid.meta()));
    let keys = grids.iter().map(|grid| crate::queue::key(&**grid));
    K::own_queue(&context.queues).extend(keys);
}

/// The copies of a grid in the control cluster.
fn copies_of<K: FederatedGrid>(context: &Context, original: &ObjectKey) -> Vec<Arc<K>> {
    let keys = context.federation.copies.keys(K::KIND, original);
    keys.iter()
        .filter_map(|key| cached::<K>(context, key))
        .filter(|copy| !is_mirror(copy.meta()))
        .collect()
}

/// A grid that a cache shows.
fn cached<K: FederatedGrid>(context: &Context, (namespace, name): &ObjectKey) -> Option<Arc<K>> {
    K::store(&context.caches).get(&ObjectRef::new(name).within(namespace))
}

/// A grid as plans see it.
fn grid_object<K: FederatedGrid>(grid: &K) -> GridObject {
    GridObject::new(K::KIND, grid.meta(), grid)
}
