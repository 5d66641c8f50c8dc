//! Keeps a copy of every federated grid in each member's namespace of the control cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::names::{finalizer, reason};
use edgegrid_plan::failure::Problem;
use edgegrid_plan::federation::copies::{
    Decision, Member, World, decide, render_copy, second_name,
};
use edgegrid_plan::federation::{
    GridObject, has_finalizer, is_copy, is_federated, is_mirror, stands_for,
};
use edgegrid_plan::{ObjectId, Plan, Scope, Step};
use edgegrid_runtime::executor::{Class, WriteError};
use kube::core::ObjectMeta;
use parking_lot::Mutex;
use serde_json::Value;

use super::{cached, copies_of, grid_object, members};
use crate::context::Context;
use crate::controller;
use crate::execute::Outcomes;
use crate::federated_grid::FederatedGrid;
use crate::queue::{ObjectKey, key};
use crate::reservations::Reservations;

/// A write that failed is tried again after this time.
const RETRY: Duration = Duration::from_secs(15);
/// One that another writer came before, after this.
const CONFLICT_RETRY: Duration = Duration::from_secs(1);

/// What all passes over one kind share.
#[derive(Clone)]
struct Shared {
    context: Context,
    reservations: Reservations,
    settled_copies: Arc<Mutex<BTreeMap<ObjectKey, SettledCopy>>>,
}

/// A copy that was found as wanted; a status that changes does not change that.
#[derive(Clone, Debug, PartialEq)]
struct SettledCopy {
    wanted: String,
    uid: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
}

impl SettledCopy {
    fn new(wanted: &str, metadata: &ObjectMeta) -> Self {
        Self {
            wanted: wanted.to_owned(),
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            labels: metadata.labels.clone(),
            annotations: metadata.annotations.clone(),
            finalizers: metadata.finalizers.clone(),
        }
    }
}

/// Reconciles the originals of one kind until its queue is closed.
pub(super) async fn run<K: FederatedGrid>(context: &Context) {
    let shared = Shared {
        context: context.clone(),
        reservations: Reservations::default(),
        settled_copies: Arc::default(),
    };
    let reconcile = |grid: Arc<K>| {
        let shared = shared.clone();
        async move { shared.reconcile(&*grid).await }
    };
    controller::run(
        "distribution",
        K::store(&context.caches).clone(),
        K::federation_queues(&context.queues).distribution.clone(),
        context.metrics.clone(),
        reconcile,
    )
    .await;
}

impl Shared {
    async fn reconcile<K: FederatedGrid>(&self, grid: &K) -> Result<Option<Duration>, WriteError> {
        let metadata = grid.meta();
        if is_mirror(metadata) {
            return Ok(None);
        }
        if is_copy(metadata) {
            return self.distribute_orphan(grid).await;
        }
        let at = key(grid);
        let copies = copies_of::<K>(&self.context, &at);
        let is_concerned = is_federated(metadata)
            || !copies.is_empty()
            || has_finalizer(metadata, finalizer::FEDERATED);
        if !is_concerned {
            return Ok(None);
        }
        let original = grid_object(grid);
        if let Some(wait) = self.behind(&original.id(), metadata) {
            return Ok(Some(wait));
        }
        self.distribute(&at, Some(&original), &copies).await
    }

    /// A copy whose original is not there: somebody took the finalizer off, and the grid is to go.
    async fn distribute_orphan<K: FederatedGrid>(
        &self,
        copy: &K,
    ) -> Result<Option<Duration>, WriteError> {
        let Some(at) = stands_for(copy.meta()) else {
            return Ok(None);
        };
        let original = cached::<K>(&self.context, &at);
        if original.is_some_and(|original| !is_copy(original.meta())) {
            return Ok(None);
        }
        self.distribute(&at, None, &[Arc::new(copy.clone())]).await
    }

    async fn distribute<K: FederatedGrid>(
        &self,
        at: &ObjectKey,
        original: Option<&GridObject>,
        copies: &[Arc<K>],
    ) -> Result<Option<Duration>, WriteError> {
        let members = members(&self.context);
        let digest = original.map(|original| render_copy(original, false).digest);
        let (world, cache_wait) = self.gather(at, (&members, copies), digest.as_deref());
        let mut decision = decide(K::KIND, at, original, &world);
        if let Some(digest) = &digest {
            self.record_settled(digest, &world, &decision);
        }
        let (_reserved, refused) = self.reservations.reserve(at, applied(&decision.plan));
        for id in &refused {
            let namespace = id.namespace.clone().unwrap_or_default();
            decision.plan.steps.remove(&Scope::Unit(namespace));
        }
        let recheck = decision.plan.recheck;
        let outcomes = self
            .context
            .execution
            .run(std::mem::take(&mut decision.plan))
            .await;
        let (problems, retry) = problems_and_retry(decision.problems, outcomes);
        if self
            .context
            .federation
            .undelivered
            .set(K::KIND, at, &problems)
        {
            K::own_queue(&self.context.queues).push(at.clone());
        }
        let race = (!refused.is_empty()).then_some(CONFLICT_RETRY);
        Ok([recheck, cache_wait, retry, race]
            .into_iter()
            .flatten()
            .min())
    }

    /// What the caches show, and how long to wait for them.
    fn gather<'a, K: FederatedGrid>(
        &self,
        at: &ObjectKey,
        (members, copies): (&'a BTreeMap<String, Member>, &[Arc<K>]),
        digest: Option<&str>,
    ) -> (World<'a>, Option<Duration>) {
        let mut world = World {
            members,
            copies: Vec::new(),
            settled: BTreeSet::new(),
            pending: BTreeSet::new(),
            taken: BTreeSet::new(),
        };
        let mut cache_wait: Option<Duration> = None;
        let mut wait_for = |namespace: &str, wait: Duration, pending: &mut BTreeSet<String>| {
            pending.insert(namespace.to_owned());
            cache_wait = Some(cache_wait.map_or(wait, |earlier| earlier.min(wait)));
        };
        let mut has_copy = BTreeSet::new();
        for copy in copies {
            let (namespace, name) = key(&**copy);
            let id = ObjectId::namespaced(K::KIND, &namespace, &name);
            if let Some(wait) = self.behind(&id, copy.meta()) {
                wait_for(&namespace, wait, &mut world.pending);
            }
            if digest.is_some_and(|digest| self.is_settled(digest, copy.meta())) {
                world.settled.insert(namespace.clone());
                world.copies.push(without_spec(&**copy));
            } else {
                world.copies.push(grid_object(&**copy));
            }
            has_copy.insert(namespace);
        }
        for namespace in members
            .keys()
            .filter(|namespace| !has_copy.contains(*namespace))
        {
            for name in [at.1.clone(), second_name(at)] {
                let own = (namespace.clone(), name);
                let id = ObjectId::namespaced(K::KIND, namespace, &own.1);
                let found = cached::<K>(&self.context, &own);
                let cached = found
                    .as_ref()
                    .and_then(|found| found.meta().resource_version.as_deref());
                if let Some(wait) = self.context.execution.writes.behind(&id, cached) {
                    wait_for(namespace, wait, &mut world.pending);
                }
                if found.is_some() {
                    world.taken.insert(own);
                }
            }
        }
        (world, cache_wait)
    }

    fn behind(&self, id: &ObjectId, metadata: &ObjectMeta) -> Option<Duration> {
        let cached = metadata.resource_version.as_deref();
        self.context.execution.writes.behind(id, cached)
    }

    fn is_settled(&self, digest: &str, metadata: &ObjectMeta) -> bool {
        let settled_copies = self.settled_copies.lock();
        let known = settled_copies.get(&edgegrid_plan::federation::key(metadata));
        metadata.deletion_timestamp.is_none()
            && known.is_some_and(|known| *known == SettledCopy::new(digest, metadata))
    }

    /// Remembers the copies that nothing has to be done about.
    fn record_settled(&self, digest: &str, world: &World<'_>, decision: &Decision) {
        let mut settled_copies = self.settled_copies.lock();
        for copy in &world.copies {
            let own = edgegrid_plan::federation::key(&copy.metadata);
            let is_left_alone = !decision
                .plan
                .steps
                .contains_key(&Scope::from(own.0.as_str()))
                && !world.pending.contains(&own.0)
                && copy.metadata.deletion_timestamp.is_none();
            if is_left_alone && !decision.plan.steps.contains_key(&Scope::Grid) {
                settled_copies.insert(own, SettledCopy::new(digest, &copy.metadata));
            } else {
                settled_copies.remove(&own);
            }
        }
    }
}

/// A copy of which only its metadata matters.
fn without_spec<K: FederatedGrid>(copy: &K) -> GridObject {
    GridObject {
        kind: K::KIND,
        metadata: copy.meta().clone(),
        spec: Value::Null,
        status: Value::Null,
    }
}

/// The objects that a plan applies.
fn applied(plan: &Plan) -> Vec<ObjectId> {
    let steps = plan.steps.values().flatten();
    steps
        .filter(|step| matches!(step, Step::Apply(_)))
        .map(|step| step.id().clone())
        .collect()
}

/// What keeps members from getting their copies, and when to try again.
fn problems_and_retry(
    mut problems: BTreeMap<Scope, Problem>,
    outcomes: Outcomes,
) -> (BTreeMap<Scope, Problem>, Option<Duration>) {
    let mut retry: Option<Duration> = None;
    for (scope, outcome) in outcomes {
        let Err(error) = outcome else { continue };
        let wait = match error.class {
            Class::Conflict(_) | Class::NotFound | Class::AlreadyExists => CONFLICT_RETRY,
            _ => {
                let problem = Problem::new(reason::REFUSED, error.to_string());
                problems.insert(scope, problem);
                RETRY
            }
        };
        retry = Some(retry.map_or(wait, |earlier| earlier.min(wait)));
    }
    (problems, retry)
}
