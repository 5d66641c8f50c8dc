//! The kinds of grid that a control cluster can send to its members, and where each is cached and queued.

use std::fmt::Debug;

use edgegrid_api::names::component;
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::ObjectKind;
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::runtime::reflector::Store;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::caches::Caches;
use crate::queue::Queue;
use crate::queues::{KindQueues, Queues};

/// A kind of grid that can be sent to members.
pub(crate) trait FederatedGrid:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The kind as plans name it.
    const KIND: ObjectKind;
    /// Source of the events that federation writes about it.
    const FEDERATION: &'static str;

    /// The cache of its kind.
    fn store(caches: &Caches) -> &Store<Self>;
    /// Queue of the controller that applies the grid in this cluster.
    fn own_queue(queues: &Queues) -> &Queue;
    /// Queues of the controllers that send the grid to members.
    fn federation_queues(queues: &Queues) -> &KindQueues;
    /// The status as JSON.
    fn reported(&self) -> Value;
}

/// How federation finds its way about one kind.
macro_rules! federated {
    ($kind:ident, $field:ident, $component:ident) => {
        impl FederatedGrid for $kind {
            const KIND: ObjectKind = ObjectKind::$kind;
            const FEDERATION: &'static str = component::$component;

            fn store(caches: &Caches) -> &Store<Self> {
                &caches.$field
            }

            fn own_queue(queues: &Queues) -> &Queue {
                &queues.$field
            }

            fn federation_queues(queues: &Queues) -> &KindQueues {
                &queues.federation.$field
            }

            fn reported(&self) -> Value {
                serde_json::to_value(&self.status).unwrap_or_default()
            }
        }
    };
}

federated!(DeploymentGrid, deployment_grids, FEDERATED_DEPLOYMENT_GRID);
federated!(
    StatefulSetGrid,
    stateful_set_grids,
    FEDERATED_STATEFUL_SET_GRID
);
federated!(ServiceGrid, service_grids, FEDERATED_SERVICE_GRID);
