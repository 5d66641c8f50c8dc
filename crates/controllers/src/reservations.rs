//! Names that a grid is about to take, so that no two grids take the same.
//!
//! All grids apply under one manager, to which Kubernetes reports no conflict with itself: of two
//! grids that both saw a name free, the second would seize the first one's object. So a name is
//! reserved before it is looked at, until the write is done.

use std::collections::BTreeMap;
use std::sync::Arc;

use edgegrid_plan::ObjectId;

use crate::queue::ObjectKey;
use parking_lot::{Mutex, MutexGuard};

/// Reserved names of one process, and the grids they are reserved for.
#[derive(Clone, Default)]
pub struct Reservations(Arc<Mutex<BTreeMap<ObjectId, ObjectKey>>>);

/// What a grid has reserved, until this is dropped.
pub struct Reserved {
    all: Reservations,
    names: Vec<ObjectId>,
}

impl Reservations {
    /// Reserves names for a grid; returns also those that another grid has reserved.
    pub fn reserve(&self, grid: &ObjectKey, wanted: Vec<ObjectId>) -> (Reserved, Vec<ObjectId>) {
        let mut reserved = self.lock();
        let (refused, names): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|id| reserved.get(id).is_some_and(|other| other != grid));
        for id in &names {
            reserved.insert(id.clone(), grid.clone());
        }
        let all = self.clone();
        (Reserved { all, names }, refused)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectId, ObjectKey>> {
        self.0.lock()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut reserved = self.all.lock();
        for id in &self.names {
            reserved.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use edgegrid_plan::ObjectKind;

    use super::*;

    fn grid(name: &str) -> ObjectKey {
        ("shop".into(), name.into())
    }

    fn id(name: &str) -> ObjectId {
        ObjectId::namespaced(ObjectKind::Deployment, "shop", name)
    }

    #[test]
    fn a_name_is_one_grids_until_its_pass_is_over() {
        let reservations = Reservations::default();
        let (first, refused) = reservations.reserve(&grid("a"), vec![id("a-b-c")]);
        assert!(refused.is_empty());
        let (_second, refused) = reservations.reserve(&grid("a-b"), vec![id("a-b-c"), id("a-b-d")]);
        assert_eq!(refused, [id("a-b-c")]);
        drop(first);
        let (_third, refused) = reservations.reserve(&grid("a-b"), vec![id("a-b-c")]);
        assert!(refused.is_empty());
    }
}
