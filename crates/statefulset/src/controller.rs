//! Runs the rules: watches, and a pass over every set that something happened to.
//!
//! ```text
//! watch sets, pods, claims, revisions ─► caches ─► Wake ─► Controller (one pass per set at a time)
//!   pass: caches show our writes ─► World ─► rules::plan ─► act ─► status ─► when to look again
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use edgegrid_runtime::backoff::Pace;
use edgegrid_runtime::{Backoff, Fence, Readiness};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::Client;
use kube::core::DynamicObject;
use kube::runtime::Controller;
use kube::runtime::controller::{Action, Config as Queue};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::Writer;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::act::{Actor, Outcome};
use crate::calls::Error;
use crate::entries;
use crate::events::{self, Events};
use crate::foreign::Foreigners;
use crate::metrics::Metrics;
use crate::rules::{self, Set, Status, World};
use crate::wake::{SetName, Wake};
use crate::watches;
use crate::written::{Caches, Writes};

/// Pauses after errors: short at first, since most are lost races.
const PACE: Pace = Pace {
    first: Duration::from_millis(5),
    longest: Duration::from_mins(5),
    spread: 0,
};
/// What readiness waits for.
const CACHES: &str = "caches of StatefulSets, Pods, PersistentVolumeClaims and ControllerRevisions";
/// For events that are still to be told at the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// How the controller works.
#[derive(Clone)]
pub struct Config {
    /// Sets that are worked on at once.
    pub concurrency: u16,
    /// How long to stand back from a set that another controller acts on.
    pub foreign_pause: Duration,
    /// The time: a test has one of its own.
    pub clock: Clock,
    /// Whether we may write.
    pub fence: Fence,
    /// Told when the caches are there.
    pub readiness: Readiness,
    /// What is counted.
    pub metrics: Metrics,
}

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

impl Default for Config {
    fn default() -> Self {
        Self {
            concurrency: 10,
            foreign_pause: Duration::from_mins(1),
            clock: Arc::new(Timestamp::now),
            fence: Fence::always(),
            readiness: Readiness::default(),
            metrics: Metrics::default(),
        }
    }
}

/// Runs until `shutdown`, then ends the passes that are under way and returns.
pub async fn run(
    client: Client,
    config: Config,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    config.readiness.expect(CACHES);
    let (events, waiting) = Events::new();
    let kind = entries::sets();
    let writer = Writer::new(kind.clone());
    let store = writer.as_reader();
    let context = Arc::new(Context::new(&client, &config, events));
    let mut watching = JoinSet::new();
    watching.spawn(tell_ready(context.clone()));
    watches::start(&mut watching, &context, writer);
    let mut telling = JoinSet::new();
    telling.spawn(events::tell_all(
        client,
        config.fence.clone(),
        waiting,
        config.clock.clone(),
    ));

    let references = context.wake.clone().woken().map({
        let kind = kind.clone();
        move |(namespace, name)| ObjectRef::new_with(&name, kind.clone()).within(&namespace)
    });
    let queue = Queue::default().concurrency(config.concurrency);
    Controller::for_stream_with(stream::pending(), store, kind)
        .with_config(queue)
        .reconcile_on(references)
        .graceful_shutdown_on(shutdown)
        .run(reconcile, error_policy, context.clone())
        .for_each(async |_| {})
        .await;
    watching.shutdown().await;
    drop(context);
    let told = async { while telling.join_next().await.is_some() {} };
    if tokio::time::timeout(FAREWELL, told).await.is_err() {
        tracing::debug!("some events were not told");
    }
}

/// What all passes share.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) writes: Writes,
    pub(crate) foreigners: Foreigners,
    pub(crate) events: Events,
    pub(crate) wake: Arc<Wake>,
    /// Claims that a set waits for.
    awaited: Mutex<BTreeMap<SetName, SetName>>,
    /// Sets whose last pass failed.
    failures: Mutex<Backoff<SetName>>,
    /// When each set's status was last written.
    told: Mutex<BTreeMap<String, Instant>>,
    /// What the API server said about a doubtful revision: set, its generation, the revision.
    verdicts: Mutex<BTreeMap<String, (i64, String, bool)>>,
    config: Config,
}

/// Without sets there is no pass to find out.
async fn tell_ready(context: Arc<Context>) {
    context.caches.ready().await;
    context.config.readiness.reached(CACHES);
}

async fn reconcile(object: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, Error> {
    let name = name_of(&object);
    let began = Instant::now();
    let result = context.pass(&name).await;
    let metrics = &context.config.metrics;
    metrics.observe(result.as_ref().err(), began.elapsed());
    if result.is_ok() {
        lock(&context.failures).success(&name);
    }
    result
}

#[expect(clippy::needless_pass_by_value, reason = "the controller's signature")]
fn error_policy(object: Arc<DynamicObject>, error: &Error, context: Arc<Context>) -> Action {
    let name = name_of(&object);
    let pause = lock(&context.failures).failure(&name, 0);
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(namespace = name.0, set = name.1, %error, source, ?pause, "pass failed");
    Action::requeue(pause)
}

impl Context {
    fn new(client: &Client, config: &Config, events: Events) -> Self {
        Self {
            client: client.clone(),
            caches: Caches::default(),
            writes: Writes::default(),
            foreigners: Foreigners::default(),
            events,
            wake: Arc::default(),
            awaited: Mutex::default(),
            failures: Mutex::new(Backoff::new(PACE)),
            told: Mutex::default(),
            verdicts: Mutex::default(),
            config: config.clone(),
        }
    }

    /// One look at a set.
    async fn pass(&self, name: &SetName) -> Result<Action, Error> {
        self.caches.ready().await;
        let Some(known) = self.set(name) else {
            return Ok(Action::await_change());
        };
        self.caches.show(&self.writes, &known).await?;
        // Read again: what was shown meanwhile counts.
        let Some(set) = self.set(name) else {
            return Ok(Action::await_change());
        };
        if let Some(manager) = self.foreigners.within(&set.uid, self.config.foreign_pause) {
            self.config.metrics.foreign();
            self.events.tell(&set, rules::foreign_controller(&manager));
            return Ok(Action::requeue(self.config.foreign_pause));
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
        world.equivalent = self.equivalent(actor, &world).await;
        loop {
            let plan = rules::plan(&world);
            self.await_claims(set, &plan.awaited_claims);
            for notice in &plan.events {
                self.events.tell(set, notice.clone());
            }
            match actor.run(&plan).await {
                Outcome::Collided => world.collisions += 1,
                Outcome::Stopped(error) => return Err(error),
                Outcome::Acted { rolled, error } => {
                    let status = plan.status.after(rolled, set.replicas);
                    let told = self.tell_status(actor, &status).await;
                    // What kept the pods from being right matters more.
                    error.map_or(Ok(()), Err)?;
                    let again = plan.recheck.into_iter().chain(told?).min();
                    return Ok(again.map_or_else(Action::await_change, Action::requeue));
                }
            }
        }
    }

    /// Writes a status that says something new, or says when it will be time for it.
    async fn tell_status(
        &self,
        actor: &Actor<'_>,
        status: &Status,
    ) -> Result<Option<Duration>, Error> {
        let set = actor.set;
        if !status.differs_from(&set.status) {
            return Ok(None);
        }
        let last = lock(&self.told).get(&set.uid).copied();
        let since = last.map_or(Duration::MAX, |last| last.elapsed());
        let wait = status.patience(&set.status).saturating_sub(since);
        if !wait.is_zero() {
            return Ok(Some(wait));
        }
        actor.write_status(status).await?;
        lock(&self.told).insert(set.uid.clone(), Instant::now());
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

    async fn equivalent(&self, actor: &Actor<'_>, world: &World) -> Option<String> {
        let doubtful = rules::doubtful(world)?;
        let question = (world.set.generation, doubtful.name.clone());
        let known = lock(&self.verdicts).get(&world.set.uid).cloned();
        let verdict = match known {
            Some((generation, name, verdict))
                if (generation, &name) == (question.0, &question.1) =>
            {
                verdict
            }
            _ => {
                let verdict = actor.is_equivalent(&doubtful).await;
                let answer = (question.0, question.1, verdict);
                lock(&self.verdicts).insert(world.set.uid.clone(), answer);
                verdict
            }
        };
        verdict.then(|| doubtful.name.clone())
    }

    fn set(&self, (namespace, name): &SetName) -> Option<Arc<Set>> {
        self.caches.sets.get(namespace, name)
    }

    fn await_claims(&self, set: &Set, claims: &[String]) {
        let mut awaited = lock(&self.awaited);
        for claim in claims {
            let name = (set.namespace.clone(), set.name.clone());
            awaited.insert((set.namespace.clone(), claim.clone()), name);
        }
    }

    /// Something happened to a claim: whoever waits for it may look again.
    pub(crate) fn claim_changed(&self, namespace: &str, name: &str) {
        let waiting = lock(&self.awaited).remove(&(namespace.to_owned(), name.to_owned()));
        self.wake.wake(waiting);
    }

    /// The set has gone: nothing is remembered of it.
    pub(crate) fn forget(&self, set: &Set) {
        self.writes.forget(&set.uid);
        self.foreigners.forget(&set.uid);
        lock(&self.told).remove(&set.uid);
        lock(&self.verdicts).remove(&set.uid);
        let name = (set.namespace.clone(), set.name.clone());
        lock(&self.failures).success(&name);
        lock(&self.awaited).retain(|_, waiting| *waiting != name);
    }
}

fn name_of(object: &DynamicObject) -> SetName {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    (
        text(&object.metadata.namespace),
        text(&object.metadata.name),
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
