//! The workloads and Services that carry a grid's label, by grid.
//!
//! A pass over one grid must not read the children of all others: with a hundred grids of a
//! hundred units each event would cost ten thousand looks. They are found by name as well, because two
//! grids may want the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use edgegrid_api::names::label;
use edgegrid_plan::Child;
use edgegrid_plan::unit_names::label_value;

use crate::queue::{ObjectKey, key};
use crate::reflector::Change;
use parking_lot::RwLock;

/// Children of one kind, by the grids they name.
#[derive(Clone, Default)]
pub struct Children(Arc<RwLock<Index>>);

#[derive(Default)]
struct Index {
    /// Grid to its children by name.
    by_grid: BTreeMap<ObjectKey, BTreeMap<String, Arc<Child>>>,
    /// All, by namespace and name.
    by_name: BTreeMap<ObjectKey, Arc<Child>>,
}

impl Children {
    /// The children that name this grid as their owner or in their label.
    pub fn of_grid(&self, grid: &ObjectKey) -> Vec<Arc<Child>> {
        let index = self.0.read();
        index
            .by_grid
            .get(grid)
            .map(|children| children.values().cloned().collect())
            .unwrap_or_default()
    }

    /// The same by the grid's name and, for a name too long for a label, by what stands for it.
    pub(crate) fn of_name(&self, namespace: &str, grid: &str) -> Vec<Arc<Child>> {
        let of = |name: &str| self.of_grid(&(namespace.to_owned(), name.to_owned()));
        let mut found = of(grid);
        let selector = label_value(grid);
        if selector != grid {
            found.extend(of(&selector));
            found.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
            found.dedup_by(|a, b| a.metadata.name == b.metadata.name);
        }
        found
    }

    /// The child of this namespace and name, whichever grid it names.
    pub fn get(&self, child: &ObjectKey) -> Option<Arc<Child>> {
        let index = self.0.read();
        index.by_name.get(child).cloned()
    }

    /// Takes a change in and returns the grids it concerns.
    pub fn apply(&self, change: &Change<Child>) -> BTreeSet<ObjectKey> {
        let mut index = self.0.write();
        let mut concerned = BTreeSet::new();
        if let Some(old) = change.before() {
            index.by_name.remove(&key(&**old));
            for grid in grids(old) {
                if let Some(of_grid) = index.by_grid.get_mut(&grid) {
                    of_grid.remove(name(old));
                    if of_grid.is_empty() {
                        index.by_grid.remove(&grid);
                    }
                }
                concerned.insert(grid);
            }
        }
        if let Some(new) = change.after() {
            index.by_name.insert(key(&**new), new.clone());
            for grid in grids(new) {
                let of_grid = index.by_grid.entry(grid.clone()).or_default();
                of_grid.insert(name(new).to_owned(), new.clone());
                concerned.insert(grid);
            }
        }
        concerned
    }
}

fn name(child: &Child) -> &str {
    child.metadata.name.as_deref().unwrap_or_default()
}

/// The grids that a child names: its controller and its label's. They differ only when somebody
/// edited one of them; then both should look.
fn grids(child: &Child) -> BTreeSet<ObjectKey> {
    let metadata = &child.metadata;
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let owner = metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true) && owner.api_version == API_VERSION)
        .map(|owner| owner.name.clone());
    let labelled = metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(label::GRID_SELECTOR).cloned());
    owner
        .into_iter()
        .chain(labelled)
        .map(|grid| (namespace.clone(), grid))
        .collect()
}

const API_VERSION: &str = "superedge.io/v1";

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    fn child(name: &str, labelled: Option<&str>, owner: Option<&str>) -> Arc<Child> {
        let mut child = Child::default();
        child.metadata.name = Some(name.into());
        child.metadata.namespace = Some("shop".into());
        child.metadata.labels =
            labelled.map(|grid| BTreeMap::from([(label::GRID_SELECTOR.into(), grid.into())]));
        child.metadata.owner_references = owner.map(|grid| {
            vec![OwnerReference {
                api_version: API_VERSION.into(),
                name: grid.into(),
                controller: Some(true),
                ..OwnerReference::default()
            }]
        });
        Arc::new(child)
    }

    fn grid(name: &str) -> ObjectKey {
        ("shop".into(), name.into())
    }

    #[test]
    fn a_child_whose_label_was_edited_concerns_its_owner_and_the_grid_it_names() {
        let children = Children::default();
        let before = child("web-a", Some("web"), Some("web"));
        let after = child("web-a", Some("other"), Some("web"));
        children.apply(&Change::Added(before.clone()));
        let concerned = children.apply(&Change::Changed {
            old: before,
            new: after,
        });
        assert_eq!(concerned, BTreeSet::from([grid("other"), grid("web")]));
        assert_eq!(children.of_grid(&grid("other")).len(), 1);
        assert_eq!(children.of_grid(&grid("web")).len(), 1);
    }

    #[test]
    fn a_child_that_is_gone_is_found_no_more() {
        let children = Children::default();
        let only = child("web-a", Some("web"), None);
        children.apply(&Change::Added(only.clone()));
        assert!(children.get(&("shop".into(), "web-a".into())).is_some());
        assert_eq!(
            children.apply(&Change::Removed(only)),
            BTreeSet::from([grid("web")])
        );
        assert!(children.of_grid(&grid("web")).is_empty());
        assert!(children.get(&("shop".into(), "web-a".into())).is_none());
    }
}
