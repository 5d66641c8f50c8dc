//! Leader election on a `Lease`: of all processes that share its name at most one writes.
//!
//! ```text
//! standing by ──► lease free or expired ──► leading, renewing ──► done: released, others go on at once
//!      ▲                                         │ no renewal until the deadline, or taken
//!      └──────── fence closed, work dropped ◄────┘
//! ```
//!
//! A lease has expired when it was *seen unchanged* for its whole duration on our own monotonic
//! clock; the times written in it are for people, since clocks of machines differ. Every write of
//! the lease names the revision it was decided on, so of two that take it one is refused.

mod record;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use kube::{Client, Error, ResourceExt};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, info, warn};

use crate::fence::{Fence, Validity};
use crate::logging::chain;
use record::Standing;

/// An error that lasts is logged so often as a warning; in between at debug level.
const REPEAT_WARNING: Duration = Duration::from_mins(1);

/// Which lease, who we are, and how fast leadership moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Who we are: no other process, not even one after a restart, has the same.
    pub identity: String,
    /// How long non-leaders wait after the last renewal they saw before they try to acquire the lease.
    pub lease_duration: Duration,
    /// How long the leader retries a renewal before it stops leading.
    pub renew_deadline: Duration,
    /// Time between two attempts to acquire or renew the lease.
    pub retry_period: Duration,
}

/// Durations of an election that contradict each other.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a lease of {lease_duration:?} with renew deadline {renew_deadline:?} and retry period {retry_period:?}: \
     each must be longer than the next, and the first whole seconds"
)]
pub struct BadTimes {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// Why the lease could not be acquired or renewed.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("namespace {0} does not exist, create it with `kubectl create namespace {0}`")]
    NoNamespace(String),
    #[error("no answer in time")]
    NoAnswer,
    #[error("{0}")]
    Call(#[source] Error),
}

/// Takes part in the election.
pub struct Elector {
    leases: Api<Lease>,
    config: LeaseConfig,
    validity: watch::Sender<Option<Validity>>,
    leading: Gauge,
    /// The lease as last observed, and since when it looks like that.
    observed: Option<(Lease, Instant)>,
    /// Whether what we observed is what we wrote last, so that a renewal needs no read.
    is_fresh: bool,
    /// The last time written into the lease: the next is later, whatever the wall clock does.
    stamp: Timestamp,
    /// The last warning, and when it was logged; none since the last success.
    warned: Option<(String, Instant)>,
}

impl LeaseConfig {
    /// A lease with the times that Kubernetes' own controllers use.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// How long one request may take: so short that a lost one leaves time for another.
    fn request_timeout(&self) -> Duration {
        self.renew_deadline.saturating_sub(self.retry_period) / 2
    }

    fn is_sound(&self) -> bool {
        self.lease_duration > self.renew_deadline
            && self.renew_deadline > self.retry_period
            && !self.retry_period.is_zero()
            && self.lease_duration.subsec_nanos() == 0
    }
}

impl fmt::Display for LeaseConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Elector {
    /// Takes part with `client`; the fence is open while we lead.
    pub fn new(client: Client, config: LeaseConfig) -> Result<(Self, Fence), BadTimes> {
        if !config.is_sound() {
            return Err(BadTimes {
                lease_duration: config.lease_duration,
                renew_deadline: config.renew_deadline,
                retry_period: config.retry_period,
            });
        }
        let (validity, watched) = watch::channel(None);
        let elector = Self {
            leases: Api::namespaced(client, &config.namespace),
            config,
            validity,
            leading: Gauge::default(),
            observed: None,
            is_fresh: false,
            stamp: Timestamp::UNIX_EPOCH,
            warned: None,
        };
        Ok((elector, Fence::new(watched)))
    }

    /// Shows in `registry` whether this process leads.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "leading",
            "Whether this process leads",
            self.leading.clone(),
        );
    }

    /// Runs what `lead` makes whenever this process leads, and drops it when it no longer does.
    ///
    /// Ends when that ends by itself, as it should on shutdown: the lease is kept until then and
    /// released after. While standing by, `shutdown` ends it at once.
    pub async fn run<L, F>(mut self, shutdown: impl Future<Output = ()>, mut lead: L)
    where
        L: FnMut() -> F,
        F: Future<Output = ()>,
    {
        let mut shutdown = std::pin::pin!(shutdown);
        let lease = self.config.to_string();
        loop {
            info!(lease, "attempting to acquire leader lease");
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = self.acquire() => {}
            }
            let identity = &self.config.identity;
            info!(lease, identity, "successfully acquired lease");
            self.leading.set(1);
            let is_done = tokio::select! {
                biased;
                () = self.renew() => false,
                () = lead() => true,
            };
            // Before anything else is awaited: no write starts from here on.
            self.validity.send_replace(None);
            self.leading.set(0);
            if is_done {
                return self.release().await;
            }
            warn!(lease, "leader election lost, standing by");
        }
    }

    /// Ends when the lease is ours.
    async fn acquire(&mut self) {
        while !self
            .try_acquire_or_renew(Instant::now() + self.config.request_timeout())
            .await
        {
            sleep(self.config.retry_period).await;
        }
    }

    /// Renews the lease; ends when it is no longer ours.
    async fn renew(&mut self) {
        loop {
            sleep(self.config.retry_period).await;
            let Some(end) = self.validity.borrow().map(|known| known.starts_until) else {
                return;
            };
            let deadline = Instant::now() + self.config.request_timeout();
            let is_ours = self.try_acquire_or_renew(deadline.min(end)).await;
            let is_theirs = matches!(self.standing(), Standing::Theirs);
            if !is_ours && (is_theirs || Instant::now() >= end) {
                return;
            }
        }
    }

    /// Whether the lease is ours now, by an answer that came before `deadline`.
    async fn try_acquire_or_renew(&mut self, deadline: Instant) -> bool {
        let problem = match timeout_at(deadline, self.send_renewal()).await {
            Ok(Ok(is_ours)) => {
                self.warned = None;
                return is_ours;
            }
            Ok(Err(Error::Api(status))) if status.is_conflict() || status.is_already_exists() => {
                self.is_fresh = false;
                return false; // somebody else was faster
            }
            Ok(Err(error)) => self.problem(error),
            Err(_) => Problem::NoAnswer,
        };
        self.is_fresh = false;
        self.log_problem(&problem);
        false
    }

    /// Reads the lease if need be, and writes it unless somebody else has it.
    async fn send_renewal(&mut self) -> Result<bool, Error> {
        if !self.is_fresh {
            let found = self.leases.get_opt(&self.config.name).await?;
            self.observe(found);
        }
        if matches!(self.standing(), Standing::Theirs) {
            return Ok(false);
        }
        self.stamp = record::later_than(self.stamp, Timestamp::now());
        let before = self.observed.as_ref().map(|(lease, _)| lease);
        let renewed = record::renewed(before, &self.config, self.stamp);
        // The others cannot see this renewal before it is sent, so it counts from here.
        let sent = Instant::now();
        self.is_fresh = false;
        let stored = self.write(&renewed).await?;
        self.observe(Some(stored));
        self.is_fresh = true;
        let (deadline, duration) = (self.config.renew_deadline, self.config.lease_duration);
        let validity = Validity::since(sent, deadline, duration);
        self.validity.send_replace(Some(validity));
        Ok(Instant::now() < validity.starts_until)
    }

    /// Kubernetes answers `NotFound` to a create when the namespace is missing, and names it in the details.
    fn problem(&self, error: Error) -> Problem {
        let namespace = &self.config.namespace;
        let is_without_namespace = match &error {
            Error::Api(status) if status.is_not_found() => {
                let details = status.details.as_ref();
                details.is_some_and(|about| about.kind == "namespaces" && about.name == *namespace)
            }
            _ => false,
        };
        if is_without_namespace {
            Problem::NoNamespace(namespace.clone())
        } else {
            Problem::Call(error)
        }
    }

    /// Warns of a problem once, and again every minute while it lasts.
    fn log_problem(&mut self, problem: &Problem) {
        let verb = if self.validity.borrow().is_some() {
            "renew"
        } else {
            "acquire"
        };
        let text = format!("cannot {verb} lease {}: {}", self.config, chain(problem));
        let is_repeated = self
            .warned
            .as_ref()
            .is_some_and(|(before, at)| *before == text && at.elapsed() < REPEAT_WARNING);
        if is_repeated {
            debug!("{text}");
            return;
        }
        warn!("{text}");
        self.warned = Some((text, Instant::now()));
    }

    async fn write(&self, lease: &Lease) -> Result<Lease, Error> {
        let params = PostParams::default();
        if lease.resource_version().is_some() {
            self.leases.replace(&self.config.name, &params, lease).await
        } else {
            self.leases.create(&params, lease).await
        }
    }

    /// Notes what the lease looks like; since when only moves when its content does. One that
    /// vanished counts as it last was: its holder does not know yet.
    fn observe(&mut self, found: Option<Lease>) {
        let now = Instant::now();
        self.observed = match (found, self.observed.take()) {
            (Some(lease), Some((before, since))) if before.spec == lease.spec => {
                Some((lease, since))
            }
            (Some(lease), _) => Some((lease, now)),
            (None, Some((before, _))) if before.resource_version().is_some() => {
                Some((record::vanished(before), now))
            }
            (None, before) => before,
        };
    }

    fn standing(&self) -> Standing {
        let observed = self.observed.as_ref();
        record::standing(
            observed.map(|(lease, since)| (lease, since.elapsed())),
            &self.config,
        )
    }

    /// Releases the lease, so that the others need not wait for its end.
    async fn release(mut self) {
        let deadline = Instant::now() + self.config.request_timeout();
        let outcome = timeout_at(deadline, self.write_release()).await;
        let lease = self.config.to_string();
        match outcome {
            Ok(Ok(())) => info!(lease, "released lease"),
            Ok(Err(error)) => debug!(lease, error = %chain(&error), "failed to release lease"),
            Err(_) => debug!(lease, "failed to release lease: no answer in time"),
        }
    }

    async fn write_release(&mut self) -> Result<(), Error> {
        if !self.is_fresh {
            let found = self.leases.get_opt(&self.config.name).await?;
            self.observe(found);
        }
        if matches!(self.standing(), Standing::Ours)
            && let Some((lease, _)) = self.observed.take()
        {
            let now = record::later_than(self.stamp, Timestamp::now());
            self.write(&record::released(lease, now)).await?;
        }
        Ok(())
    }
}
