//! Keeps a mirror of every copy that the control cluster shows this member, and tells it how things stand here.

use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::names::{manager, reason};
use edgegrid_plan::failure::Trouble;
use edgegrid_plan::federation::mirror::{self, Decision};
use edgegrid_plan::federation::report::{Standing, status};
use edgegrid_plan::federation::{GridObject, is_from_control, target};
use edgegrid_plan::grid_status;
use edgegrid_runtime::executor::WriteError;
use kube::runtime::reflector::{ObjectRef, Store};
use serde_json::{Value, json};

use super::session::Parent;
use super::{FederatedGrid, object, stored};
use crate::context::Context;
use crate::controller;
use crate::execute;
use crate::grid_memory::{Memories, Memory};
use crate::queue::key;

/// What all passes share.
#[derive(Clone)]
struct Shared<K: FederatedGrid> {
    context: Context,
    parent: Parent,
    memories: Memories,
    copies: Store<K>,
}

/// Passes over the copies of one kind, until the queue is closed or the link is dropped.
pub(super) async fn run<K: FederatedGrid>(context: &Context, parent: &Parent, copies: Store<K>) {
    let shared = Shared {
        context: context.clone(),
        parent: parent.clone(),
        memories: Memories::default(),
        copies: copies.clone(),
    };
    let pass = |copy: Arc<K>| {
        let shared = shared.clone();
        async move { shared.pass(&copy).await }
    };
    let queue = K::federation_queues(&context.queues).copies.clone();
    controller::run("mirrors", copies, queue, context.metrics.clone(), pass).await;
}

impl<K: FederatedGrid> Shared<K> {
    async fn pass(&self, seen: &K) -> Result<Option<Duration>, WriteError> {
        let context = &self.context;
        let copy = object(seen);
        let id = mirror::id(&copy);
        let place = (id.namespace.clone().unwrap_or_default(), id.name.clone());
        let kept = stored::<K>(context, &place);
        let revision = kept
            .as_ref()
            .and_then(|kept| kept.meta().resource_version.as_deref());
        if let Some(wait) = context.execution.writes.behind(&id, revision) {
            return Ok(Some(wait));
        }
        let kept = kept.map(|kept| object(&*kept));
        let local = target(&copy.metadata).and_then(|at| stored::<K>(context, &at));
        let local = local
            .map(|local| object(&*local))
            .filter(|local| is_from_control(&local.metadata));
        let taken;
        let standing = match mirror::decide(&copy, kept.as_ref(), local.is_some()) {
            Decision::Write(steps) => {
                context.execution.run_in_order(&steps).await?;
                return Ok(None);
            }
            Decision::Removing | Decision::Unclear => return Ok(None),
            Decision::Removed => Some(Standing::Removed),
            Decision::Taken => {
                taken = Trouble::new(
                    reason::NAME_TAKEN,
                    format!("{id} exists in the member and is not a copy: delete or rename it"),
                );
                Some(Standing::Held(&taken))
            }
            Decision::Settled => {
                let held = context.federation.held.of(K::KIND, &place);
                return self
                    .settled(
                        seen,
                        (&copy, kept.as_ref(), local.as_ref()),
                        held.into_values().next(),
                    )
                    .await;
            }
        };
        self.report(seen, (&copy, kept.as_ref()), standing).await
    }

    /// Tells how the member's grid stands.
    async fn settled(
        &self,
        seen: &K,
        (copy, kept, local): (&GridObject, Option<&GridObject>, Option<&GridObject>),
        held: Option<Trouble>,
    ) -> Result<Option<Duration>, WriteError> {
        let has_units = copy
            .grid_key()
            .is_some_and(|key| !self.context.caches.units(key).is_empty());
        let standing = match (local, &held) {
            (_, Some(trouble)) => Some(Standing::Held(trouble)),
            (Some(local), None) => Some(Standing::Has(local)),
            (None, None) if !has_units => Some(Standing::NoUnits),
            (None, None) => None,
        };
        self.report(seen, (copy, kept), standing).await
    }

    /// Writes the status of the copy if it is another one, and says how long it has to wait.
    async fn report(
        &self,
        seen: &K,
        (copy, kept): (&GridObject, Option<&GridObject>),
        standing: Option<Standing<'_>>,
    ) -> Result<Option<Duration>, WriteError> {
        let now = (self.context.clock)();
        let Some(standing) = standing else {
            return Ok(None);
        };
        let Some(wanted) = status(copy, kept, &standing, now) else {
            return Ok(None);
        };
        let own = key(seen);
        let uid = copy.metadata.uid.clone().unwrap_or_default();
        let mut memory = self.memories.take(&own, &uid);
        let done = self.write(copy, (&standing, &wanted), &mut memory).await;
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
        (standing, wanted): (&Standing<'_>, &Value),
        memory: &mut Memory,
    ) -> Result<Option<Duration>, WriteError> {
        if as_read::<K>(wanted) == copy.status {
            return Ok(None);
        }
        let unrest = seen_as(standing).and_then(|of| memory.report_wait(&of));
        if let Some(wait) = unrest.max(memory.status_wait()) {
            return Ok(Some(wait));
        }
        let uid = copy.metadata.uid.as_deref();
        let body = json!({ "status": wanted });
        let place = execute::target(&copy.id());
        self.parent
            .executor
            .apply_status(&place, &body, manager::MEMBER, uid)
            .await?;
        memory.wrote(grid_status::bytes(wanted));
        Ok(None)
    }
}

/// Tells one report from another; `None` if nothing can follow that should be waited for.
fn seen_as(standing: &Standing<'_>) -> Option<String> {
    match standing {
        Standing::Has(grid) => grid.metadata.resource_version.clone(),
        Standing::NoUnits => Some(reason::NO_UNITS.to_owned()),
        Standing::Held(trouble) => Some(format!("{}: {}", trouble.reason, trouble.message)),
        Standing::Removed => None,
    }
}

/// A status as it comes back from the API server.
fn as_read<K: FederatedGrid>(status: &Value) -> Value {
    let grid = json!({ "metadata": {}, "spec": {}, "status": status });
    let grid: Result<K, _> = serde_json::from_value(grid);
    grid.map(|grid| object(&grid).status).unwrap_or_default()
}
