//! The queues of all controllers: objects to reconcile, by kind.

use crate::queue::Queue;

/// Objects that a controller should reconcile, one queue per kind.
#[derive(Clone, Default)]
pub struct Queues {
    /// Nodes to label, taint or cordon.
    pub nodes: Queue,
    /// NodeUnits whose markers or status may differ.
    pub node_units: Queue,
    /// NodeGroups that may find other units.
    pub node_groups: Queue,
    /// DeploymentGrids whose workloads or status may differ.
    pub deployment_grids: Queue,
    /// StatefulSetGrids whose workloads or status may differ.
    pub stateful_set_grids: Queue,
    /// ServiceGrids whose Service or status may differ.
    pub service_grids: Queue,
    /// Grids to send to members, and the members.
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

/// The queues of federation for one kind of grid.
#[derive(Clone, Default)]
pub struct KindQueues {
    /// Originals, and copies that may have lost theirs.
    pub(crate) distribution: Queue,
    /// Mirrors, whose grids a member applies.
    pub(crate) mirrors: Queue,
    /// Copies in the control cluster, by their key there.
    pub(crate) copies: Queue,
}

/// The queues of federation.
#[derive(Clone, Default)]
pub struct FederationQueues {
    pub(crate) deployment_grids: KindQueues,
    pub(crate) stateful_set_grids: KindQueues,
    pub(crate) service_grids: KindQueues,
    /// Namespaces of members in the control cluster.
    pub(crate) members: Queue,
}

impl FederationQueues {
    /// Takes no more work, so that federation ends once its running passes have.
    pub(crate) fn close(&self) {
        for kind in [
            &self.deployment_grids,
            &self.stateful_set_grids,
            &self.service_grids,
        ] {
            kind.distribution.close();
            kind.mirrors.close();
            kind.copies.close();
        }
        self.members.close();
    }
}
