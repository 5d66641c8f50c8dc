//! The rules of a StatefulSet, as one pure question: what is to be done about this set, now?
//!
//! ```text
//! World (set, pods, claims, revisions, now)
//!   ─► ownership: adopt, release        ─► revision: current and update, create or renumber
//!   ─► order: missing, failed, condemned ─► update: what a rollout may delete
//!   ─► Plan (stages of steps, status, events, when to look again)
//! ```
//!
//! Planning a world that is as wanted gives a plan without steps. Steps may be stopped anywhere: the
//! next plan goes on from what is there.

mod canonical;
mod claim;
mod history;
mod identity;
mod notice;
mod order;
mod ownership;
mod pod;
mod retention;
mod revision;
mod set;
mod status;
mod update;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;

pub use canonical::text as canonical_text;
pub use claim::{Claim, claim_name, claim_names};
pub use identity::{ordinal, pod_name, set_reference};
pub use notice::{Notice, Verb, claim_notice, foreign_controller, pod_notice};
pub use pod::{Owner, Phase, Pod, Readiness, Spec as PodSpec, Status as PodStatus};
pub use revision::{
    Revision, Template, hash, is_template_of, payload, possibly_equivalent, revision_name,
    with_template_of,
};
pub use set::{
    ClaimRetention, Limits, Management, ParseError, RetentionPolicy, Set, Share, Strategy,
};
pub use status::Status;

/// All that a decision rests on.
#[derive(Debug, Clone)]
pub struct World {
    /// The StatefulSet that is planned.
    pub set: Arc<Set>,
    /// Pods that it controls, and pods of its namespace that nobody controls.
    pub pods: Vec<Arc<Pod>>,
    /// Claims of its pods, by name.
    pub claims: BTreeMap<String, Arc<Claim>>,
    /// Revisions that it controls, and those of its namespace that nobody controls.
    pub revisions: Vec<Arc<Revision>>,
    /// Hash collisions known so far.
    pub collisions: i64,
    /// Latest revision, if the API server said that it is the set's template but for new defaults.
    pub equivalent: Option<String>,
    /// The one instant of this decision.
    pub now: Timestamp,
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// In this order; a stage with a failure is the last one.
    pub stages: Vec<Stage>,
    /// Revisions to forget, whatever became of the stages about pods.
    pub forget: Vec<Step>,
    /// The status before a rollout's deletions; see [`Status::after`].
    pub status: Status,
    /// Events beside those of the steps themselves.
    pub events: Vec<Notice>,
    /// When to plan again although nothing happened.
    pub recheck: Option<Duration>,
    /// Claims that must change before the plan can go on.
    pub awaited_claims: Vec<String>,
}

/// Steps that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// How they are taken.
    pub pace: Pace,
    /// What they are for.
    pub purpose: Purpose,
    /// Steps of the stage, in their order.
    pub steps: Vec<Step>,
}

/// How steps are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// One after the other, stopping at a failure.
    OneByOne,
    /// One, then two, then four and so on at once, stopping after a batch with a failure.
    SlowStart,
}

/// What a stage is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Adopting and releasing pods and revisions.
    Ownership,
    /// The revisions of the set.
    Revision,
    /// The wanted and the condemned pods.
    Scale,
    /// Deleting pods for a rollout.
    Rollout,
}

/// One write, or a few that belong to one pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Take an orphaned revision.
    AdoptRevision {
        /// Name of the revision.
        name: String,
        /// Precondition: the revision still has this uid.
        uid: String,
    },
    /// Store the set's template.
    CreateRevision {
        /// Name of the revision.
        name: String,
        /// The whole revision as it is sent.
        body: Value,
    },
    /// Make a stored template the latest one again.
    RenumberRevision {
        /// Name of the revision.
        name: String,
        /// Precondition: the revision still has this version.
        resource_version: String,
        /// Its new number in the history.
        number: i64,
    },
    /// Delete the revision of a template that nothing uses.
    DeleteRevision {
        /// Name of the revision.
        name: String,
        /// Precondition: the revision still has this uid.
        uid: String,
    },
    /// Take an orphaned pod.
    AdoptPod {
        /// Name of the pod.
        name: String,
        /// Precondition: the pod still has this uid.
        uid: String,
    },
    /// Let a pod go that does not match any more.
    ReleasePod {
        /// Name of the pod.
        name: String,
        /// Precondition: the pod still has this uid.
        uid: String,
    },
    /// Make a pod, its claims first.
    CreatePod {
        /// Name of the pod.
        name: String,
        /// The whole pod as it is sent.
        body: Value,
        /// What the claims of the pod need.
        claims: Vec<ClaimStep>,
    },
    /// Make the claims of a pod right.
    RepairClaims {
        /// Name of the pod that uses the claims.
        pod: String,
        /// What the claims of the pod need.
        claims: Vec<ClaimStep>,
    },
    /// Give a pod its identity back.
    UpdatePod {
        /// Name of the pod.
        name: String,
        /// A strategic merge patch, unless only its claims are wrong.
        patch: Option<Value>,
        /// What the claims of the pod need.
        claims: Vec<ClaimStep>,
    },
    /// Delete this pod and no successor of its name.
    DeletePod {
        /// Name of the pod.
        name: String,
        /// Precondition: the pod still has this uid.
        uid: String,
    },
}

/// What a pod's claim needs.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimStep {
    /// The claim does not exist.
    Create {
        /// Name of the claim.
        name: String,
        /// The whole claim as it is sent.
        body: Value,
    },
    /// It is on its way out: the pod must wait.
    Await {
        /// Name of the claim.
        name: String,
    },
    /// Its owners are wrong.
    SetOwners {
        /// Name of the claim.
        name: String,
        /// Precondition: the claim still has this version.
        resource_version: String,
        /// All owners it shall have.
        owners: Vec<OwnerReference>,
    },
}

/// Decides what is to be done.
pub fn plan(world: &World) -> Plan {
    let set = &world.set;
    if let Strategy::Unknown(strategy) = &set.strategy {
        return Plan {
            status: set.status.clone(),
            events: vec![notice::unknown_strategy(strategy)],
            ..Plan::default()
        };
    }
    let history = revision::history(world);
    let chosen = revision::choose_revisions(world, &history);
    let claimed = ownership::claim_pods(world);
    let base = Status {
        observed_generation: set.generation,
        current_revision: chosen.current.name.clone(),
        update_revision: chosen.update.name.clone(),
        collision_count: world.collisions,
        ..Status::default()
    };
    if set.is_deleting {
        let pods = claimed.pods.iter().map(AsRef::as_ref);
        return Plan {
            status: base.count(set, pods, world.now),
            recheck: recheck(world, &claimed.pods),
            ..Plan::default()
        };
    }
    let lineup = order::line_up_pods(set, &claimed.pods);
    let mut plan = Plan {
        status: base.count(set, lineup.pods(), world.now),
        recheck: recheck(world, &claimed.pods),
        ..Plan::default()
    };
    plan.forget = history::surplus(set, &history, &chosen, &claimed.pods)
        .iter()
        .map(|revision| Step::forget(revision))
        .collect();
    let mut ownership = ownership::adopt_revisions(set, &history);
    ownership.extend(claimed.steps);
    plan.stage(Pace::OneByOne, Purpose::Ownership, ownership);
    let revision = chosen.step.clone().into_iter().collect();
    plan.stage(Pace::OneByOne, Purpose::Revision, revision);
    plan_scale_and_rollout(world, &chosen, &lineup, &mut plan);
    plan
}

/// Adds what the scale of the set needs, and its rollout if it needs nothing.
fn plan_scale_and_rollout(
    world: &World,
    chosen: &revision::Chosen,
    lineup: &order::Lineup,
    plan: &mut Plan,
) {
    let flow = order::plan_scale(world, chosen, lineup, plan);
    if let (Strategy::RollingUpdate(_), order::Flow::Settled) = (&world.set.strategy, flow) {
        let steps = update::deletions(world, &chosen.update.name, lineup);
        plan.stage(Pace::OneByOne, Purpose::Rollout, steps);
    }
}

impl World {
    /// Collisions before this decision began: the label of a revision keeps its first hash.
    fn first_collisions(&self) -> i64 {
        self.set.status.collision_count
    }
}

impl Plan {
    fn stage(&mut self, pace: Pace, purpose: Purpose, steps: Vec<Step>) {
        if !steps.is_empty() {
            self.stages.push(Stage {
                pace,
                purpose,
                steps,
            });
        }
    }

    /// All steps in their order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        let staged = self.stages.iter().flat_map(|stage| &stage.steps);
        staged.chain(&self.forget)
    }
}

impl Step {
    /// This pod and no successor of its name.
    fn delete(pod: &Pod) -> Self {
        Self::DeletePod {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }

    fn forget(revision: &Revision) -> Self {
        Self::DeleteRevision {
            name: revision.name.clone(),
            uid: revision.uid.clone(),
        }
    }

    fn renumber(revision: &Revision, number: i64) -> Self {
        Self::RenumberRevision {
            name: revision.name.clone(),
            resource_version: revision.resource_version.clone(),
            number,
        }
    }
}

/// When the next ready pod becomes available, if that is a matter of time.
fn recheck(world: &World, pods: &[Arc<Pod>]) -> Option<Duration> {
    let min_ready = world.set.min_ready;
    let left = |pod: &Arc<Pod>| match pod.readiness {
        _ if !pod.is_running_and_ready() || pod.is_available(min_ready, world.now) => None,
        Readiness::NotReady => None,
        Readiness::Ready { since: None } => Some(min_ready),
        Readiness::Ready { since: Some(since) } => {
            Some(min_ready - world.now.duration_since(since))
        }
    };
    let soonest: SignedDuration = pods.iter().filter_map(left).min()?;
    Duration::try_from(soonest).ok()
}

/// A resource version as a number; nothing is older than one that cannot be read.
pub(crate) fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}
