//! Keeps one Deployment per unit for every DeploymentGrid.

use edgegrid_api::names::component;
use edgegrid_api::{DeploymentGrid, DeploymentGridStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::caches::Caches;
use crate::children::Children;
use crate::context::Context;
use crate::queue::Queue;
use crate::workload_grid::WorkloadGrid;

impl WorkloadGrid for DeploymentGrid {
    type Status = DeploymentGridStatus;
    const COMPONENT: &'static str = component::DEPLOYMENT_GRID;

    fn status(&self) -> Option<&Self::Status> {
        self.status.as_ref()
    }

    fn without_status(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            spec: self.spec.clone(),
            status: None,
        }
    }

    fn units(status: &Self::Status) -> Vec<String> {
        status.states.keys().cloned().collect()
    }

    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn children(caches: &Caches) -> &Children {
        &caches.deployments
    }

    fn queue(context: &Context) -> &Queue {
        &context.queues.deployment_grids
    }
}

/// Reconciles DeploymentGrids until their queue is closed.
pub(crate) async fn run(context: &Context) {
    crate::workload_grid::run::<DeploymentGrid>(context).await;
}
