//! Keeps a mirror of every copy that the control cluster shows this member, and reports the status of the member's grid
//! back to the copy.

use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::names::{manager, reason};
use edgegrid_plan::failure::Problem;
use edgegrid_plan::federation::mirror::{self, Decision};
use edgegrid_plan::federation::report::{Standing, status};
use edgegrid_plan::federation::{GridObject, is_from_control, target};
use edgegrid_plan::grid_status;
use edgegrid_runtime::executor::WriteError;
use kube::runtime::reflector::{ObjectRef, Store};
use serde_json::{Value, json};

use super::control_cluster::ControlCluster;
use super::{cached, grid_object};
use crate::context::Context;
use crate::controller;
use crate::execute;
use crate::federated_grid::FederatedGrid;
use crate::grid_memory::{Memories, Memory};
use crate::queue::{ObjectKey, key};

/// What all passes share.
#[derive(Clone)]
struct Shared<K: FederatedGrid> {
    context: Context,
    control: ControlCluster,
    memories: Memories,
    copies: Store<K>,
}

/// Reconciles the copies of one kind, until the queue is closed or the link is dropped.
pub(super) async fn run<K: FederatedGrid>(
    context: &Context,
    control: &ControlCluster,
    copies: Store<K>,
) {
    let shared = Shared {
        context: context.clone(),
        control: control.clone(),
        memories: Memories::default(),
        copies: copies.clone(),
    };
    let reconcile = |copy: Arc<K>| {
        let shared = shared.clone();
        async move { shared.reconcile(&copy).await }
    };
    let queue = K::federation_queues(&context.queues).copies.clone();
    controller::run("mirrors", copies, queue, context.metrics.clone(), reconcile).await;
}

/// What the caches show of one copy.
struct CachedCopy {
    key: ObjectKey,
    copy: GridObject,
    mirror: Option<GridObject>,
    /// The member's own grid, if it came from the control cluster.
    local: Option<GridObject>,
}

/// How the member's grid stands, and the status of the copy that says so.
struct Report<'a> {
    standing: Standing<'a>,
    wanted: Value,
}

impl<K: FederatedGrid> Shared<K> {
    async fn reconcile(&self, seen: &K) -> Result<Option<Duration>, WriteError> {
        let context = &self.context;
        let copy = grid_object(seen);
        let id = mirror::id(&copy);
        let own = (id.namespace.clone().unwrap_or_default(), id.name.clone());
        let mirror = cached::<K>(context, &own);
        let revision = mirror
            .as_ref()
            .and_then(|mirror| mirror.meta().resource_version.as_deref());
        if let Some(wait) = context.execution.writes.behind(&id, revision) {
            return Ok(Some(wait));
        }
        let mirror = mirror.map(|mirror| grid_object(&*mirror));
        let local = target(&copy.metadata).and_then(|at| cached::<K>(context, &at));
        let local = local
            .map(|local| grid_object(&*local))
            .filter(|local| is_from_control(&local.metadata));
        let cached_copy = CachedCopy {
            key: key(seen),
            copy,
            mirror,
            local,
        };
        let taken;
        let standing = match mirror::decide(
            &cached_copy.copy,
            cached_copy.mirror.as_ref(),
            cached_copy.local.is_some(),
        ) {
            Decision::Write(steps) => {
                context.execution.run_in_order(&steps).await?;
                return Ok(None);
            }
            Decision::Removing | Decision::Unclear => return Ok(None),
            Decision::Removed => Standing::Removed,
            Decision::NameTaken => {
                taken = Problem::new(
                    reason::NAME_TAKEN,
                    format!(
                        "{id} exists in the member and is not a copy of this grid: delete or rename it"
                    ),
                );
                Standing::Blocked(&taken)
            }
            Decision::Settled => {
                let unapplied = context.federation.unapplied.get(K::KIND, &own);
                return self
                    .report_local(&cached_copy, unapplied.into_values().next())
                    .await;
            }
        };
        self.report(&cached_copy, standing).await
    }

    /// Reports how the member's grid stands.
    async fn report_local(
        &self,
        cached_copy: &CachedCopy,
        unapplied: Option<Problem>,
    ) -> Result<Option<Duration>, WriteError> {
        let has_units = cached_copy
            .copy
            .grid_key()
            .is_some_and(|key| !self.context.caches.units(key).is_empty());
        let standing = match (&cached_copy.local, &unapplied) {
            (_, Some(problem)) => Standing::Blocked(problem),
            (Some(local), None) => Standing::Has(local),
            (None, None) if !has_units => Standing::NoUnits,
            (None, None) => return Ok(None),
        };
        self.report(cached_copy, standing).await
    }

    /// Writes the status of the copy if it is another one, and returns how long it has to wait.
    async fn report(
        &self,
        cached_copy: &CachedCopy,
        standing: Standing<'_>,
    ) -> Result<Option<Duration>, WriteError> {
        let now = (self.context.clock)();
        let Some(wanted) = status(
            &cached_copy.copy,
            cached_copy.mirror.as_ref(),
            &standing,
            now,
        ) else {
            return Ok(None);
        };
        let uid = cached_copy.copy.metadata.uid.clone().unwrap_or_default();
        let mut memory = self.memories.take(&cached_copy.key, &uid);
        let report = Report { standing, wanted };
        let done = self.write(&cached_copy.copy, &report, &mut memory).await;
        let own = cached_copy.key.clone();
        self.memories.put(own, memory, |(namespace, name)| {
            self.copies
                .get(&ObjectRef::new(name).within(namespace))
                .is_some()
        });
        done
    }

    async fn write(
        &self,
        copy: &GridObject,
        report: &Report<'_>,
        memory: &mut Memory,
    ) -> Result<Option<Duration>, WriteError> {
        if as_read::<K>(&report.wanted) == copy.status {
            return Ok(None);
        }
        let debounce = report_id(&report.standing).and_then(|id| memory.report_wait(&id));
        if let Some(wait) = debounce.max(memory.status_wait()) {
            return Ok(Some(wait));
        }
        let uid = copy.metadata.uid.as_deref();
        let body = json!({ "status": report.wanted });
        let target = execute::target(&copy.id());
        self.control
            .executor
            .apply_status(&target, &body, manager::MEMBER, uid)
            .await?;
        memory.wrote(grid_status::bytes(&report.wanted));
        Ok(None)
    }
}

/// Tells one report from another; `None` if nothing can follow that should be waited for.
fn report_id(standing: &Standing<'_>) -> Option<String> {
    match standing {
        Standing::Has(grid) => grid.metadata.resource_version.clone(),
        Standing::NoUnits => Some(reason::NO_UNITS.to_owned()),
        Standing::Blocked(problem) => Some(format!("{}: {}", problem.reason, problem.message)),
        Standing::Removed => None,
    }
}

/// A status as it comes back from the API server.
fn as_read<K: FederatedGrid>(status: &Value) -> Value {
    let grid = json!({ "metadata": {}, "spec": {}, "status": status });
    let grid: Result<K, _> = serde_json::from_value(grid);
    grid.map(|grid| grid_object(&grid).status)
        .unwrap_or_default()
}
