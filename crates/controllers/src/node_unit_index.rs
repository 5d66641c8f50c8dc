//! Which NodeUnits and NodeGroups claim which node, worked out once per change and not once per node;
//! and which nodes could not be written.

use std::collections::BTreeMap;
use std::sync::Arc;

use edgegrid_plan::membership::NodeUnits;
use parking_lot::{Mutex, MutexGuard};

use crate::caches::Caches;

/// All NodeUnits and NodeGroups, worked out again when one of them changed.
#[derive(Clone, Default)]
pub struct NodeUnitIndex(Arc<Mutex<Option<Arc<NodeUnits>>>>);

impl NodeUnitIndex {
    /// All NodeUnits and groups as the caches show them.
    pub fn current(&self, caches: &Caches) -> Arc<NodeUnits> {
        let mut seen = self.0.lock();
        let compute = || {
            let (units, groups) = (caches.node_units.state(), caches.node_groups.state());
            Arc::new(NodeUnits::new(&units, &groups))
        };
        seen.get_or_insert_with(compute).clone()
    }

    /// To be called when a NodeUnit or group changed: the next caller of [`Self::current`] gets fresh ones.
    pub fn invalidate(&self) {
        *self.0.lock() = None;
    }
}

/// Nodes whose last write failed, and why: NodeUnits report it.
#[derive(Clone, Default)]
pub struct NodeFailures(Arc<Mutex<BTreeMap<String, String>>>);

impl NodeFailures {
    /// Each such node, with the error of its last write.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.failures().clone()
    }

    /// Notes how the last write of a node went; says whether that is news.
    pub fn note(&self, node: &str, failure: Option<String>) -> bool {
        let mut failures = self.failures();
        if failures.get(node) == failure.as_ref() {
            return false;
        }
        match failure {
            Some(failure) => failures.insert(node.to_owned(), failure),
            None => failures.remove(node),
        };
        true
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::NodeFailures;

    #[test]
    fn only_a_change_of_a_nodes_failure_is_news() {
        let failures = NodeFailures::default();
        assert!(!failures.note("a", None));
        assert!(failures.note("a", Some("refused".into())));
        assert!(!failures.note("a", Some("refused".into())));
        assert!(failures.note("a", None) && failures.all().is_empty());
    }
}
