//! Keeps one StatefulSet per unit for every StatefulSetGrid.

use edgegrid_api::names::component;
use edgegrid_api::{StatefulSetGrid, StatefulSetGridStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::caches::Caches;
use crate::children::Children;
use crate::context::Context;
use crate::queue::Queue;
use crate::workload_grid::WorkloadGrid;

impl WorkloadGrid for StatefulSetGrid {
    type Status = StatefulSetGridStatus;
    const COMPONENT: &'static str = component::STATEFUL_SET_GRID;

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
        &caches.stateful_sets
    }

    fn queue(context: &Context) -> &Queue {
        &context.queues.stateful_set_grids
    }
}

/// Reconciles StatefulSetGrids until their queue is closed.
pub(crate) async fn run(context: &Context) {
    crate::workload_grid::run::<StatefulSetGrid>(context).await;
}
