//! Reconciles a DeploymentGrid or StatefulSetGrid.
//!
//! ```text
//! caches ─► gather ─► decide ─(some name unknown)─► reserve and scan names, decide again
//!                        └─► execute ─► what failed, events, status ─► when to reconcile again
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_plan::failure::{Attempt, Failure, REMOVAL_ATTEMPT};
use edgegrid_plan::federation::is_copy;
use edgegrid_plan::federation::status::{About, merge};
use edgegrid_plan::grid::Grid;
use edgegrid_plan::grid_state::{Decision, State};
use edgegrid_plan::grid_status::Written;
use edgegrid_plan::ownership::Owner;
use edgegrid_plan::unit_names::object_name;
use edgegrid_plan::workload_grid::decide;
use edgegrid_plan::{Plan, Step, grid_status, report};
use edgegrid_runtime::executor::WriteError;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::reflector::ObjectRef;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::caches::Caches;
use crate::children::Children;
use crate::context::Context;
use crate::error::Error;
use crate::execute::{Outcomes, target};
use crate::federated_grid::FederatedGrid;
use crate::federation;
use crate::gather::{Foreign, Gathered};
use crate::grid_memory::{Memories, Memory, refusal};
use crate::name_scan::{Scan, scan_names};
use crate::notify::Notifier;
use crate::queue::{ObjectKey, Queue, key};
use crate::reservations::{Reservations, Reserved};

/// A pass that found another grid about to take the same name comes back this soon.
const RESERVED_BY_OTHERS: Duration = Duration::from_secs(1);

/// What differs between the two kinds of grids.
pub(crate) trait WorkloadGrid: FederatedGrid
where
    for<'a> Grid: From<&'a Self>,
{
    /// Type of its status.
    type Status: DeserializeOwned + PartialEq + Send;
    /// Source of its Events, and the name of its controller.
    const COMPONENT: &'static str;

    /// The status that the cache shows.
    fn status(&self) -> Option<&Self::Status>;
    /// The grid but for its status.
    fn without_status(&self) -> Self;
    /// The units that a status shows.
    fn units(status: &Self::Status) -> Vec<String>;
    /// The conditions of a status.
    fn conditions(status: &Self::Status) -> &[Condition];
    /// Cache of the workloads of its kind.
    fn children(caches: &Caches) -> &Children;
    /// Queue of the grids of its kind.
    fn queue(context: &Context) -> &Queue;
}

/// What all passes of one controller share.
#[derive(Clone)]
struct Shared {
    context: Context,
    memories: Memories,
    reservations: Reservations,
    notifier: Notifier,
}

/// Reconciles grids of one kind until their queue is closed.
pub(crate) async fn run<K: WorkloadGrid>(context: &Context)
where
    for<'a> Grid: From<&'a K>,
{
    let executor = context.execution.executor.clone();
    let shared = Shared {
        context: context.clone(),
        memories: Memories::default(),
        reservations: Reservations::default(),
        notifier: Notifier::new(context.client.clone(), executor, K::COMPONENT),
    };
    let reconcile = |object: Arc<K>| {
        let shared = shared.clone();
        async move { shared.reconcile(object).await }
    };
    crate::controller::run(
        K::COMPONENT,
        K::store(&context.caches).clone(),
        K::queue(context).clone(),
        context.metrics.clone(),
        reconcile,
    )
    .await;
}

impl Shared {
    async fn reconcile<K: WorkloadGrid>(&self, object: Arc<K>) -> Result<Option<Duration>, Error>
    where
        for<'a> Grid: From<&'a K>,
    {
        if is_copy(object.meta()) {
            return Ok(None); // only the member it is for makes workloads of it
        }
        let grid = Grid::from(&*object);
        let own_key = key(&*object);
        let mut memory = self.memories.take(&own_key, grid.uid());
        let done = self.reconcile_with(&object, &grid, &mut memory).await;
        let store = K::store(&self.context.caches);
        self.memories.put(own_key, memory, |(namespace, name)| {
            store.get(&ObjectRef::new(name).within(namespace)).is_some()
        });
        done
    }

    async fn reconcile_with<K: WorkloadGrid>(
        &self,
        object: &K,
        grid: &Grid,
        memory: &mut Memory,
    ) -> Result<Option<Duration>, Error>
    where
        for<'a> Grid: From<&'a K>,
    {
        let now = (self.context.clock)();
        let mut gathered = Gathered::new(&self.context, K::children(&self.context.caches), grid);
        let known = memory
            .known
            .take()
            .unwrap_or_else(|| reported(object, grid));
        let decided = self.decide::<K>(grid, &mut gathered, memory, &known).await;
        let (mut decision, reserved) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                memory.known = Some(known);
                return Err(error);
            }
        };
        let plan = std::mem::take(&mut decision.plan);
        let (notices, recheck) = (plan.notices.clone(), plan.recheck);
        let scopes = plan.steps.keys().cloned();
        decision.plan.steps = scopes.map(|scope| (scope, Vec::new())).collect();
        let deletions = deletions(&plan);
        let outcomes = self.context.execution.run(plan).await;
        drop(reserved);
        let results = record_outcomes(memory, &decision, outcomes, now);
        record_deletions(memory, deletions, &results.done, &gathered);
        memory.known = Some(owned_names(memory, (grid, &gathered), &decision, &results));
        self.publish_events(object, &decision, memory, (notices, &results.done))
            .await;
        let wait = self.write_status(object, grid, &decision, memory).await?;
        results
            .templates
            .map_or(Ok(()), |error| Err(Error::Templates(error)))?;
        Ok(
            [recheck, gathered.cache_wait, wait, next_retry(memory, now)]
                .into_iter()
                .flatten()
                .min(),
        )
    }

    /// Decides, and where it is not known who has a name, scans the names first.
    async fn decide<K: WorkloadGrid>(
        &self,
        grid: &Grid,
        gathered: &mut Gathered,
        memory: &mut Memory,
        known: &BTreeSet<String>,
    ) -> Result<(Decision, Option<Reserved>), Error>
    where
        for<'a> Grid: From<&'a K>,
    {
        let now = (self.context.clock)();
        let foreign = Foreign {
            is_complete: false,
            names: memory.foreign(),
        };
        let first = decide(grid, &gathered.world(memory, known, foreign), now);
        if !first.needs_name_scan {
            return Ok((first, None));
        }
        let unknown = first
            .units
            .values()
            .filter(|unit| unit.state == State::Unknown);
        let unknown: BTreeSet<String> = unknown.map(|unit| unit.name.clone()).collect();
        let own: ObjectKey = (grid.namespace().to_owned(), grid.name().to_owned());
        let (reserved, refused) = self
            .reservations
            .reserve(&own, unknown.iter().map(|name| grid.child(name)).collect());
        let selector = grid.selector_value();
        let owner = Owner {
            uid: grid.uid(),
            selector: &selector,
        };
        let scan = Scan {
            kind: grid.workload.kind(),
            namespace: grid.namespace(),
            owner,
            labelled: K::children(&self.context.caches),
            wanted: &unknown,
        };
        let scanned = scan_names(&self.context.client, scan).await?;
        gathered.add_children(&self.context, grid, scanned.uncached);
        gathered
            .pending
            .extend(refused.iter().map(|id| id.name.clone()));
        // For what the caches show, they are newer.
        let mut foreign = scanned.names.foreign.clone();
        foreign.retain(|name, _| unknown.contains(name));
        memory.set_foreign(foreign);
        let foreign = Foreign {
            is_complete: true,
            names: scanned.names.foreign,
        };
        let world = gathered.world(memory, known, foreign);
        let mut decision = decide(grid, &world, now);
        if !refused.is_empty() {
            decision.plan.recheck_after(RESERVED_BY_OTHERS);
        }
        Ok((decision, Some(reserved)))
    }

    async fn publish_events<K: WorkloadGrid>(
        &self,
        object: &K,
        decision: &Decision,
        memory: &Memory,
        (mut notices, done): (Vec<edgegrid_plan::Notice>, &BTreeSet<String>),
    ) where
        for<'a> Grid: From<&'a K>,
    {
        let now = (self.context.clock)();
        let problems = grid_status::problems(decision, &memory.failures, now);
        notices.extend(report::warnings(decision, &problems));
        notices.extend(report::summary(decision, done));
        let about = object.object_ref(&());
        self.notifier.notify(&key(object), &about, &notices).await;
    }

    /// Writes the status if it is another one, and returns how long it has to wait.
    async fn write_status<K: WorkloadGrid>(
        &self,
        object: &K,
        grid: &Grid,
        decision: &Decision,
        memory: &mut Memory,
    ) -> Result<Option<Duration>, Error>
    where
        for<'a> Grid: From<&'a K>,
    {
        let reports = federation::member_reports::<K>(&self.context, &grid.metadata);
        if grid.metadata.deletion_timestamp.is_some() && reports.is_none() {
            return Ok(None);
        }
        let now = (self.context.clock)();
        let size = grid_status::bytes(&object.without_status());
        let earlier = object.status().map_or(&[][..], K::conditions);
        let written = Written {
            size,
            conditions: earlier,
        };
        let mut status = grid_status::status(grid, decision, &memory.failures, written, now);
        let about = About {
            metadata: &grid.metadata,
            earlier,
            now,
        };
        if let Some(reports) = reports {
            merge(&mut status, about, &reports, size);
        }
        federation::set_link_condition::<K>(&self.context, about, &mut status.conditions);
        let bytes = size + grid_status::bytes(&status);
        // A thousand units' states are large: never more than one copy besides the grid's own.
        let status = serde_json::to_value(status).map_err(Error::Build)?;
        if object.status() == Some(&K::Status::deserialize(&status).map_err(Error::Build)?) {
            return Ok(None);
        }
        if let Some(wait) = memory.status_wait() {
            return Ok(Some(wait));
        }
        let manager = edgegrid_api::names::manager::EDGEGRID;
        let body = Value::Object([("status".to_owned(), status)].into_iter().collect());
        let executor = &self.context.execution.executor;
        executor
            .apply_status(&target(&grid.id()), &body, manager, Some(grid.uid()))
            .await
            .map_err(Error::Status)?;
        memory.wrote(bytes);
        Ok(None)
    }
}

/// Names of the workloads that the grid's status shows, which is all that is known after a start.
fn reported<K: WorkloadGrid>(object: &K, grid: &Grid) -> BTreeSet<String>
where
    for<'a> Grid: From<&'a K>,
{
    let units = object.status().map(K::units).unwrap_or_default();
    let name = |unit: String| object_name(grid.workload, grid.name(), &unit);
    units.into_iter().map(name).collect()
}

/// Unit and uid of every object that a plan deletes.
fn deletions(plan: &Plan) -> Vec<(String, String)> {
    let units = plan
        .steps
        .iter()
        .filter_map(|(scope, steps)| Some((scope.unit()?, steps)));
    units
        .flat_map(|(unit, steps)| steps.iter().map(move |step| (unit, step)))
        .filter_map(|(unit, step)| match step {
            Step::Delete { uid, .. } => Some((unit.to_owned(), uid.clone())),
            _ => None,
        })
        .collect()
}

/// Remembers the uids of deleted objects for as long as the cache still shows them.
fn record_deletions(
    memory: &mut Memory,
    deletions: Vec<(String, String)>,
    done: &BTreeSet<String>,
    gathered: &Gathered,
) {
    let deleted = deletions
        .into_iter()
        .filter(|(unit, _)| done.contains(unit));
    memory.deleted.extend(deleted.map(|(_, uid)| uid));
    let is_shown = |uid: &String| {
        let mut children = gathered.children.iter();
        children.any(|child| child.metadata.uid.as_ref() == Some(uid))
    };
    memory.deleted.retain(is_shown);
}

/// Names of the grid's objects, so that one is missed when no cache shows it any more.
fn owned_names(
    memory: &Memory,
    (grid, gathered): (&Grid, &Gathered),
    decision: &Decision,
    results: &Results,
) -> BTreeSet<String> {
    let new = decision
        .units
        .iter()
        .filter(|(unit, state)| state.state == State::New && results.done.contains(*unit))
        .map(|(_, state)| state.name.clone());
    let mut known = gathered.owned(grid, &memory.deleted);
    known.extend(new);
    known
}

/// How the writes of a pass went.
struct Results {
    /// Units whose writes worked.
    done: BTreeSet<String>,
    /// Why unused templates could not be removed.
    templates: Option<WriteError>,
}

/// Remembers what failed and what is settled.
fn record_outcomes(
    memory: &mut Memory,
    decision: &Decision,
    outcomes: Outcomes,
    now: Timestamp,
) -> Results {
    memory
        .failures
        .retain(|scope, failure| decision.still_fails(scope, failure, now));
    memory.settled.clone_from(&decision.settled);
    let mut results = Results {
        done: BTreeSet::new(),
        templates: None,
    };
    for (scope, outcome) in outcomes {
        let error = match outcome {
            Ok(()) => {
                memory.failures.remove(&scope);
                results.done.extend(scope.unit().map(str::to_owned));
                continue;
            }
            Err(error) => error,
        };
        let Some(refusal) = refusal(&error) else {
            continue;
        };
        let Some(unit) = scope.unit() else {
            results.templates = Some(error);
            continue;
        };
        let unit = decision.units.get(unit);
        let tried = Attempt {
            hash: unit.map_or(REMOVAL_ATTEMPT, |unit| &unit.attempt_hash),
            object_existed: unit.is_none_or(|unit| unit.child.is_some()),
        };
        let failure = Failure::after(memory.failures.get(&scope), &refusal, tried, now);
        memory.failures.insert(scope, failure);
    }
    results
}

/// When the first of the failed units is tried again.
fn next_retry(memory: &Memory, now: Timestamp) -> Option<Duration> {
    let failures = memory.failures.values();
    failures.filter_map(|failure| failure.remaining(now)).min()
}
