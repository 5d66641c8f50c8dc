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

use crate::fence::{Fence, Held};
use record::Standing;

/// Which lease, who we are, and how fast leadership moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Namespace of the lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are: no other process, not even one after a restart, has the same.
    pub identity: String,
    /// The others wait so long after the last renewal they saw.
    pub lease_duration: Duration,
    /// We stop so long after our last renewal.
    pub renew_deadline: Duration,
    /// Time between two renewals, and between two looks of those who stand by.
    pub retry_period: Duration,
}

/// Times that cannot work.
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

/// Takes part in the election.
pub struct Elector {
    leases: Api<Lease>,
    config: LeaseConfig,
    held: watch::Sender<Option<Held>>,
    leading: Gauge,
    /// The lease as last seen, and since when it looks like that.
    seen: Option<(Lease, Instant)>,
    /// Whether what we saw is what we wrote last, so that a renewal needs no read.
    is_fresh: bool,
    /// The last time written into the lease: the next is later, whatever the wall clock does.
    stamp: Timestamp,
    is_troubled: bool,
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
    fn patience(&self) -> Duration {
        self.renew_deadline.saturating_sub(self.retry_period) / 2
    }

    fn is_sound(&self) -> bool {
        self.lease_duration > self.renew_deadline
            && self.renew_deadline > self.retry_period
            && !self.retry_period.is_zero()
            && self.lease_duration.subsec_nanos() == 0
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
        let (held, watched) = watch::channel(None);
        let elector = Self {
            leases: Api::namespaced(client, &config.namespace),
            config,
            held,
            leading: Gauge::default(),
            seen: None,
            is_fresh: false,
            stamp: Timestamp::UNIX_EPOCH,
            is_troubled: false,
        };
        Ok((elector, Fence::of(watched)))
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
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = self.acquire() => {}
            }
            info!(
                lease = self.config.name,
                identity = self.config.identity,
                "leading"
            );
            self.leading.set(1);
            let is_done = tokio::select! {
                biased;
                () = self.keep() => false,
                () = lead() => true,
            };
            // Before anything else is awaited: no write starts from here on.
            self.held.send_replace(None);
            self.leading.set(0);
            if is_done {
                return self.release().await;
            }
            warn!(lease = self.config.name, "lost the lease, standing by");
        }
    }

    /// Ends when the lease is ours.
    async fn acquire(&mut self) {
        while !self.tried(Instant::now() + self.config.patience()).await {
            sleep(self.config.retry_period).await;
        }
    }

    /// Renews the lease; ends when it is no longer ours.
    async fn keep(&mut self) {
        loop {
            sleep(self.config.retry_period).await;
            let Some(end) = self.held.borrow().map(|held| held.starts_until) else {
                return;
            };
            let patience = Instant::now() + self.config.patience();
            let is_ours = self.tried(patience.min(end)).await;
            let is_theirs = matches!(self.standing(), Standing::Theirs);
            if !is_ours && (is_theirs || Instant::now() >= end) {
                return;
            }
        }
    }

    /// Whether the lease is ours now, by an answer that came before `deadline`.
    async fn tried(&mut self, deadline: Instant) -> bool {
        let trouble = match timeout_at(deadline, self.attempt()).await {
            Ok(Ok(is_ours)) => {
                self.is_troubled = false;
                return is_ours;
            }
            Ok(Err(Error::Api(status))) if status.is_conflict() || status.is_already_exists() => {
                self.is_fresh = false;
                return false; // somebody else was faster
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".into(),
        };
        self.is_fresh = false;
        if std::mem::replace(&mut self.is_troubled, true) {
            debug!(lease = self.config.name, trouble, "lease not reached again");
        } else {
            warn!(lease = self.config.name, trouble, "lease not reached");
        }
        false
    }

    /// Looks at the lease, and takes or renews it if nobody else holds it.
    async fn attempt(&mut self) -> Result<bool, Error> {
        if !self.is_fresh {
            let found = self.leases.get_opt(&self.config.name).await?;
            self.see(found);
        }
        if matches!(self.standing(), Standing::Theirs) {
            return Ok(false);
        }
        self.stamp = record::later_than(self.stamp, Timestamp::now());
        let before = self.seen.as_ref().map(|(lease, _)| lease);
        let wanted = record::held(before, &self.config, self.stamp);
        // The others cannot see this renewal before it is sent, so it counts from here.
        let sent = Instant::now();
        self.is_fresh = false;
        let stored = self.write(&wanted).await?;
        self.see(Some(stored));
        self.is_fresh = true;
        let (deadline, duration) = (self.config.renew_deadline, self.config.lease_duration);
        let held = Held::since(sent, deadline, duration);
        self.held.send_replace(Some(held));
        Ok(Instant::now() < held.starts_until)
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
    /// vanished counts as it last was: who held it does not know yet.
    fn see(&mut self, found: Option<Lease>) {
        let now = Instant::now();
        self.seen = match (found, self.seen.take()) {
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
        let seen = self.seen.as_ref();
        record::standing(
            seen.map(|(lease, since)| (lease, since.elapsed())),
            &self.config,
        )
    }

    /// Gives the lease up, so that the others need not wait for its end.
    async fn release(mut self) {
        let deadline = Instant::now() + self.config.patience();
        match timeout_at(deadline, self.give_up()).await {
            Ok(Ok(())) => info!(lease = self.config.name, "released the lease"),
            Ok(Err(error)) => debug!(lease = self.config.name, %error, "lease not released"),
            Err(_) => debug!(lease = self.config.name, "lease not released in time"),
        }
    }

    async fn give_up(&mut self) -> Result<(), Error> {
        if !self.is_fresh {
            let found = self.leases.get_opt(&self.config.name).await?;
            self.see(found);
        }
        if matches!(self.standing(), Standing::Ours)
            && let Some((lease, _)) = self.seen.take()
        {
            let now = record::later_than(self.stamp, Timestamp::now());
            self.write(&record::released(lease, now)).await?;
        }
        Ok(())
    }
}
