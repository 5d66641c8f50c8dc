//! The watches: one per kind, whatever the number of controllers that read it.

use std::fmt::Debug;

use edgegrid_api::names::{MEMBER_LEASE, label};
use edgegrid_api::{DeploymentGrid, NodeGroup, NodeUnit, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::{Child, ObjectKind, PrunedNode};
use futures::future::{BoxFuture, FutureExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::store::{Writer, WriterDropped};
use kube::runtime::reflector::{Store, store};
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use crate::caches::Caches;
use crate::children::Children;
use crate::context::Context;
use crate::reflector::{Change, Reflector, drop_managed_fields};
use crate::vanished_units::VanishedUnits;
use crate::{federation, join, node_reactions, reactions};

/// Where the watches write.
pub(crate) struct Writers {
    nodes: Writer<PrunedNode>,
    node_units: Writer<NodeUnit>,
    node_groups: Writer<NodeGroup>,
    deployment_grids: Writer<DeploymentGrid>,
    stateful_set_grids: Writer<StatefulSetGrid>,
    service_grids: Writer<ServiceGrid>,
    children: [Writer<Child>; 3],
    members: Writer<PartialObjectMeta<Namespace>>,
    member_leases: Writer<Lease>,
}

/// The stores of the children, which are read through [`Children`]; kept to know when they have synced.
pub(crate) type ChildStores = [Store<Child>; 3];

const CHILD_KINDS: [ObjectKind; 3] = [
    ObjectKind::Deployment,
    ObjectKind::StatefulSet,
    ObjectKind::Service,
];

/// Empty caches and the ends that fill them.
pub(crate) fn caches() -> (Caches, Writers, ChildStores) {
    let (nodes, nodes_writer) = store();
    let (node_units, node_units_writer) = store();
    let (node_groups, node_groups_writer) = store();
    let (deployment_grids, deployment_grids_writer) = store();
    let (stateful_set_grids, stateful_set_grids_writer) = store();
    let (service_grids, service_grids_writer) = store();
    let (members, members_writer) = store();
    let (member_leases, member_leases_writer) = store();
    let children = CHILD_KINDS.map(Writer::<Child>::new);
    let child_stores = std::array::from_fn(|n| children[n].as_reader());
    let caches = Caches {
        nodes,
        node_units,
        node_groups,
        deployment_grids,
        stateful_set_grids,
        service_grids,
        deployments: Children::default(),
        stateful_sets: Children::default(),
        services: Children::default(),
        members,
        member_leases,
        vanished_units: VanishedUnits::default(),
    };
    let writers = Writers {
        nodes: nodes_writer,
        node_units: node_units_writer,
        node_groups: node_groups_writer,
        deployment_grids: deployment_grids_writer,
        stateful_set_grids: stateful_set_grids_writer,
        service_grids: service_grids_writer,
        children,
        members: members_writer,
        member_leases: member_leases_writer,
    };
    (caches, writers, child_stores)
}

/// Runs all watches, for ever.
pub(crate) async fn run(context: &Context, writers: Writers) {
    let client = &context.client;
    let mut watches: Vec<BoxFuture<'_, ()>> = vec![
        watch(client, writers.nodes, PrunedNode::prune, |change| {
            reactions::node(context, &change);
        }),
        // Not pruned: which part of `setNode` its author wrote shows in who owns it.
        watch(
            client,
            writers.node_units,
            |_| {},
            |change| {
                node_reactions::node_unit(context, &change);
            },
        ),
        watch(client, writers.node_groups, unmanaged, |change| {
            node_reactions::node_group(context, &change);
        }),
        watch(client, writers.deployment_grids, unmanaged, |change| {
            reactions::deployment_grid(context, &change);
        }),
        watch(client, writers.stateful_set_grids, unmanaged, |change| {
            reactions::stateful_set_grid(context, &change);
        }),
        watch(client, writers.service_grids, unmanaged, |change| {
            reactions::service_grid(context, &change);
        }),
    ];
    for (kind, writer) in CHILD_KINDS.into_iter().zip(writers.children) {
        watches.push(watch_children(context, kind, writer));
    }
    watches.push(watch_members(context, writers.members));
    watches.push(watch_member_leases(context, writers.member_leases));
    join::all(watches).await;
}

fn watch_members(
    context: &Context,
    writer: Writer<PartialObjectMeta<Namespace>>,
) -> BoxFuture<'_, ()> {
    Reflector {
        api: Api::all(context.client.clone()),
        selection: watcher::Config::default().labels(label::CLUSTER_ID),
        kind: (),
        prune: drop_managed_fields,
        writer,
    }
    .run(|change| federation::reactions::member(context, &change))
    .boxed()
}

fn watch_member_leases(context: &Context, writer: Writer<Lease>) -> BoxFuture<'_, ()> {
    Reflector {
        api: Api::all(context.client.clone()),
        selection: watcher::Config::default().fields(&format!("metadata.name={MEMBER_LEASE}")),
        kind: (),
        prune: drop_managed_fields,
        writer,
    }
    .run(|change| federation::reactions::member_lease(context, &change))
    .boxed()
}

fn watch<'a, K>(
    client: &Client,
    writer: Writer<K>,
    prune: fn(&mut K),
    on_change: impl FnMut(Change<K>) + Send + 'a,
) -> BoxFuture<'a, ()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    Reflector {
        api: Api::all(client.clone()),
        selection: watcher::Config::default(),
        kind: (),
        prune,
        writer,
    }
    .run(on_change)
    .boxed()
}

fn watch_children(context: &Context, kind: ObjectKind, writer: Writer<Child>) -> BoxFuture<'_, ()> {
    Reflector {
        api: Api::all_with(context.client.clone(), &kind),
        selection: watcher::Config::default().labels(label::GRID_SELECTOR),
        kind,
        prune: Child::prune,
        writer,
    }
    .run(move |change| reactions::child(context, kind, &change))
    .boxed()
}

/// Drops `managedFields` of all but the managers that plans look at.
fn unmanaged<K: Resource>(object: &mut K) {
    edgegrid_plan::observed::reduce(object.meta_mut());
}

/// What the caches show, as readiness names it.
pub(crate) const CACHED: [&str; 11] = [
    "Nodes",
    "NodeUnits",
    "NodeGroups",
    "DeploymentGrids",
    "StatefulSetGrids",
    "ServiceGrids",
    "Deployments",
    "StatefulSets",
    "Services",
    "member clusters",
    "member clusters' leases",
];

/// A wait until a cache has shown all there is.
type Synced<'a> = BoxFuture<'a, Result<(), WriterDropped>>;

/// The waits for all caches, in the order of [`CACHED`].
pub(crate) fn syncing<'a>(caches: &'a Caches, children: &'a ChildStores) -> [Synced<'a>; 11] {
    let [deployments, stateful_sets, services] = children;
    [
        caches.nodes.wait_until_ready().boxed(),
        caches.node_units.wait_until_ready().boxed(),
        caches.node_groups.wait_until_ready().boxed(),
        caches.deployment_grids.wait_until_ready().boxed(),
        caches.stateful_set_grids.wait_until_ready().boxed(),
        caches.service_grids.wait_until_ready().boxed(),
        deployments.wait_until_ready().boxed(),
        stateful_sets.wait_until_ready().boxed(),
        services.wait_until_ready().boxed(),
        caches.members.wait_until_ready().boxed(),
        caches.member_leases.wait_until_ready().boxed(),
    ]
}

/// Waits until every cache has shown all there is.
pub(crate) async fn synced(caches: &Caches, children: &ChildStores) -> Result<(), WriterDropped> {
    for wait in syncing(caches, children) {
        wait.await?;
    }
    Ok(())
}
