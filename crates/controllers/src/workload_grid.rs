//! One pass over a DeploymentGrid or StatefulSetGrid.
//!
//! ```text
//! caches ─► gather ─► decide ─(some name unknown)─► reserve, look, decide again
//!                        └─► execute ─► what failed, events, status ─► when to look again
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_plan::claims::Owner;
use edgegrid_plan::departure::REMOVAL;
use edgegrid_plan::failure::Failure;
use edgegrid_plan::federation::is_copy;
use edgegrid_plan::federation::status::{About, merge};
use edgegrid_plan::grid::Grid;
use edgegrid_plan::units::object_name;
use edgegrid_plan::workload_grid::{Decision, State, decide};
use edgegrid_plan::{Plan, Step, grid_status, report};
use edgegrid_runtime::executor::WriteError;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::reflector::ObjectRef;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::children::Children;
use crate::context::{Caches, Context};
use crate::execute::{Outcomes, target};
use crate::federation::{self, FederatedGrid};
use crate::gather::Gathered;
use crate::grid_memory::{Memories, Memory, refusal};
use crate::look::{LookError, look};
use crate::notify::Notifier;
use crate::queue::{Key, Queue, key};
use crate::reservations::{Reservations, Reserved};

/// A pass that found another grid about to take the same name comes back this soon.
const RESERVED_BY_OTHERS: Duration = Duration::from_secs(1);

/// What differs between the two kinds of grids.
pub(crate) trait WorkloadGrid: FederatedGrid
where
    for<'a> Grid: From<&'a Self>,
{
    /// Its status.
    type Status: DeserializeOwned + PartialEq + Send;
    /// Source of its events.
    const COMPONENT: &'static str;

    /// The status it has.
    fn status(&self) -> Option<&Self::Status>;
    /// Takes the status out.
    fn without_status(&self) -> Self;
    /// The units that a status shows.
    fn units(status: &Self::Status) -> Vec<String>;
    /// The conditions of a status.
    fn conditions(status: &Self::Status) -> &[Condition];
    /// Where its children are kept.
    fn children(caches: &Caches) -> &Children;
    /// Who of its kind should be looked at.
    fn queue(context: &Context) -> &Queue;
}

/// Why a pass could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Look(#[from] LookError),
    #[error("drop unused templates")]
    Templates(#[source] WriteError),
    #[error("write the status")]
    Status(#[source] WriteError),
    #[error("build the status")]
    Build(#[source] serde_json::Error),
}

/// What all passes of one controller share.
#[derive(Clone)]
struct Shared {
    context: Context,
    memories: Memories,
    reservations: Reservations,
    notifier: Notifier,
}

/// Passes over grids of one kind until their queue is closed.
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
    let pass = |object: Arc<K>| {
        let shared = shared.clone();
        async move { shared.pass(object).await }
    };
    crate::controller::run(
        K::COMPONENT,
        K::store(&context.caches).clone(),
        K::queue(context).clone(),
        context.metrics.clone(),
        pass,
    )
    .await;
}

impl Shared {
    async fn pass<K: WorkloadGrid>(&self, object: Arc<K>) -> Result<Option<Duration>, Error>
    where
        for<'a> Grid: From<&'a K>,
    {
        if is_copy(object.meta()) {
            return Ok(None); // stamped where it is sent to
        }
        let grid = Grid::from(&*object);
        let own_key = key(&*object);
        let mut memory = self.memories.take(&own_key, grid.uid());
        let done = self.pass_with(&object, &grid, &mut memory).await;
        let store = K::store(&self.context.caches);
        self.memories.put(own_key, memory, |(namespace, name)| {
            store.get(&ObjectRef::new(name).within(namespace)).is_some()
        });
        done
    }

    async fn pass_with<K: WorkloadGrid>(
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
        let decided = self
            .decide::<K>(grid, &mut gathered, (memory, &known), now)
            .await;
        let (mut decision, reserved) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                memory.known = Some(known);
                return Err(error);
            }
        };
        let plan = std::mem::take(&mut decision.plan);
        let (notices, recheck) = (plan.notices.clone(), plan.recheck);
        let steps = plan.units.keys().map(|unit| (unit.clone(), Vec::new()));
        decision.plan.units = steps.collect();
        let deletions = deletions(&plan);
        let outcomes = self.context.execution.run(plan).await;
        drop(reserved);
        let learnt = learn(memory, &decision, outcomes, now);
        remember(
            memory,
            (grid, &gathered),
            &decision,
            (deletions, &learnt.done),
        );
        self.tell(object, &decision, memory, (notices, &learnt.done))
            .await;
        let wait = self.report(object, grid, &decision, memory).await?;
        learnt
            .failure
            .map_or(Ok(()), |error| Err(Error::Templates(error)))?;
        Ok([recheck, gathered.patience, wait, next_try(memory, now)]
            .into_iter()
            .flatten()
            .min())
    }

    /// Decides, and where names are not known looks at them first.
    async fn decide<K: WorkloadGrid>(
        &self,
        grid: &Grid,
        gathered: &mut Gathered,
        (memory, known): (&mut Memory, &BTreeSet<String>),
        now: Timestamp,
    ) -> Result<(Decision, Option<Reserved>), Error>
    where
        for<'a> Grid: From<&'a K>,
    {
        let labelled = K::children(&self.context.caches);
        let foreign = memory.foreign();
        let first = decide(grid, &gathered.world(memory, known, (false, foreign)), now);
        if !first.needs_look {
            return Ok((first, None));
        }
        let unknown = first
            .units
            .values()
            .filter(|unit| unit.state == State::Unknown);
        let unknown: BTreeSet<String> = unknown.map(|unit| unit.name.clone()).collect();
        let own: Key = (grid.namespace().to_owned(), grid.name().to_owned());
        let (reserved, refused) = self
            .reservations
            .reserve(&own, unknown.iter().map(|name| grid.child(name)).collect());
        let selector = grid.selector_value();
        let owner = Owner {
            uid: grid.uid(),
            selector: &selector,
        };
        let place = (grid.workload.kind(), grid.namespace());
        let looked = look(&self.context.client, place, owner, (labelled, &unknown)).await?;
        gathered
            .children
            .extend(looked.unseen.into_iter().map(Arc::new));
        gathered
            .pending
            .extend(refused.iter().map(|id| id.name.clone()));
        // Of what the caches show they tell more, and sooner.
        let mut foreign = looked.seen.foreign.clone();
        foreign.retain(|name, _| unknown.contains(name));
        memory.looked(foreign);
        let world = gathered.world(memory, known, (true, looked.seen.foreign));
        let mut decision = decide(grid, &world, now);
        if !refused.is_empty() {
            decision.plan.recheck_after(RESERVED_BY_OTHERS);
        }
        Ok((decision, Some(reserved)))
    }

    async fn tell<K: WorkloadGrid>(
        &self,
        object: &K,
        decision: &Decision,
        memory: &Memory,
        (mut notices, done): (Vec<edgegrid_plan::Notice>, &BTreeSet<String>),
    ) where
        for<'a> Grid: From<&'a K>,
    {
        let now = (self.context.clock)();
        let troubles = grid_status::troubles(decision, &memory.failures, now);
        notices.extend(report::warnings(decision, &troubles));
        notices.extend(report::summary(decision, done));
        let about = object.object_ref(&());
        self.notifier.notify(&key(object), &about, &notices).await;
    }

    /// Writes the status if it is another one, and says how long it has to wait.
    async fn report<K: WorkloadGrid>(
        &self,
        object: &K,
        grid: &Grid,
        decision: &Decision,
        memory: &mut Memory,
    ) -> Result<Option<Duration>, Error>
    where
        for<'a> Grid: From<&'a K>,
    {
        let reports = federation::reports::<K>(&self.context, &grid.metadata);
        if grid.metadata.deletion_timestamp.is_some() && reports.is_none() {
            return Ok(None);
        }
        let now = (self.context.clock)();
        let size = grid_status::bytes(&object.without_status());
        let earlier = object.status().map_or(&[][..], K::conditions);
        let mut status =
            grid_status::status(grid, (decision, &memory.failures), (size, earlier), now);
        let about = About {
            metadata: &grid.metadata,
            earlier,
            now,
        };
        if let Some(reports) = reports {
            merge(&mut status, about, &reports, size);
        }
        federation::say_link::<K>(&self.context, about, &mut status.conditions);
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
    let steps = plan
        .units
        .iter()
        .flat_map(|(unit, steps)| steps.iter().map(move |step| (unit, step)));
    steps
        .filter_map(|(unit, step)| match step {
            Step::Delete { uid, .. } => Some((unit.clone(), uid.clone())),
            _ => None,
        })
        .collect()
}

/// Remembers which objects are the grid's, so that one is missed when no cache shows it any more.
fn remember(
    memory: &mut Memory,
    (grid, gathered): (&Grid, &Gathered),
    decision: &Decision,
    (deletions, done): (Vec<(String, String)>, &BTreeSet<String>),
) {
    let deleted = deletions
        .into_iter()
        .filter(|(unit, _)| done.contains(unit));
    memory.deleted.extend(deleted.map(|(_, uid)| uid));
    let shown = |uid: &String| {
        let mut children = gathered.children.iter();
        children.any(|child| child.metadata.uid.as_ref() == Some(uid))
    };
    memory.deleted.retain(shown);
    let new = decision
        .units
        .iter()
        .filter(|(unit, state)| state.state == State::New && done.contains(*unit))
        .map(|(_, state)| state.name.clone());
    let mut known = gathered.owned(grid, &memory.deleted);
    known.extend(new);
    memory.known = Some(known);
}

/// What a pass did.
struct Learnt {
    /// Units whose writes worked.
    done: BTreeSet<String>,
    /// Why unused templates could not be dropped.
    failure: Option<WriteError>,
}

/// Remembers what failed and what is settled.
fn learn(memory: &mut Memory, decision: &Decision, outcomes: Outcomes, now: Timestamp) -> Learnt {
    memory
        .failures
        .retain(|unit, failure| decision.still_fails(unit, failure, now));
    memory.judged.clone_from(&decision.judged);
    let mut learnt = Learnt {
        done: BTreeSet::new(),
        failure: None,
    };
    for (unit, outcome) in outcomes {
        let error = match outcome {
            Ok(()) => {
                memory.failures.remove(&unit);
                learnt.done.insert(unit);
                continue;
            }
            Err(error) => error,
        };
        let Some(refusal) = refusal(&error) else {
            continue;
        };
        if unit == Plan::WHOLE {
            learnt.failure = Some(error);
            continue;
        }
        let state = decision.units.get(&unit);
        let tried = state.map_or((REMOVAL, true), |unit| {
            (unit.of.as_str(), unit.child.is_some())
        });
        let failure = Failure::after(memory.failures.get(&unit), &refusal, tried, now);
        memory.failures.insert(unit, failure);
    }
    learnt
}

/// When the first of the failed units is tried again.
fn next_try(memory: &Memory, now: Timestamp) -> Option<Duration> {
    let failures = memory.failures.values();
    failures.filter_map(|failure| failure.remaining(now)).min()
}
