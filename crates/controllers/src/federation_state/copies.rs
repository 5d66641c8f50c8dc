//! Which copies and mirrors stand for which grid. A pass over one grid must not look through the copies of all
//! others: two hundred members with a hundred grids make twenty thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use edgegrid_plan::ObjectKind;
use edgegrid_plan::federation::stands_for;

use crate::federated_grid::FederatedGrid;
use crate::queue::ObjectKey;
use crate::reflector::Change;
use parking_lot::RwLock;

/// Copies and mirrors by the grid they stand for.
#[derive(Clone, Default)]
pub(crate) struct Copies(Arc<RwLock<Index>>);

/// A grid, and where its copies and mirrors are.
type Index = BTreeMap<(ObjectKind, ObjectKey), BTreeSet<ObjectKey>>;

impl Copies {
    /// Where the copies and mirrors of a grid are.
    pub(crate) fn keys(&self, kind: ObjectKind, grid: &ObjectKey) -> Vec<ObjectKey> {
        let index = self.0.read();
        let found = index.get(&(kind, grid.clone()));
        found.into_iter().flatten().cloned().collect()
    }

    /// Takes a change in and returns the grids whose copies it concerns.
    pub(crate) fn apply<K: FederatedGrid>(&self, change: &Change<K>) -> BTreeSet<ObjectKey> {
        let mut index = self.0.write();
        let own = change.key();
        let mut concerned = BTreeSet::new();
        if let Some(grid) = change.before().and_then(|old| stands_for(old.meta())) {
            if let Some(copies) = index.get_mut(&(K::KIND, grid.clone())) {
                copies.remove(&own);
                if copies.is_empty() {
                    index.remove(&(K::KIND, grid.clone()));
                }
            }
            concerned.insert(grid);
        }
        if let Some(grid) = change.after().and_then(|new| stands_for(new.meta())) {
            let copies = index.entry((K::KIND, grid.clone())).or_default();
            copies.insert(own);
            concerned.insert(grid);
        }
        concerned
    }
}
