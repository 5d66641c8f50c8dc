//! Runs the rules: watches, and a pass over every set that is due.
//!
//! ```text
//! watch sets, pods, claims, revisions ─► caches ─► Queue ─► Controller (one pass per set at a time)
//!   pass: caches show our writes ─► World ─► rules::plan ─► act ─► status ─► when to requeue
//! ```

use std::sync::Arc;
use std::time::Duration;

use edgegrid_runtime::logging::chain;
use futures::{StreamExt, stream};
use kube::Client;
use kube::core::DynamicObject;
use kube::runtime::Controller;
use kube::runtime::controller::{Action, Config as ControllerConfig};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::Writer;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::act::{Actor, Outcome};
use crate::calls::Error;
use crate::config::Config;
use crate::context::{Context, Equivalence};
use crate::entries;
use crate::events::{self, Events};
use crate::queue::SetName;
use crate::rules::{self, Set, Status, World};
use crate::watches;

/// What readiness waits for.
const CACHES: &str = "caches of StatefulSets, Pods, PersistentVolumeClaims and ControllerRevisions";
/// How long the end may wait for events that are still to be written.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs until `shutdown`, then ends the passes that are under way and returns.
pub async fn run(
    client: Client,
    config: Config,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    config.readiness.expect(CACHES);
    let (events, pending) = Events::new();
    let kind = entries::sets();
    let writer = Writer::new(kind.clone());
    let store = writer.as_reader();
    let context = Arc::new(Context::new(&client, &config, events));
    let mut watching = JoinSet::new();
    watching.spawn(report_ready(context.clone()));
    watches::start(&mut watching, &context, writer);
    let mut writing = JoinSet::new();
    writing.spawn(events::write_events(
        client,
        config.fence.clone(),
        pending,
        config.clock.clone(),
    ));

    let references = context.queue.clone().into_stream().map({
        let kind = kind.clone();
        move |(namespace, name)| ObjectRef::new_with(&name, kind.clone()).within(&namespace)
    });
    let limits = ControllerConfig::default().concurrency(config.concurrency);
    Controller::for_stream_with(stream::pending(), store, kind)
        .with_config(limits)
        .reconcile_on(references)
        .graceful_shutdown_on(shutdown)
        .run(reconcile, error_policy, context.clone())
        .for_each(async |_| {})
        .await;
    watching.shutdown().await;
    drop(context);
    let written = async { while writing.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIMEOUT, written).await.is_err() {
        tracing::debug!("shutdown timed out, dropping events");
    }
}

/// Without sets there is no pass to find out.
async fn report_ready(context: Arc<Context>) {
    context.caches.wait_until_ready().await;
    context.config.readiness.reached(CACHES);
}

async fn reconcile(object: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, Error> {
    let name = name_of(&object);
    let began = Instant::now();
    let result = context.pass(&name).await;
    let metrics = &context.config.metrics;
    metrics.observe(result.as_ref().err(), began.elapsed());
    if result.is_ok() {
        context.failures.lock().success(&name);
    }
    result
}

#[expect(clippy::needless_pass_by_value, reason = "the controller's signature")]
fn error_policy(object: Arc<DynamicObject>, error: &Error, context: Arc<Context>) -> Action {
    let name = name_of(&object);
    let pause = context.failures.lock().failure(&name, 0);
    tracing::warn!(namespace = name.0, set = name.1, error = %chain(error), ?pause, "reconcile failed, retrying");
    Action::requeue(pause)
}

impl Context {
    /// One pass over a set.
    async fn pass(&self, name: &SetName) -> Result<Action, Error> {
        self.caches.wait_until_ready().await;
        let Some(known) = self.set(name) else {
            return Ok(Action::await_change());
        };
        self.caches.wait_for_writes(&self.writes, &known).await?;
        // Read again: what came meanwhile counts.
        let Some(set) = self.set(name) else {
            return Ok(Action::await_change());
        };
        let pause = self.config.other_manager_pause;
        if let Some(manager) = self.other_managers.acted_within(&set.uid, pause) {
            self.config.metrics.count_skipped();
            self.events
                .record(&set, rules::foreign_controller(&manager));
            return Ok(Action::requeue(pause));
        }
        let actor = Actor {
            client: &self.client,
            fence: &self.config.fence,
            set: &set,
            caches: &self.caches,
            writes: &self.writes,
            events: &self.events,
        };
        self.act(&actor, &set).await
    }

    async fn act(&self, actor: &Actor<'_>, set: &Arc<Set>) -> Result<Action, Error> {
        let mut world = self.world(set);
        world.equivalent = self.find_equivalent(actor, &world).await;
        loop {
            let plan = rules::plan(&world);
            self.await_claims(set, &plan.awaited_claims);
            for notice in &plan.events {
                self.events.record(set, notice.clone());
            }
            match actor.run(&plan).await {
                Outcome::Collided => world.collisions += 1,
                Outcome::Stopped(error) => return Err(error),
                Outcome::Acted { rolled, error } => {
                    let status = plan.status.after(rolled, set.replicas);
                    let written = self.update_status(actor, &status).await;
                    // What kept the pods from being right matters more.
                    error.map_or(Ok(()), Err)?;
                    let again = plan.recheck.into_iter().chain(written?).min();
                    return Ok(again.map_or_else(Action::await_change, Action::requeue));
                }
            }
        }
    }

    /// Writes a status that says something new, or returns how long that has to wait.
    async fn update_status(
        &self,
        actor: &Actor<'_>,
        status: &Status,
    ) -> Result<Option<Duration>, Error> {
        let set = actor.set;
        if !status.differs_from(&set.status) {
            return Ok(None);
        }
        let last = self.status_written.lock().get(&set.uid).copied();
        let since = last.map_or(Duration::MAX, |last| last.elapsed());
        let wait = status.write_delay(&set.status).saturating_sub(since);
        if !wait.is_zero() {
            return Ok(Some(wait));
        }
        actor.write_status(status).await?;
        self.status_written
            .lock()
            .insert(set.uid.clone(), Instant::now());
        Ok(None)
    }

    fn world(&self, set: &Arc<Set>) -> World {
        let caches = &self.caches;
        let claims = set.claim_templates.iter().flat_map(|template| {
            // Up to the ordinal.
            let mut prefix = rules::claim_name(template, &set.name, 0);
            prefix.pop();
            caches.claims.with_prefix(&set.namespace, &prefix)
        });
        World {
            set: set.clone(),
            pods: caches.pods.owned_or_orphaned(&set.namespace, &set.uid),
            claims: claims.map(|claim| (claim.name.clone(), claim)).collect(),
            revisions: caches.revisions.owned_or_orphaned(&set.namespace, &set.uid),
            collisions: set.status.collision_count,
            equivalent: None,
            now: (self.config.clock)(),
        }
    }

    /// The latest revision, if the API server says that it is the set's template but for new defaults.
    async fn find_equivalent(&self, actor: &Actor<'_>, world: &World) -> Option<String> {
        let set = &world.set;
        let revision = rules::possibly_equivalent(world)?;
        let known = self.equivalence.lock().get(&set.uid).and_then(|known| {
            let is_same = known.generation == set.generation && known.revision == revision.name;
            is_same.then_some(known.is_equivalent)
        });
        let is_equivalent = if let Some(is_equivalent) = known {
            is_equivalent
        } else {
            let is_equivalent = actor.is_equivalent(&revision).await;
            let answer = Equivalence {
                generation: set.generation,
                revision: revision.name.clone(),
                is_equivalent,
            };
            self.equivalence.lock().insert(set.uid.clone(), answer);
            is_equivalent
        };
        is_equivalent.then(|| revision.name.clone())
    }

    fn set(&self, (namespace, name): &SetName) -> Option<Arc<Set>> {
        self.caches.sets.get(namespace, name)
    }
}

fn name_of(object: &DynamicObject) -> SetName {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    (
        text(&object.metadata.namespace),
        text(&object.metadata.name),
    )
}
