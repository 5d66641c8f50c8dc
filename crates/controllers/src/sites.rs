//! NodeUnits and NodeGroups as they bear on nodes, looked at once per change and not once per node;
//! and which nodes could not be written.

use std::collections::BTreeMap;
use std::sync::Arc;

use edgegrid_plan::site::Sites;

use crate::caches::Caches;
use parking_lot::{Mutex, MutexGuard};

/// The latest look at all units and groups.
#[derive(Clone, Default)]
pub struct SiteView(Arc<Mutex<Option<Arc<Sites>>>>);

impl SiteView {
    /// All units and groups as the caches show them.
    pub fn of(&self, caches: &Caches) -> Arc<Sites> {
        let mut seen = self.0.lock();
        let look = || {
            let (units, groups) = (caches.node_units.state(), caches.node_groups.state());
            Arc::new(Sites::new(&units, &groups))
        };
        seen.get_or_insert_with(look).clone()
    }

    /// A unit or group changed: the next one who asks looks again.
    pub fn changed(&self) {
        *self.0.lock() = None;
    }
}

/// Nodes whose last write failed, and why: units report it.
#[derive(Clone, Default)]
pub struct NodeFailures(Arc<Mutex<BTreeMap<String, String>>>);

impl NodeFailures {
    /// All of them.
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
