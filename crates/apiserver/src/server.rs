//! The server as its user builds and runs it.

use std::sync::Arc;

use axum::Router;
use edgegrid_listwatch::{Reader, Store};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::admission::Admission;
use crate::clock::Clock;
use crate::ids::Ids;
use crate::namespaces::NamespaceLifecycle;
use crate::registry::Registry;
use crate::services::ServiceAddresses;
use crate::state::ServerState;
use crate::{bootstrap, router};

/// A running API server; clones share it.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<ServerState>,
}

/// How a server shall be.
pub struct Builder {
    seed: u64,
    origin: Timestamp,
    store: Store,
    admission: Vec<Box<dyn Admission>>,
}

impl ApiServer {
    /// Starts describing a server.
    pub fn builder() -> Builder {
        Builder {
            seed: 0,
            origin: Timestamp::UNIX_EPOCH,
            // Revisions start above what clients give a meaning of its own.
            store: Store::builder().after(1).build(),
            admission: Vec::new(),
        }
    }

    /// The server as a service to mount or to call.
    pub fn router(&self) -> Router {
        router::router(self.state.clone())
    }

    /// The store with all objects, for who writes or reads beside the API.
    pub fn store(&self) -> &Store {
        self.state.reader.store()
    }

    /// The clock that stamps its objects.
    pub fn clock(&self) -> Clock {
        self.state.clock
    }

    /// Ends all watches, so that clients can go.
    pub fn stop(&self) {
        self.state.reader.stop();
    }
}

impl Builder {
    /// Uids, name suffixes and watch timeouts follow from this number.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What time it is now; from here on tokio's clock counts.
    #[must_use]
    pub fn time(mut self, origin: Timestamp) -> Self {
        self.origin = origin;
        self
    }

    /// Another store, for example one with a shorter history.
    #[must_use]
    pub fn store(mut self, store: Store) -> Self {
        self.store = store;
        self
    }

    /// One more that may change or refuse what is written.
    #[must_use]
    pub fn admission(mut self, admission: impl Admission + 'static) -> Self {
        self.admission.push(Box::new(admission));
        self
    }

    /// The server, with the objects every cluster has.
    pub fn build(self) -> ApiServer {
        let mut admission: Vec<Box<dyn Admission>> =
            vec![Box::new(NamespaceLifecycle), Box::new(ServiceAddresses)];
        admission.extend(self.admission);
        let state = ServerState {
            reader: Reader::new(self.store, self.seed),
            registry: Registry::default(),
            clock: Clock::starting_at(self.origin),
            ids: Ids::new(self.seed),
            admission,
            allocator_lock: Mutex::default(),
        };
        bootstrap::bootstrap(&state);
        ApiServer {
            state: Arc::new(state),
        }
    }
}
