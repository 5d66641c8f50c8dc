//! The view for others in this process: what has changed of it, service by service.

use crate::keeper::Keeper;
use std::sync::Arc;

pub use crate::keeper::{Seen, Stale};

/// Follows what a node's names stand for. There is one at most: what it has been told once it is
/// not told again.
pub struct Follower {
    keeper: Arc<Keeper>,
}

impl Follower {
    pub(crate) fn new(keeper: Arc<Keeper>) -> Self {
        Self { keeper }
    }

    /// Waits until something is different and says what; at first everything, as soon as the view
    /// is complete. What changes often between two calls is told once.
    pub async fn stale(&mut self) -> Stale {
        self.keeper.stale().await
    }

    /// A service, by `namespace/name`, as it is seen now; none if it does not exist.
    pub fn look(&self, service: &str) -> Option<Seen> {
        self.keeper.look(service)
    }

    /// Whether a namespace exists.
    pub fn has_namespace(&self, name: &str) -> bool {
        self.keeper.has_namespace(name)
    }

    /// Whether all short names are known: one that is not seen does not exist.
    pub fn knows_names(&self) -> bool {
        self.keeper.knows_names()
    }
}
