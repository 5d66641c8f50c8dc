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
use super::retention::{self, Holder, Owners};
use super::revision::{Chosen, Template};
use super::set::{Management, Set, Strategy};
use super::{ClaimStep, Pace, Plan, Purpose, Step, World, identity, notice};

/// Pods to make in one pass at most; those that are still missing then come in the next.
const MOST_MISSING: i64 = 1000;

/// A set's pods by place.
pub(super) struct Lineup {
    /// The wanted ordinals, lowest first.
    pub(super) places: Vec<Place>,
    /// Pods that are not wanted, highest ordinal first.
    pub(super) condemned: Vec<Arc<Pod>>,
}

/// A wanted ordinal.
pub(super) struct Place {
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
        let placed = self.places.iter().filter_map(|place| place.pod.as_deref());
        placed.chain(self.condemned.iter().map(AsRef::as_ref))
    }
}

pub(super) fn line_up(set: &Set, pods: &[Arc<Pod>]) -> Lineup {
    let (mut wanted, mut condemned) = (BTreeMap::new(), BTreeMap::new());
    for pod in pods {
        match identity::ordinal(&set.name, &pod.name) {
            Some(ordinal) if set.wants(ordinal) => wanted.insert(ordinal, pod.clone()),
            Some(ordinal) if ordinal != NO_ORDINAL => condemned.insert(ordinal, pod.clone()),
            _ => None,
        };
    }
    Lineup {
        places: places(set, wanted),
        condemned: condemned.into_values().rev().collect(),
    }
}

/// Places with their pods. Only so many empty ones: a set may want two billion pods.
fn places(set: &Set, wanted: BTreeMap<i64, Arc<Pod>>) -> Vec<Place> {
    let mut places = Vec::new();
    let (mut next, mut left) = (set.start, MOST_MISSING);
    let mut fill = |places: &mut Vec<Place>, from: i64, to: i64| {
        let count = (to - from).min(left);
        left -= count;
        places.extend((from..from + count).map(|ordinal| Place { ordinal, pod: None }));
    };
    for (ordinal, pod) in wanted {
        fill(&mut places, next, ordinal);
        next = ordinal + 1;
        places.push(Place {
            ordinal,
            pod: Some(pod),
        });
    }
    fill(&mut places, next, set.start + set.replicas);
    places
}

/// Adds what the scale of the set needs.
pub(super) fn arrange(world: &World, chosen: &Chosen, lineup: &Lineup, plan: &mut Plan) -> Flow {
    let pass = Pass { world, chosen };
    match world.set.management {
        Management::OrderedReady => {
            let mut steps = Vec::new();
            let flow = pass.one_by_one(lineup, plan, &mut steps);
            plan.stage(Pace::OneByOne, Purpose::Scale, steps);
            flow
        }
        Management::Parallel => {
            pass.all_at_once(lineup, plan);
            Flow::Settled
        }
    }
}

struct Pass<'a> {
    world: &'a World,
    chosen: &'a Chosen,
}

impl Pass<'_> {
    fn one_by_one(&self, lineup: &Lineup, plan: &mut Plan, steps: &mut Vec<Step>) -> Flow {
        for place in &lineup.places {
            let step = self.place(place, plan);
            let must_wait = match &place.pod {
                None => true,
                Some(pod) => pod.is_finished() || self.is_holding_up(pod),
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
                .filter_map(|pod| self.bequeath(pod, plan)),
        );
        let first_unavailable = self.first_unavailable(lineup);
        // One at a time: the highest goes, and the others wait until it is gone.
        let Some(pod) = lineup.condemned.first() else {
            return Flow::Settled;
        };
        let is_first_unavailable = first_unavailable.is_some_and(|first| first.uid == pod.uid);
        let may_go = pod.is_finished() || is_first_unavailable || !self.is_holding_up(pod);
        steps.extend((may_go && !pod.is_terminating).then(|| Step::delete(pod)));
        Flow::Waiting
    }

    fn all_at_once(&self, lineup: &Lineup, plan: &mut Plan) {
        let mut steps = Vec::new();
        for place in &lineup.places {
            steps.extend(self.place(place, plan));
        }
        plan.stage(Pace::SlowStart, Purpose::Scale, steps);
        let bequests: Vec<_> = lineup
            .condemned
            .iter()
            .filter_map(|pod| self.bequeath(pod, plan))
            .collect();
        plan.stage(Pace::SlowStart, Purpose::Scale, bequests);
        let leaving = lineup.condemned.iter().filter(|pod| !pod.is_terminating);
        plan.stage(
            Pace::SlowStart,
            Purpose::Scale,
            leaving.map(|pod| Step::delete(pod)).collect(),
        );
    }

    /// What a wanted place needs.
    fn place(&self, place: &Place, plan: &mut Plan) -> Option<Step> {
        match &place.pod {
            None => self.create(place.ordinal, plan),
            Some(pod) if pod.is_finished() => (!pod.is_terminating).then(|| Step::delete(pod)),
            Some(pod) => {
                let is_ordered = self.world.set.management == Management::OrderedReady;
                if is_ordered && self.is_holding_up(pod) {
                    return (pod.phase == Phase::Pending)
                        .then(|| self.mend_claims(pod, place.ordinal, plan))
                        .flatten();
                }
                self.keep(pod, place.ordinal, plan)
            }
        }
    }

    fn create(&self, ordinal: i64, plan: &mut Plan) -> Option<Step> {
        let set = &self.world.set;
        let name = identity::pod_name(&set.name, ordinal);
        let holder = Holder {
            name: &name,
            uid: "",
            ordinal,
        };
        let doomed: Vec<String> = super::claim_names(set, ordinal)
            .filter(|claim| {
                let claim = self.world.claims.get(claim);
                claim.is_some_and(|claim| retention::is_doomed(holder, claim))
            })
            .collect();
        if !doomed.is_empty() {
            plan.awaited_claims.extend(doomed);
            return None;
        }
        Some(Step::CreatePod {
            body: identity::new_pod(set, self.template_of(ordinal), ordinal),
            claims: self.claims(holder, Missing::Create, plan),
            name,
        })
    }

    /// A pod that stays: its identity, its storage and its claims must be right.
    fn keep(&self, pod: &Pod, ordinal: i64, plan: &mut Plan) -> Option<Step> {
        let set = &self.world.set;
        let has_storage = identity::has_storage(set, pod, ordinal);
        let is_right = identity::has_identity(pod) && has_storage;
        if is_right && pod.phase == Phase::Pending {
            return self.mend_claims(pod, ordinal, plan);
        }
        let missing = if pod.phase == Phase::Pending || !has_storage {
            Missing::Create
        } else {
            Missing::Ignore
        };
        let claims = self.claims(holder(pod, ordinal), missing, plan);
        let patch = (!is_right).then(|| self.mend(pod, ordinal, has_storage));
        (patch.is_some() || !claims.is_empty()).then(|| Step::UpdatePod {
            name: pod.name.clone(),
            patch,
            claims,
        })
    }

    fn mend(&self, pod: &Pod, ordinal: i64, has_storage: bool) -> Value {
        let labels = identity::identity_labels(&pod.name, ordinal);
        let mut patch = json!({ "metadata": { "uid": pod.uid, "labels": labels } });
        if !has_storage {
            // Refused by the API server, as volumes cannot change: the event says what is wrong.
            patch["spec"] = json!({ "volumes": identity::claim_volumes(&self.world.set, ordinal) });
        }
        patch
    }

    fn mend_claims(&self, pod: &Pod, ordinal: i64, plan: &mut Plan) -> Option<Step> {
        let claims = self.claims(holder(pod, ordinal), Missing::Create, plan);
        (!claims.is_empty()).then(|| Step::MendClaims {
            pod: pod.name.clone(),
            claims,
        })
    }

    /// The claims of a condemned pod go to whom the policy says.
    fn bequeath(&self, pod: &Pod, plan: &mut Plan) -> Option<Step> {
        let ordinal = identity::ordinal(&self.world.set.name, &pod.name)?;
        let claims = self.claims(holder(pod, ordinal), Missing::Ignore, plan);
        (!claims.is_empty()).then(|| Step::MendClaims {
            pod: pod.name.clone(),
            claims,
        })
    }

    fn claims(&self, holder: Holder<'_>, missing: Missing, plan: &mut Plan) -> Vec<ClaimStep> {
        let set = &self.world.set;
        let mut steps = Vec::new();
        for template in &set.claim_templates {
            let name = claim_name(template, &set.name, holder.ordinal);
            let Some(claim) = self.world.claims.get(&name) else {
                let body = || new_claim(set, template, holder.ordinal);
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
            let owners = retention::owners(set, holder, claim);
            let is_judged = missing == Missing::Create || owners != Owners::Fine;
            if is_judged && retention::has_foreign_controller(set, holder, claim) {
                plan.events.push(notice::conflicting_controller(&name));
            }
            if let Owners::Wrong(owners) = owners {
                steps.push(ClaimStep::Own {
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

    /// The lowest pod that holds others up, so that it may go although it is not available. Called when
    /// every wanted pod is available. Nobody waits for one that is finished: it would be for ever.
    fn first_unavailable<'a>(&self, lineup: &'a Lineup) -> Option<&'a Arc<Pod>> {
        let mut lowest_first = lineup.condemned.iter().rev();
        lowest_first.find(|pod| self.is_holding_up(pod) && !pod.is_finished())
    }

    /// Others of an ordered set wait for it.
    fn is_holding_up(&self, pod: &Pod) -> bool {
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

fn holder(pod: &Pod, ordinal: i64) -> Holder<'_> {
    Holder {
        name: &pod.name,
        uid: &pod.uid,
        ordinal,
    }
}
