//! Which pods a rolling update may delete now: outdated ones from the highest index down to the
//! partition, never more than may be unavailable. The rules of `order` create them again.

use std::sync::Arc;

use super::order::{Lineup, Replica};
use super::pod::Pod;
use super::set::{Management, Set};
use super::{Step, World};

pub(super) fn deletions(world: &World, revision: &str, lineup: &Lineup) -> Vec<Step> {
    let set = &world.set;
    let is_unavailable = |pod: &Pod| pod.is_unavailable(set.min_ready, world.now);
    let missing_or_unavailable =
        |replica: &&Replica| replica.pod.as_deref().is_none_or(is_unavailable);
    let unavailable = lineup
        .replicas
        .iter()
        .filter(missing_or_unavailable)
        .count();
    let budget = set.max_unavailable() - i64::try_from(unavailable).unwrap_or(i64::MAX);
    let candidates = candidates(set, revision, lineup);
    match set.management {
        Management::OrderedReady => {
            let budget = usize::try_from(budget).unwrap_or(0);
            candidates
                .into_iter()
                .take(budget)
                .map(|pod| Step::delete(pod))
                .collect()
        }
        // A pod that is not available already costs nothing to replace, or one that is stuck on the
        // old template would block the rollout that repairs it.
        Management::Parallel => {
            let (stuck, healthy): (Vec<_>, Vec<_>) =
                candidates.into_iter().partition(|pod| is_unavailable(pod));
            let budget = usize::try_from(budget).unwrap_or(0);
            stuck
                .into_iter()
                .chain(healthy.into_iter().take(budget))
                .map(|pod| Step::delete(pod))
                .collect()
        }
    }
}

/// Outdated pods at or above the partition that are not on their way out, highest first.
fn candidates<'a>(set: &Set, revision: &str, lineup: &'a Lineup) -> Vec<&'a Arc<Pod>> {
    let first = set.start + set.partition();
    let above = lineup
        .replicas
        .iter()
        .rev()
        .filter(|replica| replica.ordinal >= first);
    let is_outdated = |pod: &&Arc<Pod>| pod.revision() != revision && !pod.is_terminating;
    above
        .filter_map(|replica| replica.pod.as_ref())
        // A finished pod is deleted anyway, to be made anew.
        .filter(|pod| is_outdated(pod) && !pod.is_finished())
        .collect()
}
