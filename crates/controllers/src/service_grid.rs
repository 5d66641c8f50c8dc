//! Keeps one Service for every ServiceGrid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::ServiceGrid;
use edgegrid_api::names::{self, component, manager};
use edgegrid_plan::failure::{Attempt, Failure};
use edgegrid_plan::federation::is_copy;
use edgegrid_plan::federation::status::{About, merge_service};
use edgegrid_plan::grid_state::State;
use edgegrid_plan::ownership::Owner;
use edgegrid_plan::service_grid::{Decision, World, decide};
use edgegrid_plan::unit_names::label_value;
use edgegrid_plan::{Child, Notice, ObjectId, ObjectKind, Scope, grid_status, service_status};
use jiff::Timestamp;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use serde_json::json;

use crate::context::Context;
use crate::error::Error;
use crate::execute::{Outcomes, target};
use crate::federation;
use crate::grid_memory::{Memories, Memory, refusal};
use crate::name_scan::{Scan, scan_names};
use crate::notify::Notifier;
use crate::queue::{ObjectKey, key};

/// Reconciles ServiceGrids until their queue is closed.
pub(crate) async fn run(context: &Context) {
    let executor = context.execution.executor.clone();
    let shared = Shared {
        context: context.clone(),
        memories: Memories::default(),
        notifier: Notifier::new(context.client.clone(), executor, component::SERVICE_GRID),
    };
    let reconcile = |grid: Arc<ServiceGrid>| {
        let shared = shared.clone();
        async move { shared.reconcile(&grid).await }
    };
    crate::controller::run(
        component::SERVICE_GRID,
        context.caches.service_grids.clone(),
        context.queues.service_grids.clone(),
        context.metrics.clone(),
        reconcile,
    )
    .await;
}

/// What all passes share.
#[derive(Clone)]
struct Shared {
    context: Context,
    memories: Memories,
    notifier: Notifier,
}

/// What the caches show of one grid.
struct Gathered {
    children: Vec<Arc<Child>>,
    pending: BTreeSet<String>,
    cache_wait: Option<Duration>,
}

impl Shared {
    async fn reconcile(&self, grid: &ServiceGrid) -> Result<Option<Duration>, Error> {
        if is_copy(&grid.metadata) {
            return Ok(None); // only the member it is for makes Services of it
        }
        let own_key = key(grid);
        let uid = grid.metadata.uid.clone().unwrap_or_default();
        let mut memory = self.memories.take(&own_key, &uid);
        let done = self.reconcile_with(grid, &mut memory).await;
        let store = &self.context.caches.service_grids;
        self.memories.put(own_key, memory, |(namespace, name)| {
            store.get(&ObjectRef::new(name).within(namespace)).is_some()
        });
        done
    }

    async fn reconcile_with(
        &self,
        grid: &ServiceGrid,
        memory: &mut Memory,
    ) -> Result<Option<Duration>, Error> {
        let now = (self.context.clock)();
        let gathered = self.gather(grid);
        let cache_wait = gathered.cache_wait;
        let mut decision = self.decide(grid, gathered, memory, now).await?;
        let plan = std::mem::take(&mut decision.plan);
        let (notices, recheck) = (plan.notices.clone(), plan.recheck);
        let outcomes = self.context.execution.run(plan).await;
        record_outcomes(memory, &decision, outcomes, now);
        self.publish_events(grid, &decision, memory, notices).await;
        let wait = self.write_status(grid, &decision, memory).await?;
        let failure = memory.failures.get(&Scope::Grid);
        let retry = failure.and_then(|failure| failure.remaining(now));
        Ok([recheck, cache_wait, wait, retry]
            .into_iter()
            .flatten()
            .min())
    }

    fn gather(&self, grid: &ServiceGrid) -> Gathered {
        let (namespace, name) = key(grid);
        let services = &self.context.caches.services;
        let mut children = services.of_grid(&(namespace.clone(), name.clone()));
        if label_value(&name) != name {
            children.extend(services.of_grid(&(namespace.clone(), label_value(&name))));
            children.dedup_by(|a, b| a.metadata.name == b.metadata.name);
        }
        let cached: BTreeMap<&str, Option<&str>> = children
            .iter()
            .filter_map(|child| {
                let metadata = &child.metadata;
                Some((
                    metadata.name.as_deref()?,
                    metadata.resource_version.as_deref(),
                ))
            })
            .collect();
        let wanted = names::service(&name);
        let all: BTreeSet<&str> = cached.keys().copied().chain([wanted.as_str()]).collect();
        let behind: BTreeMap<String, Duration> = all
            .into_iter()
            .filter_map(|name| {
                let id = ObjectId::namespaced(ObjectKind::Service, &namespace, name);
                let revision = cached.get(name).copied().flatten();
                let wait = self.context.execution.writes.behind(&id, revision)?;
                Some((name.to_owned(), wait))
            })
            .collect();
        Gathered {
            cache_wait: behind.values().min().copied(),
            pending: behind.into_keys().collect(),
            children,
        }
    }

    /// Decides, and if it is not known who has the name, scans the names first. No two ServiceGrids want one name.
    async fn decide(
        &self,
        grid: &ServiceGrid,
        gathered: Gathered,
        memory: &mut Memory,
        now: Timestamp,
    ) -> Result<Decision, Error> {
        let (namespace, name) = key(grid);
        let mut world = World {
            children: gathered.children,
            names_scanned: false,
            foreign: memory.foreign(),
            pending: gathered.pending,
            failure: memory.failures.get(&Scope::Grid),
            settled: memory.settled.get(&names::service(&name)),
        };
        let first = decide(grid, &world, now);
        if !first.needs_name_scan {
            return Ok(first);
        }
        let selector = label_value(&name);
        let owner = Owner {
            uid: grid.metadata.uid.as_deref().unwrap_or_default(),
            selector: &selector,
        };
        let wanted = BTreeSet::from([names::service(&name)]);
        let scan = Scan {
            kind: ObjectKind::Service,
            namespace: &namespace,
            owner,
            labelled: &self.context.caches.services,
            wanted: &wanted,
        };
        let scanned = scan_names(&self.context.client, scan).await?;
        world
            .children
            .extend(scanned.uncached.into_iter().map(Arc::new));
        world.foreign.clone_from(&scanned.names.foreign);
        world.names_scanned = true;
        let decision = decide(grid, &world, now);
        let mut foreign = scanned.names.foreign;
        foreign.retain(|name, _| wanted.contains(name));
        memory.set_foreign(foreign);
        Ok(decision)
    }

    async fn publish_events(
        &self,
        grid: &ServiceGrid,
        decision: &Decision,
        memory: &Memory,
        mut notices: Vec<Notice>,
    ) {
        let failure = memory.failures.get(&Scope::Grid);
        notices.extend(service_status::warnings(decision, failure));
        notices.sort();
        notices.dedup_by(|a, b| a.reason == b.reason && a.message == b.message);
        let own_key: ObjectKey = key(grid);
        self.notifier
            .notify(&own_key, &grid.object_ref(&()), &notices)
            .await;
    }

    /// Writes the status if it is another one, and returns how long it has to wait.
    async fn write_status(
        &self,
        grid: &ServiceGrid,
        decision: &Decision,
        memory: &mut Memory,
    ) -> Result<Option<Duration>, Error> {
        let reports = federation::member_reports::<ServiceGrid>(&self.context, &grid.metadata);
        if grid.metadata.deletion_timestamp.is_some() && reports.is_none() {
            return Ok(None);
        }
        let now = (self.context.clock)();
        let failure = memory.failures.get(&Scope::Grid);
        let mut status = service_status::status(grid, decision, failure, now);
        let earlier = grid.status.as_ref();
        let about = About {
            metadata: &grid.metadata,
            earlier: earlier.map_or(&[][..], |status| &status.conditions),
            now,
        };
        if let Some(reports) = reports {
            merge_service(&mut status, about, &reports);
        }
        federation::set_link_condition::<ServiceGrid>(&self.context, about, &mut status.conditions);
        let bytes = grid_status::bytes(&status);
        let body = serde_json::to_value(&status).map_err(Error::Build)?;
        if grid.status.as_ref() == Some(&status) {
            return Ok(None);
        }
        if let Some(wait) = memory.status_wait() {
            return Ok(Some(wait));
        }
        let (namespace, name) = key(grid);
        let id = ObjectId::namespaced(ObjectKind::ServiceGrid, &namespace, &name);
        let executor = &self.context.execution.executor;
        let uid = grid.metadata.uid.as_deref();
        let written = json!({ "status": body });
        executor
            .apply_status(&target(&id), &written, manager::EDGEGRID, uid)
            .await
            .map_err(Error::Status)?;
        memory.wrote(bytes);
        Ok(None)
    }
}

/// Remembers what failed and what is settled.
fn record_outcomes(memory: &mut Memory, decision: &Decision, outcomes: Outcomes, now: Timestamp) {
    memory.settled.clear();
    let service = decision.service.as_ref();
    let name = service.and_then(|service| service.metadata.name.clone());
    memory.settled.extend(name.zip(decision.settled.clone()));
    if decision.state == State::Settled {
        memory.failures.clear();
    }
    for (scope, outcome) in outcomes {
        let Err(error) = outcome else {
            memory.failures.remove(&scope);
            continue;
        };
        let Some(refusal) = refusal(&error) else {
            continue;
        };
        let tried = Attempt {
            hash: &decision.attempt_hash,
            object_existed: decision.service.is_some(),
        };
        let failure = Failure::after(memory.failures.get(&scope), &refusal, tried, now);
        memory.failures.insert(scope, failure);
    }
}
