//! What names resolve to, kept up to date: the view followed service by service.

use crate::records::{Records, ServiceName};
use crate::service_records;
use edgegrid_runtime::logging::chain;
use edgegrid_runtime::shutdown::Shutdown;
use edgegrid_wrapper::{Follower, Stale};
use parking_lot::{RwLock, RwLockReadGuard};
use std::sync::Arc;
use tokio::sync::watch;

/// The names of a node; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Names {
    records: Arc<RwLock<Records>>,
    state: watch::Sender<State>,
}

/// How far the names have come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// How often something has changed.
    pub changes: u64,
    /// Whether all short names have been known once: from then on one that is not there does not exist.
    pub complete: bool,
}

impl Names {
    /// What the names stand for now. No lock is held across an await.
    pub fn records(&self) -> &Arc<RwLock<Records>> {
        &self.records
    }

    /// What the names stand for now, to be read and let go.
    pub fn read(&self) -> RwLockReadGuard<'_, Records> {
        self.records.read()
    }

    /// Changes with every change of a name.
    pub fn subscribe(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Follows a view until shutdown.
    pub async fn follow(self, mut follower: Follower, stop: Shutdown) {
        loop {
            let stale = tokio::select! {
                stale = follower.stale() => stale,
                () = stop.requested() => return,
            };
            self.refresh(&follower, &stale);
        }
    }

    /// Looks again at what has changed, and at nothing else.
    fn refresh(&self, follower: &Follower, stale: &Stale) {
        for namespace in &stale.namespaces {
            let exists = follower.has_namespace(namespace);
            self.write(|records| records.set_namespace(namespace, exists));
        }
        for key in &stale.services {
            let Some((namespace, name)) = key.split_once('/') else {
                continue;
            };
            let name = ServiceName {
                namespace: namespace.into(),
                name: name.into(),
            };
            let records = follower
                .service(key)
                .map(|view| service_records::from_view(&view));
            match records.transpose() {
                Ok(found) => self.write(|records| records.set_service(&name, found)),
                // What it stood for before may be wrong by now.
                Err(error) => {
                    tracing::error!(service = &**key, error = %chain(&error), "cannot read the service's slices, it has no names");
                    self.write(|records| records.set_service(&name, None));
                }
            }
        }
        // Nothing is stale before the view is complete, and then everything is at once.
        self.write(Records::set_complete);
        self.state.send_modify(|state| {
            state.changes += 1;
            state.complete |= follower.knows_names();
        });
    }

    fn write(&self, change: impl FnOnce(&mut Records)) {
        change(&mut self.records.write());
    }
}
