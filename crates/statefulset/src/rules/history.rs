//! How much of the past is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::pod::Pod;
use super::revision::{Chosen, Revision};
use super::set::Set;

/// Revisions that nothing uses any more and that are too many: the oldest.
pub(super) fn surplus(
    set: &Set,
    history: &[Arc<Revision>],
    chosen: &Chosen,
    pods: &[Arc<Pod>],
) -> Vec<Arc<Revision>> {
    let Ok(limit) = usize::try_from(set.history_limit) else {
        return Vec::new();
    };
    let mut live: BTreeSet<&str> = pods.iter().map(|pod| pod.revision()).collect();
    live.extend([chosen.current.name.as_str(), chosen.update.name.as_str()]);
    let is_past = |revision: &&Arc<Revision>| !live.contains(revision.name.as_str());
    let past: Vec<_> = history.iter().filter(is_past).cloned().collect();
    let too_many = past.len().saturating_sub(limit);
    past.into_iter().take(too_many).collect()
}
