//! Units that keep pods on nodes which the cluster has not reached for long.
//!
//! `whenUnreachable: Keep` is right while a link is cut and wrong once the machine is dead, and the cluster cannot
//! tell the two apart: so people are told, once, and how to say which it is.

use std::collections::BTreeSet;
use std::time::Duration;

use edgegrid_api::WhenUnreachable;
use jiff::Timestamp;

use crate::conditions::listed;
use crate::grid::Grid;
use crate::step::Plan;

/// A cut that lasts this long is told.
const TOLD_AFTER: Duration = Duration::from_mins(10);

/// A node that the cluster no longer reaches, in a unit of a grid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreachableNode {
    /// Name of the unit.
    pub unit: String,
    /// Name of the node.
    pub node: String,
    /// Since when it is not reached.
    pub since: Timestamp,
}

/// Whether a grid keeps pods on nodes that cannot be reached.
pub fn is_kept(when_unreachable: Option<&WhenUnreachable>) -> bool {
    when_unreachable == Some(&WhenUnreachable::Keep)
}

/// The nodes that are to be told of; those that may become so are looked at again then.
pub(crate) fn long_unreachable(
    grid: &Grid,
    nodes: &[UnreachableNode],
    now: Timestamp,
    plan: &mut Plan,
) -> BTreeSet<UnreachableNode> {
    let mut told = BTreeSet::new();
    if !is_kept(grid.when_unreachable.as_ref()) {
        return told;
    }
    for node in nodes {
        let due = node.since.checked_add(TOLD_AFTER).unwrap_or(Timestamp::MAX);
        if due <= now {
            told.insert(node.clone());
        } else {
            plan.recheck_at(due, now);
        }
    }
    told
}

/// Which pods are kept where, and the ways out; the same words as long as it is the same nodes.
pub(crate) fn describe(nodes: &BTreeSet<UnreachableNode>) -> Option<String> {
    let first = &nodes.first()?.node;
    let units: BTreeSet<&str> = nodes.iter().map(|node| node.unit.as_str()).collect();
    let names: BTreeSet<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
    let (units, names) = (listed(units), listed(names));
    Some(format!(
        "units {units}: the cluster has not reached nodes {names} for more than 10 minutes, and whenUnreachable: Keep \
         leaves their pods in place. If only the link is cut, nothing is to be done. If a machine is dead, its pods \
         start elsewhere in the site after `kubectl delete node {first}`, or after \
         `kubectl taint node {first} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`"
    ))
}
