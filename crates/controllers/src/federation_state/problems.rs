//! What is wrong with federated grids, so that their status and Events can show it.

use std::collections::BTreeMap;
use std::sync::Arc;

use edgegrid_plan::failure::Problem;
use edgegrid_plan::{ObjectKind, Scope};
use parking_lot::Mutex;

use crate::queue::ObjectKey;

/// Problems by kind and key of a grid, each with what it concerns: a member's namespace, or the whole grid.
#[derive(Clone, Default)]
pub(crate) struct Problems(Arc<Mutex<BTreeMap<(ObjectKind, ObjectKey), ByScope>>>);

/// What is wrong, by what it concerns.
type ByScope = BTreeMap<Scope, Problem>;

impl Problems {
    /// Replaces what is wrong with one object; `true` if that changed anything.
    pub(crate) fn set(&self, kind: ObjectKind, key: &ObjectKey, problems: &ByScope) -> bool {
        let mut all = self.0.lock();
        let grid = (kind, key.clone());
        if problems.is_empty() {
            return all.remove(&grid).is_some();
        }
        all.insert(grid, problems.clone()).as_ref() != Some(problems)
    }

    /// Forgets the problems of all objects.
    pub(crate) fn clear(&self) {
        let mut all = self.0.lock();
        all.clear();
    }

    /// Kinds and keys of all that something is wrong with.
    pub(crate) fn all(&self) -> Vec<(ObjectKind, ObjectKey)> {
        let all = self.0.lock();
        all.keys().cloned().collect()
    }

    /// What is wrong with one object.
    pub(crate) fn get(&self, kind: ObjectKind, key: &ObjectKey) -> ByScope {
        let all = self.0.lock();
        all.get(&(kind, key.clone())).cloned().unwrap_or_default()
    }
}
