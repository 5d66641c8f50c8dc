//! Pods in their order: which are missing, which are too many, and who waits for whom.
//!
//! Ordered sets take one step and stop wherever a pod is not available yet; parallel sets take all
//! steps at once. Scaling comes before updating.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::claim::{claim_name, new_claim};
use super::identity::NO_ORDINAL;
use super::pod::{Phase, Pod};
use super::retention::{self, ClaimPod, Owners};
use super::revision::{Chosen, Template};
use super::set::{Management, Set, Strategy};
use super::{ClaimStep, Pace, Plan, Purpose, Step, World, identity, notice};

/// Pods to create in one pass at most; those that are still missing then come in the next.
const MAX_MISSING: i64 = 1000;

/// A set's pods, parted into those that it wants and those that it does not.
pub(super) struct Lineup {
    /// The wanted ordinals, lowest first.
    pub(super) replicas: Vec<Replica>,
    /// Pods that are not wanted, highest ordinal first.
    pub(super) condemned: Vec<Arc<Pod>>,
}

/// A wanted ordinal, and its pod if there is one.
pub(super) struct Replica {
    pub(super) ordinal: i64,
    pub(super) pod: Option<Arc<Pod>>,
}

/// Whether later passes may act in this decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// Something must happen first.
    Waiting,
    /// Nothing left to do for the scale of the set.
    Settled,
}

impl Lineup {
    pub(super) fn pods(&self) -> impl Iterator<Item = &Pod> {
        let wanted = self.replicas.iter().filter_map(|it| it.pod.as_deref());
        wanted.chain(self.condemned.iter().map(AsRef::as_ref))
    }
}

pub(super) fn line_up_pods(set: &Set, pods: &[Arc<Pod>]) -> Lineup {
    let (mut wanted, mut condemned) = (BTreeMap::new(), BTreeMap::new());
    for pod in pods {
        match identity::ordinal(&set.name, &pod.name) {
            Some(ordinal) if set.wants(ordinal) => wanted.insert(ordinal, pod.clone()),
            Some(ordinal) if ordinal != NO_ORDINAL => condemned.insert(ordinal, pod.clone()),
            _ => None,
        };
    }
    Lineup {
        replicas: replicas(set, wanted),
        condemned: condemned.into_values().rev().collect(),
    }
}

/// Wanted ordinals with their pods. Only so many without one: a set may want two billion pods.
fn replicas(set: &Set, wanted: BTreeMap<i64, Arc<Pod>>) -> Vec<Replica> {
    let mut replicas = Vec::new();
    let (mut next, mut left) = (set.start, MAX_MISSING);
    let mut fill = |replicas: &mut Vec<Replica>, from: i64, to: i64| {
        let count = (to - from).min(left);
        left -= count;
        replicas.extend((from..from + count).map(|ordinal| Replica { ordinal, pod: None }));
    };
    for (ordinal, pod) in wanted {
        fill(&mut replicas, next, ordinal);
        next = ordinal + 1;
        replicas.push(Replica {
            ordinal,
            pod: Some(pod),
        });
    }
    fill(&mut replicas, next, set.start + set.replicas);
    replicas
}

/// Adds what the scale of the set needs.
pub(super) fn plan_scale(world: &World, chosen: &Chosen, lineup: &Lineup, plan: &mut Plan) -> Flow {
    let scale = Scale { world, chosen };
    match world.set.management {
        Management::OrderedReady => {
            let mut steps = Vec::new();
            let flow = scale.process_one_by_one(lineup, plan, &mut steps);
            plan.stage(Pace::OneByOne, Purpose::Scale, steps);
            flow
        }
        Management::Parallel => {
            scale.process_all_at_once(lineup, plan);
            Flow::Settled
        }
    }
}

struct Scale<'a> {
    world: &'a World,
    chosen: &'a Chosen,
}

impl Scale<'_> {
    fn process_one_by_one(&self, lineup: &Lineup, plan: &mut Plan, steps: &mut Vec<Step>) -> Flow {
        for replica in &lineup.replicas {
            let step = self.process_replica(replica, plan);
            let must_wait = match &replica.pod {
                None => true,
                Some(pod) => pod.is_finished() || self.blocks_others(pod),
            };
            steps.extend(step);
            if must_wait {
                return Flow::Waiting;
            }
        }
        steps.extend(
            lineup
                .condemned
                .iter()
                .filter_map(|pod| self.update_claim_owners(pod, plan)),
        );
        let first_unavailable = self.first_unavailable(lineup);
        // One at a time: the highest goes, and the others wait until it is gone.
        let Some(pod) = lineup.condemned.first() else {
            return Flow::Settled;
        };
        let is_first_unavailable = first_unavailable.is_some_and(|first| first.uid == pod.uid);
        let may_go = pod.is_finished() || is_first_unavailable || !self.blocks_others(pod);
        steps.extend((may_go && !pod.is_terminating).then(|| Step::delete(pod)));
        Flow::Waiting
    }

    fn process_all_at_once(&self, lineup: &Lineup, plan: &mut Plan) {
        let mut steps = Vec::new();
        for replica in &lineup.replicas {
            steps.extend(self.process_replica(replica, plan));
        }
        plan.stage(Pace::SlowStart, Purpose::Scale, steps);
        let updates: Vec<_> = lineup
            .condemned
            .iter()
            .filter_map(|pod| self.update_claim_owners(pod, plan))
            .collect();
        plan.stage(Pace::SlowStart, Purpose::Scale, updates);
        let leaving = lineup.condemned.iter().filter(|pod| !pod.is_terminating);
        plan.stage(
            Pace::SlowStart,
            Purpose::Scale,
            leaving.map(|pod| Step::delete(pod)).collect(),
        );
    }

    /// What a wanted ordinal needs.
    fn process_replica(&self, replica: &Replica, plan: &mut Plan) -> Option<Step> {
        match &replica.pod {
            None => self.create_pod(replica.ordinal, plan),
            Some(pod) if pod.is_finished() => (!pod.is_terminating).then(|| Step::delete(pod)),
            Some(pod) => {
                let is_ordered = self.world.set.management == Management::OrderedReady;
                if is_ordered && self.blocks_others(pod) {
                    return (pod.phase == Phase::Pending)
                        .then(|| self.repair_claims(pod, replica.ordinal, plan))
                        .flatten();
                }
                self.repair_pod(pod, replica.ordinal, plan)
            }
        }
    }

    fn create_pod(&self, ordinal: i64, plan: &mut Plan) -> Option<Step> {
        let set = &self.world.set;
        let name = identity::pod_name(&set.name, ordinal);
        let pod = ClaimPod {
            name: &name,
            uid: "",
            ordinal,
        };
        let being_deleted: Vec<String> = super::claim_names(set, ordinal)
            .filter(|claim| {
                let claim = self.world.claims.get(claim);
                claim.is_some_and(|claim| retention::is_being_deleted(pod, claim))
            })
            .collect();
        if !being_deleted.is_empty() {
            plan.awaited_claims.extend(being_deleted);
            return None;
        }
        Some(Step::CreatePod {
            body: identity::new_pod(set, self.template_of(ordinal), ordinal),
            claims: self.claim_steps(pod, Missing::Create, plan),
            name,
        })
    }

    /// A pod that stays: its identity, its storage and its claims must be right.
    fn repair_pod(&self, pod: &Pod, ordinal: i64, plan: &mut Plan) -> Option<Step> {
        let set = &self.world.set;
        let has_storage = identity::has_storage(set, pod, ordinal);
        let is_right = identity::has_identity(pod) && has_storage;
        if is_right && pod.phase == Phase::Pending {
            return self.repair_claims(pod, ordinal, plan);
        }
        let missing = if pod.phase == Phase::Pending || !has_storage {
            Missing::Create
        } else {
            Missing::Ignore
        };
        let claims = self.claim_steps(claim_pod(pod, ordinal), missing, plan);
        let patch = (!is_right).then(|| self.repair_patch(pod, ordinal, has_storage));
        (patch.is_some() || !claims.is_empty()).then(|| Step::UpdatePod {
            name: pod.name.clone(),
            patch,
            claims,
        })
    }

    fn repair_patch(&self, pod: &Pod, ordinal: i64, has_storage: bool) -> Value {
        let labels = identity::identity_labels(&pod.name, ordinal);
        let mut patch = json!({ "metadata": { "uid": pod.uid, "labels": labels } });
        if !has_storage {
            // Refused by the API server, as volumes cannot change: the event says what is wrong.
            patch["spec"] = json!({ "volumes": identity::claim_volumes(&self.world.set, ordinal) });
        }
        patch
    }

    fn repair_claims(&self, pod: &Pod, ordinal: i64, plan: &mut Plan) -> Option<Step> {
        let claims = self.claim_steps(claim_pod(pod, ordinal), Missing::Create, plan);
        (!claims.is_empty()).then(|| Step::RepairClaims {
            pod: pod.name.clone(),
            claims,
        })
    }

    /// The claims of a condemned pod get the owners that the policy wants.
    fn update_claim_owners(&self, pod: &Pod, plan: &mut Plan) -> Option<Step> {
        let ordinal = identity::ordinal(&self.world.set.name, &pod.name)?;
        let claims = self.claim_steps(claim_pod(pod, ordinal), Missing::Ignore, plan);
        (!claims.is_empty()).then(|| Step::RepairClaims {
            pod: pod.name.clone(),
            claims,
        })
    }

    fn claim_steps(&self, pod: ClaimPod<'_>, missing: Missing, plan: &mut Plan) -> Vec<ClaimStep> {
        let set = &self.world.set;
        let mut steps = Vec::new();
        for template in &set.claim_templates {
            let name = claim_name(template, &set.name, pod.ordinal);
            let Some(claim) = self.world.claims.get(&name) else {
                let body = || new_claim(set, template, pod.ordinal);
                steps.extend(
                    (missing == Missing::Create).then(|| ClaimStep::Create { body: body(), name }),
                );
                continue;
            };
            if claim.is_terminating && missing == Missing::Create {
                plan.awaited_claims.push(name.clone());
                steps.push(ClaimStep::Await { name });
                continue;
            }
            let owners = retention::owners(set, pod, claim);
            let is_concerned = missing == Missing::Create || owners != Owners::Fine;
            if is_concerned && retention::has_unexpected_controller(set, pod, claim) {
                plan.events.push(notice::conflicting_controller(&name));
            }
            if let Owners::Wrong(owners) = owners {
                steps.push(ClaimStep::SetOwners {
                    name,
                    resource_version: claim.resource_version.clone(),
                    owners,
                });
            }
        }
        steps
    }

    /// The template that a new pod gets. The partition is an index, not an ordinal.
    fn template_of(&self, ordinal: i64) -> &Template {
        let set = &self.world.set;
        let index = ordinal - set.start;
        let is_old = match &set.strategy {
            Strategy::RollingUpdate(None) => index < set.status.current_replicas,
            Strategy::RollingUpdate(Some(limits)) => index < limits.partition,
            _ => false,
        };
        if is_old {
            &self.chosen.current
        } else {
            &self.chosen.update
        }
    }

    /// The lowest pod that blocks others, so that it may go although it is not available. Called when
    /// every wanted pod is available. Nobody waits for one that is finished: it would be for ever.
    fn first_unavailable<'a>(&self, lineup: &'a Lineup) -> Option<&'a Arc<Pod>> {
        let mut lowest_first = lineup.condemned.iter().rev();
        lowest_first.find(|pod| self.blocks_others(pod) && !pod.is_finished())
    }

    /// Others of an ordered set wait for it.
    fn blocks_others(&self, pod: &Pod) -> bool {
        pod.is_terminating
            || !pod.is_running_and_ready()
            || !pod.is_available(self.world.set.min_ready, self.world.now)
    }
}

/// What a claim that does not exist means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Create,
    Ignore,
}

fn claim_pod(pod: &Pod, ordinal: i64) -> ClaimPod<'_> {
    ClaimPod {
        name: &pod.name,
        uid: &pod.uid,
        ordinal,
    }
}
