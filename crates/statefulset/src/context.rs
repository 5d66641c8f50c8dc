//! What the watches and all passes share: caches, the queue, and what is remembered of each set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_runtime::Backoff;
use edgegrid_runtime::backoff::Pace;
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::Config;
use crate::events::Events;
use crate::other_managers::OtherManagers;
use crate::queue::{Queue, SetName};
use crate::rules::Set;
use crate::written::{Caches, Writes};

/// Pauses after errors: short at first, since most are lost races.
const PACE: Pace = Pace {
    first: Duration::from_millis(5),
    longest: Duration::from_mins(5),
    spread: 0,
};

/// What the watches and all passes share.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) config: Config,
    pub(crate) caches: Caches,
    pub(crate) writes: Writes,
    pub(crate) other_managers: OtherManagers,
    pub(crate) events: Events,
    pub(crate) queue: Arc<Queue>,
    /// Sets whose last pass failed.
    pub(crate) failures: Mutex<Backoff<SetName>>,
    /// When each set's status was last written, by uid.
    pub(crate) status_written: Mutex<BTreeMap<String, Instant>>,
    /// Answers of the API server whether a revision is equivalent to a set's template, by uid of the set.
    pub(crate) equivalence: Mutex<BTreeMap<String, Equivalence>>,
    /// Claims that a set waits for.
    awaited: Mutex<BTreeMap<SetName, SetName>>,
}

/// Whether a revision is equivalent to the template of one generation of a set.
pub(crate) struct Equivalence {
    pub(crate) generation: i64,
    pub(crate) revision: String,
    pub(crate) is_equivalent: bool,
}

impl Context {
    pub(crate) fn new(client: &Client, config: &Config, events: Events) -> Self {
        Self {
            client: client.clone(),
            config: config.clone(),
            caches: Caches::default(),
            writes: Writes::default(),
            other_managers: OtherManagers::default(),
            events,
            queue: Arc::default(),
            failures: Mutex::new(Backoff::new(PACE)),
            status_written: Mutex::default(),
            equivalence: Mutex::default(),
            awaited: Mutex::default(),
        }
    }

    /// Notes that a set waits for these claims.
    pub(crate) fn await_claims(&self, set: &Set, claims: &[String]) {
        let mut awaited = self.awaited.lock();
        for claim in claims {
            let name = (set.namespace.clone(), set.name.clone());
            awaited.insert((set.namespace.clone(), claim.clone()), name);
        }
    }

    /// A claim changed: the set that waits for it is due.
    pub(crate) fn claim_changed(&self, namespace: &str, name: &str) {
        let claim = (namespace.to_owned(), name.to_owned());
        let waiting = self.awaited.lock().remove(&claim);
        self.queue.add(waiting);
    }

    /// A set was deleted: nothing is remembered of it.
    pub(crate) fn forget(&self, set: &Set) {
        self.writes.forget(&set.uid);
        self.other_managers.forget(&set.uid);
        self.status_written.lock().remove(&set.uid);
        self.equivalence.lock().remove(&set.uid);
        let name = (set.namespace.clone(), set.name.clone());
        self.failures.lock().success(&name);
        self.awaited.lock().retain(|_, waiting| *waiting != name);
    }
}
