//! Which pods are the set's: those it controls and that match it; orphans that match are adopted, and
//! what no longer matches is let go.

use std::sync::Arc;

use kube::core::SelectorExt;

use super::pod::Pod;
use super::revision::Revision;
use super::set::Set;
use super::{Step, World, identity};

/// The pods of a set, and what has to be written for them to be so.
pub(super) struct Claimed {
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) steps: Vec<Step>,
}

pub(super) fn claim_pods(world: &World) -> Claimed {
    let set = &world.set;
    let mut claimed = Claimed {
        pods: Vec::new(),
        steps: Vec::new(),
    };
    for pod in &world.pods {
        let is_ours = pod.owner.as_ref().map(|owner| owner.uid == set.uid);
        match (is_ours, is_match(set, pod)) {
            (Some(true), true) => claimed.pods.push(pod.clone()),
            (Some(true), false) if set.is_deleting => {}
            (Some(true), false) => claimed.steps.push(Step::ReleasePod {
                name: pod.name.clone(),
                uid: pod.uid.clone(),
            }),
            (None, true) if !set.is_deleting && !pod.is_terminating => {
                claimed.steps.push(Step::AdoptPod {
                    name: pod.name.clone(),
                    uid: pod.uid.clone(),
                });
                claimed.pods.push(pod.clone());
            }
            (None | Some(false), _) => {}
        }
    }
    claimed
}

/// Orphaned revisions that become the set's.
pub(super) fn adopt_revisions(set: &Set, history: &[Arc<Revision>]) -> Vec<Step> {
    if set.is_deleting {
        return Vec::new();
    }
    let orphans = history.iter().filter(|revision| revision.owner.is_none());
    let adopt = |revision: &Arc<Revision>| Step::AdoptRevision {
        name: revision.name.clone(),
        uid: revision.uid.clone(),
    };
    orphans.map(adopt).collect()
}

fn is_match(set: &Set, pod: &Pod) -> bool {
    set.selector.matches(&pod.labels) && identity::ordinal(&set.name, &pod.name).is_some()
}
