//! What every controller has at hand: the caches to read, the queues to fill, the way to write.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::{DeploymentGrid, NodeGroup, NodeUnit, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::SiteNode;
use edgegrid_plan::federation::is_mirror;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::Store;

use crate::children::Children;
use crate::departures::Departures;
use crate::execute::Execution;
use crate::federation::{Federation, FederationQueues};
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::sites::{NodeFailures, SiteView};

/// Settings of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long a unit whose Nodes were deleted keeps its workloads.
    pub unit_grace: Duration,
    /// Whether a member makes the namespaces that federated grids are for.
    pub creates_namespaces: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            unit_grace: Duration::from_mins(5),
            creates_namespaces: true,
        }
    }
}

/// The wall clock; tests pass their own, since tokio's paused one knows no dates.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Shared by all controllers of one process.
#[derive(Clone)]
pub struct Context {
    /// For the few reads that no cache serves.
    pub client: Client,
    /// Settings.
    pub config: Config,
    /// What the watches show.
    pub caches: Caches,
    /// NodeUnits and NodeGroups as they bear on nodes.
    pub sites: SiteView,
    /// Nodes that could not be written.
    pub node_failures: NodeFailures,
    /// Who should be looked at.
    pub queues: Queues,
    /// Makes plans true.
    pub execution: Execution,
    /// Counts.
    pub metrics: Metrics,
    /// The time of day.
    pub clock: Clock,
    /// One grid in many clusters.
    pub federation: Federation,
}

/// What the watches show.
#[derive(Clone)]
pub struct Caches {
    /// All Nodes, cut down.
    pub nodes: Store<SiteNode>,
    /// All NodeUnits.
    pub node_units: Store<NodeUnit>,
    /// All NodeGroups.
    pub node_groups: Store<NodeGroup>,
    /// All DeploymentGrids.
    pub deployment_grids: Store<DeploymentGrid>,
    /// All StatefulSetGrids.
    pub stateful_set_grids: Store<StatefulSetGrid>,
    /// All ServiceGrids.
    pub service_grids: Store<ServiceGrid>,
    /// Deployments with a grid's label.
    pub deployments: Children,
    /// StatefulSets with a grid's label.
    pub stateful_sets: Children,
    /// Services with a grid's label.
    pub services: Children,
    /// Namespaces of member clusters, without anything but their metadata.
    pub members: Store<PartialObjectMeta<Namespace>>,
    /// Leases by which members are heard of.
    pub member_leases: Store<Lease>,
    /// How units lost their last node.
    pub departures: Departures,
}

impl Caches {
    /// The label keys that grids of workloads make units of, or that decide whether a member has a grid.
    pub fn unit_keys(&self) -> BTreeSet<String> {
        let deployments = self.deployment_grids.state().into_iter();
        let stateful_sets = self.stateful_set_grids.state().into_iter();
        let mirrors = self.service_grids.state().into_iter();
        let mirrors = mirrors.filter(|grid| is_mirror(&grid.metadata));
        deployments
            .filter_map(|grid| grid.spec.grid_uniq_key.clone())
            .chain(stateful_sets.filter_map(|grid| grid.spec.grid_uniq_key.clone()))
            .chain(mirrors.filter_map(|grid| grid.spec.grid_uniq_key.clone()))
            .collect()
    }

    /// The units that a label key makes: its distinct values over all Nodes, empty ones left out.
    pub fn units(&self, key: &str) -> BTreeSet<String> {
        self.nodes
            .state()
            .iter()
            .filter_map(|node| node.metadata.labels.as_ref()?.get(key))
            .filter(|unit| !unit.is_empty())
            .cloned()
            .collect()
    }
}

/// Who should be looked at, by kind.
#[derive(Clone, Default)]
pub struct Queues {
    /// Nodes.
    pub nodes: Queue,
    /// NodeUnits.
    pub node_units: Queue,
    /// NodeGroups.
    pub node_groups: Queue,
    /// DeploymentGrids.
    pub deployment_grids: Queue,
    /// StatefulSetGrids.
    pub stateful_set_grids: Queue,
    /// ServiceGrids.
    pub service_grids: Queue,
    /// What federation does about grids and members.
    pub federation: FederationQueues,
}

impl Queues {
    /// Takes no more work, so that every controller ends once its running passes have.
    pub fn close(&self) {
        let Self {
            nodes,
            node_units,
            node_groups,
            deployment_grids,
            stateful_set_grids,
            service_grids,
            federation,
        } = self;
        federation.close();
        for queue in [
            nodes,
            node_units,
            node_groups,
            deployment_grids,
            stateful_set_grids,
            service_grids,
        ] {
            queue.close();
        }
    }
}
