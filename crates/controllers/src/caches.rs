//! Everything that the watches show, for every controller to read.

use std::collections::BTreeSet;

use edgegrid_api::{DeploymentGrid, NodeGroup, NodeUnit, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::PrunedNode;
use edgegrid_plan::federation::is_mirror;
use edgegrid_plan::unreachable::UnreachableNode;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::Store;

use crate::children::Children;
use crate::vanished_units::VanishedUnits;

/// One cache per kind.
#[derive(Clone)]
pub struct Caches {
    /// All Nodes, without what no plan reads.
    pub nodes: Store<PrunedNode>,
    /// NodeUnits of the whole cluster.
    pub node_units: Store<NodeUnit>,
    /// NodeGroups of the whole cluster.
    pub node_groups: Store<NodeGroup>,
    /// DeploymentGrids of all namespaces; originals, copies and mirrors, too.
    pub deployment_grids: Store<DeploymentGrid>,
    /// StatefulSetGrids of all namespaces; originals, copies and mirrors, too.
    pub stateful_set_grids: Store<StatefulSetGrid>,
    /// ServiceGrids of all namespaces; originals, copies and mirrors, too.
    pub service_grids: Store<ServiceGrid>,
    /// Deployments with a grid's label.
    pub deployments: Children,
    /// StatefulSets with a grid's label.
    pub stateful_sets: Children,
    /// Services with a grid's label.
    pub services: Children,
    /// Namespaces of member clusters, without anything but their metadata.
    pub members: Store<PartialObjectMeta<Namespace>>,
    /// Leases that members renew.
    pub member_leases: Store<Lease>,
    /// How units lost their last node.
    pub vanished_units: VanishedUnits,
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

    /// The nodes with a label key that the cluster no longer reaches.
    pub fn unreachable(&self, key: &str) -> Vec<UnreachableNode> {
        self.nodes
            .state()
            .iter()
            .filter_map(|node| {
                let since = node.unreachable_since()?;
                let unit = node.metadata.labels.as_ref()?.get(key)?;
                Some(UnreachableNode {
                    unit: unit.clone(),
                    node: node.metadata.name.clone()?,
                    since,
                })
            })
            .filter(|node| !node.unit.is_empty())
            .collect()
    }
}
