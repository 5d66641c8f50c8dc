//! Applies the mirrors in a member: the grid as its mirror says, drift put back, whether the control cluster is in reach
//! or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::names::reason;
use edgegrid_plan::failure::Problem;
use edgegrid_plan::federation::member_grid::{Decision, World, decide};
use edgegrid_plan::federation::{GridObject, is_mirror, mirror, target};
use edgegrid_plan::grid_state::VanishedUnit;
use edgegrid_plan::ownership::controller;
use edgegrid_plan::{Child, Notice, ObjectId, ObjectKind, Scope};
use edgegrid_runtime::executor::{Class, WriteError};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;

use super::{cached, grid_object, reactions};
use crate::context::Context;
use crate::federated_grid::FederatedGrid;
use crate::notify::Notifier;
use crate::queue::{ObjectKey, key};
use crate::vanished_units::Vanished;

/// Why a pass could not be made.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("read namespace {name}")]
    Namespace {
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What all passes share.
#[derive(Clone)]
struct Shared {
    context: Context,
    notifier: Notifier,
}

/// Reconciles the mirrors of one kind until the queue is closed.
pub(super) async fn run<K: FederatedGrid>(context: &Context) {
    let executor = context.execution.executor.clone();
    let shared = Shared {
        context: context.clone(),
        notifier: Notifier::new(context.client.clone(), executor, K::FEDERATION),
    };
    let reconcile = |mirror: Arc<K>| {
        let shared = shared.clone();
        async move { shared.reconcile(&*mirror).await }
    };
    let queue = K::federation_queues(&context.queues).mirrors.clone();
    let store = K::store(&context.caches).clone();
    crate::controller::run(
        "member_grids",
        store,
        queue,
        context.metrics.clone(),
        reconcile,
    )
    .await;
}

impl Shared {
    async fn reconcile<K: FederatedGrid>(&self, seen: &K) -> Result<Option<Duration>, Error> {
        let context = &self.context;
        // Only a member follows mirrors: after it left, what it has is its own.
        let is_member = context.federation.control_link.namespace().is_some();
        if !is_member || !is_mirror(seen.meta()) || seen.meta().deletion_timestamp.is_some() {
            return Ok(None);
        }
        let Some(at) = target(seen.meta()) else {
            return Ok(None);
        };
        let mirror = grid_object(seen);
        let local = cached::<K>(context, &at);
        let id = ObjectId::namespaced(K::KIND, &at.0, &at.1);
        let revision = local
            .as_ref()
            .and_then(|local| local.meta().resource_version.as_deref());
        if let Some(wait) = context.execution.writes.behind(&id, revision) {
            return Ok(Some(wait));
        }
        let local = local.map(|local| grid_object(&*local));
        let decision = self.decide(&mirror, local.as_ref(), &at.0).await?;
        self.publish_events(seen, &mirror, decision.problem.as_ref())
            .await;
        let recheck = decision.plan.recheck;
        let outcomes = context.execution.run(decision.plan).await;
        let failed = outcomes.into_values().find_map(Result::err);
        let problem = decision
            .problem
            .or_else(|| failed.as_ref().and_then(problem_of));
        self.set_unapplied::<K>(&key(seen), problem);
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(recheck),
        }
    }

    /// Decides, and looks for the namespace where that matters.
    async fn decide(
        &self,
        mirror: &GridObject,
        local: Option<&GridObject>,
        namespace: &str,
    ) -> Result<Decision, Error> {
        let context = &self.context;
        let key = mirror.grid_key().unwrap_or_default();
        let has_units = !context.caches.units(key).is_empty();
        let mut world = World {
            local,
            vanished: (!has_units).then(|| self.vanished(key, local)),
            sets_with_claims: local
                .map(|local| self.sets_with_claims(local))
                .unwrap_or_default(),
            namespace_exists: None,
            creates_namespaces: context.config.creates_namespaces,
            grace: context.config.unit_grace,
        };
        let first = decide(mirror, &world);
        if !first.needs_namespace_check {
            return Ok(first);
        }
        let namespaces: Api<Namespace> = Api::all(context.client.clone());
        let found = namespaces
            .get_opt(namespace)
            .await
            .map_err(|source| Error::Namespace {
                name: namespace.to_owned(),
                source,
            })?;
        world.namespace_exists = Some(found.is_some());
        Ok(decide(mirror, &world))
    }

    /// How the nodes with a key went. They lost the label if all of them did; a Node object that went counts as
    /// an outage.
    fn vanished(&self, label: &str, local: Option<&GridObject>) -> VanishedUnit {
        let units = &self.context.caches.vanished_units;
        let states = local.and_then(|local| local.status["states"].as_object());
        let mut own = states.into_iter().flat_map(|states| states.keys());
        let is_deleted = own.any(|unit| units.get(label, unit) == Some(Vanished::NodeDeleted));
        let last = units.last(label, (self.context.clock)());
        VanishedUnit {
            lost_label: last.lost_label && !is_deleted,
            ..last
        }
    }

    /// Names of the StatefulSets that would go with a grid, and their claims with them.
    fn sets_with_claims(&self, local: &GridObject) -> BTreeSet<String> {
        if local.kind != ObjectKind::StatefulSetGrid {
            return BTreeSet::new();
        }
        let (namespace, name) = edgegrid_plan::federation::key(&local.metadata);
        let sets = self.context.caches.stateful_sets.of_name(&namespace, &name);
        let is_its = |set: &Child| {
            let owner = controller(&set.metadata);
            owner.is_some_and(|owner| local.metadata.uid.as_ref() == Some(&owner.uid))
        };
        sets.iter()
            .filter(|set| set.spec.deletes_claims && is_its(set))
            .filter_map(|set| set.metadata.name.clone())
            .collect()
    }

    async fn publish_events<K: FederatedGrid>(
        &self,
        seen: &K,
        mirror: &GridObject,
        problem: Option<&Problem>,
    ) {
        let mut notices: Vec<Notice> = problem.map(warning).into_iter().collect();
        let name = mirror.metadata.name.as_deref().unwrap_or_default();
        let is_missing = self
            .context
            .federation
            .control_link
            .is_missing(K::KIND, name)
            && !mirror::is_removed(&mirror.metadata);
        let missing = is_missing.then(|| {
            Problem::new(
                reason::COPY_MISSING,
                "the control cluster no longer shows this grid and did not ask to remove it, so this cluster keeps it as it is; \
                 run `edgegrid leave` if this cluster is no longer a member",
            )
        });
        notices.extend(missing.as_ref().map(warning));
        if let Some(at) = target(&mirror.metadata) {
            self.set_missing::<K>(&at, missing);
        }
        let about = seen.object_ref(&());
        self.notifier.notify(&key(seen), &about, &notices).await;
    }

    /// Notes whether the control cluster no longer shows a grid, and enqueues the grid, whose condition says so.
    fn set_missing<K: FederatedGrid>(&self, grid: &ObjectKey, problem: Option<Problem>) {
        let missing = &self.context.federation.missing;
        if missing.set(K::KIND, grid, &of_whole_grid(problem)) {
            let count = i64::try_from(missing.all().len()).unwrap_or(i64::MAX);
            self.context.metrics.copies_missing.set(count);
            K::own_queue(&self.context.queues).push(grid.clone());
        }
    }

    /// Notes why a mirror cannot be applied, and enqueues its copy, whose status says so.
    fn set_unapplied<K: FederatedGrid>(&self, mirror: &ObjectKey, problem: Option<Problem>) {
        let unapplied = &self.context.federation.unapplied;
        if unapplied.set(K::KIND, mirror, &of_whole_grid(problem)) {
            reactions::enqueue_mirror::<K>(&self.context, mirror);
        }
    }
}

fn of_whole_grid(problem: Option<Problem>) -> BTreeMap<Scope, Problem> {
    let problem = problem.map(|problem| (Scope::Grid, problem));
    problem.into_iter().collect()
}

fn warning(problem: &Problem) -> Notice {
    Notice::warning(problem.reason, problem.message.clone())
}

/// The problem of a failed write; `None` for a conflict, which is merely tried again.
fn problem_of(error: &WriteError) -> Option<Problem> {
    match error.class {
        Class::Conflict(_) | Class::NotFound | Class::AlreadyExists | Class::NotLeader => None,
        _ => Some(Problem::new(reason::REFUSED, error.to_string())),
    }
}
