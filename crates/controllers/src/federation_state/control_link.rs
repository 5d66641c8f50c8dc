//! What a member knows of its control cluster: whether it answers, and which copies it shows.

use std::collections::BTreeSet;
use std::sync::Arc;

use edgegrid_plan::ObjectKind;
use edgegrid_plan::failure::Problem;
use parking_lot::{Mutex, MutexGuard};

use crate::federated_grid::FederatedGrid;
use crate::queue::ObjectKey;
use crate::reflector::Change;

/// Whether the control cluster answers, and which copies it shows.
#[derive(Clone, Default)]
pub(crate) struct ControlLink(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// The member's namespace there; `None` while this cluster is no member.
    namespace: Option<String>,
    /// Kinds of which all copies were seen.
    synced: BTreeSet<ObjectKind>,
    /// The copies that are there.
    copies: BTreeSet<(ObjectKind, ObjectKey)>,
    /// What keeps the control cluster from answering, if it did not for a while.
    error: Option<Problem>,
}

impl ControlLink {
    /// The member's namespace in the control cluster; `None` while this cluster is no member.
    pub(crate) fn namespace(&self) -> Option<String> {
        self.lock().namespace.clone()
    }

    /// Whether the control cluster answers and does not show a copy.
    pub(crate) fn is_missing(&self, kind: ObjectKind, name: &str) -> bool {
        let inner = self.lock();
        let Some(namespace) = inner.namespace.clone() else {
            return false;
        };
        inner.synced.contains(&kind)
            && !inner.copies.contains(&(kind, (namespace, name.to_owned())))
    }

    /// What keeps the control cluster from answering, if it did not for a while.
    pub(crate) fn error(&self) -> Option<Problem> {
        self.lock().error.clone()
    }

    /// Sets what keeps the control cluster from answering; `None` if it answers.
    pub(crate) fn set_error(&self, error: Option<Problem>) {
        self.lock().error = error;
    }

    /// Forgets all about the former control cluster; `None` if this cluster is no longer a member.
    pub(crate) fn reset(&self, namespace: Option<String>) {
        *self.lock() = Inner {
            namespace,
            ..Inner::default()
        };
    }

    /// Notes that all copies of a kind were seen.
    pub(crate) fn set_synced(&self, kind: ObjectKind) {
        self.lock().synced.insert(kind);
    }

    /// Notes a copy that came or went.
    pub(crate) fn apply<K: FederatedGrid>(&self, change: &Change<K>) {
        let copy = (K::KIND, change.key());
        match change {
            Change::Removed(_) => self.lock().copies.remove(&copy),
            _ => self.lock().copies.insert(copy),
        };
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}
