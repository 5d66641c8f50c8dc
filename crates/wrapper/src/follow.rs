//! The view for others in this process: what has changed of it, service by service.

use crate::publish::Publisher;
use std::sync::Arc;

pub use crate::publish::{ServiceView, Stale};

/// Follows what a node's names stand for. There is one at most: a change is reported once.
pub struct Follower {
    publisher: Arc<Publisher>,
}

impl Follower {
    pub(crate) fn new(publisher: Arc<Publisher>) -> Self {
        Self { publisher }
    }

    /// Waits until something is different and gives what; at first everything, as soon as the view
    /// is complete. What changes often between two calls is reported once.
    pub async fn stale(&mut self) -> Stale {
        self.publisher.stale().await
    }

    /// A service, by `namespace/name`, as it is seen now; none if it does not exist.
    pub fn service(&self, service: &str) -> Option<ServiceView> {
        self.publisher.service(service)
    }

    /// Whether a namespace exists.
    pub fn has_namespace(&self, name: &str) -> bool {
        self.publisher.has_namespace(name)
    }

    /// Whether all short names are known: one that is not seen does not exist.
    pub fn knows_names(&self) -> bool {
        self.publisher.knows_names()
    }
}
