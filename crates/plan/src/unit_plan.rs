//! The plan for one unit: whose its workload is, whether it is as wanted, and what to write.

use std::sync::Arc;

use edgegrid_api::names::{annotation, manager};
use jiff::Timestamp;
use serde_json::Value;

use crate::applied_fields::covers;
use crate::digest::digest;
use crate::failure::Problem;
use crate::grid::{Grid, Template};
use crate::grid_state::{SettledAt, State, Unit, World};
use crate::observed::Child;
use crate::ownership::{Owner, Ownership, name_taken};
use crate::packed::Packed;
use crate::rollout;
use crate::step::{Apply, Claim, Manager, Scope, Step};
use crate::takeover::{Takeover, drop_entries};
use crate::workload::{self, DesiredWorkload, UnitLabel};

/// Plans the units of one grid, each by itself.
pub(crate) struct UnitPlanner<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) key: &'a str,
    pub(crate) world: &'a World<'a>,
    pub(crate) now: Timestamp,
}

/// A unit's state, and what follows from it.
pub(crate) struct UnitPlan {
    pub(crate) unit: Unit,
    pub(crate) steps: Vec<Step>,
    /// Whether the unit counts against the rollout's limit.
    pub(crate) is_in_flight: bool,
    pub(crate) settled: Option<SettledAt>,
    pub(crate) recheck: Option<Timestamp>,
}

impl UnitPlan {
    fn new(name: String, child: Option<&Arc<Child>>, state: State) -> Self {
        Self {
            unit: Unit {
                name,
                child: child.cloned(),
                state,
                attempt_hash: String::new(),
                is_current: false,
                is_available: false,
                deadline: None,
                leaving: None,
            },
            steps: Vec::new(),
            is_in_flight: false,
            settled: None,
            recheck: None,
        }
    }
}

impl UnitPlanner<'_> {
    /// Plans a unit whose workload is called `name`.
    pub(crate) fn plan(&self, unit: &str, name: String, child: Option<&Arc<Child>>) -> UnitPlan {
        let mut plan = UnitPlan::new(name, child, State::Pending);
        let template = match self.grid.templates.chosen(unit) {
            Ok(template) => template,
            Err(problem) => {
                plan.unit.state = State::Blocked(problem);
                return plan;
            }
        };
        if let Some(child) = child {
            self.observe(unit, template, child, &mut plan);
        }
        plan.unit.state = match self.claim(&plan.unit.name, child.map(AsRef::as_ref)) {
            Ok(()) => self.compare(unit, template, child, &mut plan),
            Err(state) => state,
        };
        plan.is_in_flight = self.counts_against_rollout(unit, &plan.unit);
        plan
    }

    /// Leaves a unit as it is. It does not count against the rollout either: without nodes it may never be
    /// Available again.
    pub(crate) fn plan_held(
        &self,
        unit: &str,
        name: String,
        child: Option<&Arc<Child>>,
    ) -> UnitPlan {
        let mut plan = UnitPlan::new(name, child, State::Held);
        if let (Ok(template), Some(child)) = (self.grid.templates.chosen(unit), child) {
            self.observe(unit, template, child, &mut plan);
        }
        plan
    }

    /// The problem of a second unit of the same name. Hashes make that all but impossible.
    pub(crate) fn taken_by_sibling(&self, name: &str) -> Problem {
        name_taken(&self.grid.child(name), "it is another unit's of this grid")
    }

    fn observe(&self, unit: &str, template: &Template, child: &Child, plan: &mut UnitPlan) {
        let hash = workload::template_hash(template, self.key, unit);
        plan.unit.is_current = child.annotation(annotation::TEMPLATE_HASH) == Some(&hash);
        plan.unit.is_available = rollout::is_available(self.grid.workload, template, child);
        plan.unit.deadline = rollout::deadline(self.grid.workload, template, child);
    }

    /// Whether the name is ours to write.
    fn claim(&self, name: &str, child: Option<&Child>) -> Result<(), State> {
        if self.world.pending.contains(name) {
            return Err(State::Pending);
        }
        let Some(child) = child else {
            return match self.world.foreign.get(name) {
                Some(whose) => Err(State::Blocked(name_taken(&self.grid.child(name), whose))),
                None if self.world.names_scanned => Ok(()),
                None => Err(State::Unknown),
            };
        };
        let selector = self.grid.selector_value();
        let owner = Owner {
            uid: self.grid.uid(),
            selector: &selector,
        };
        match owner.ownership(&child.metadata) {
            Ownership::Foreign(whose) => {
                Err(State::Blocked(name_taken(&self.grid.child(name), &whose)))
            }
            _ if child.metadata.deletion_timestamp.is_some() => Err(State::Pending),
            Ownership::Ours | Ownership::Orphan => Ok(()),
        }
    }

    /// Compares what there is with what is wanted.
    fn compare(
        &self,
        unit: &str,
        template: &Template,
        child: Option<&Arc<Child>>,
        plan: &mut UnitPlan,
    ) -> State {
        let takeover = child.map_or(Takeover::Done, |child| {
            Takeover::from_metadata(&child.metadata, self.now)
        });
        if let Takeover::Contested { until } = takeover {
            plan.recheck = Some(until);
            return State::Blocked(Takeover::contested_problem(
                &self.grid.child(&plan.unit.name),
            ));
        }
        let settled = child.map(|child| SettledAt {
            grid: self.grid.digest.clone(),
            resource_version: child.metadata.resource_version.clone().unwrap_or_default(),
        });
        let known = self.world.settled.get(&plan.unit.name);
        if takeover == Takeover::Done && settled.is_some() && known == settled.as_ref() {
            plan.settled = settled;
            return State::Settled;
        }
        let child = child.map(AsRef::as_ref);
        let label = UnitLabel {
            key: self.key,
            value: unit,
        };
        let wanted = match workload::render(self.grid, label, template, child, self.now) {
            Ok(wanted) => wanted,
            Err(problem) => return State::Blocked(problem),
        };
        plan.unit.attempt_hash = attempt_hash(&wanted, child);
        match (child, takeover) {
            (Some(child), Takeover::Done) if is_as_applied(child, &wanted) => {
                plan.settled = settled;
                State::Settled
            }
            (Some(child), Takeover::Due(indexes)) if is_as_applied(child, &wanted) => {
                let id = self.grid.child(&plan.unit.name);
                plan.steps
                    .extend(drop_entries(id, &child.metadata, &indexes));
                self.apply_backoff(unit, State::Repair, plan)
            }
            _ => {
                plan.steps = self.writes(&plan.unit.name, template, child, &wanted);
                let state = match child {
                    None => State::New,
                    Some(_) if plan.unit.is_current => State::Repair,
                    Some(_) => State::Change,
                };
                self.apply_backoff(unit, state, plan)
            }
        }
    }

    /// The state, unless the same write failed a short while ago: then nothing is written yet.
    fn apply_backoff(&self, unit: &str, state: State, plan: &mut UnitPlan) -> State {
        match self.world.failures.get(&Scope::from(unit)) {
            Some(failure) if failure.is_backing_off(&plan.unit.attempt_hash, self.now) => {
                plan.steps.clear();
                State::Retrying
            }
            _ => state,
        }
    }

    fn writes(
        &self,
        name: &str,
        template: &Template,
        child: Option<&Child>,
        wanted: &DesiredWorkload,
    ) -> Vec<Step> {
        let uid = child.and_then(|child| child.metadata.uid.clone());
        let claim = uid.map_or(Claim::Free, |uid| Claim::Ours { uid });
        let apply = |body: &Value, manager| {
            Step::Apply(Apply {
                id: self.grid.child(name),
                body: Packed::from(body),
                claim: claim.clone(),
                manager,
            })
        };
        let handed_over = child.and_then(|child| workload::replicas_to_hand_over(template, child));
        handed_over
            .map(|body| apply(&body, Manager::Replicas))
            .into_iter()
            .chain([apply(&wanted.body, Manager::Edgegrid)])
            .collect()
    }

    /// Whether the unit counts against the rollout's limit: changed and not yet Available, or perhaps
    /// changed by a write whose result nobody knows.
    fn counts_against_rollout(&self, name: &str, unit: &Unit) -> bool {
        if unit.child.is_none() {
            return false;
        }
        let was_changed = unit.deadline.is_some() && !unit.is_available;
        let failure = self.world.failures.get(&Scope::from(name));
        let may_have_been = match unit.state {
            _ if unit.is_current => false,
            State::Pending => true,
            State::Retrying => failure.is_some_and(|failure| failure.is_uncertain),
            _ => false,
        };
        was_changed || may_have_been
    }
}

/// What a write tries: the same body for the same state of the workload will fail the same way.
fn attempt_hash(wanted: &DesiredWorkload, child: Option<&Child>) -> String {
    let state = child.map(|child| (&child.metadata.uid, child.metadata.generation));
    digest(&format!("{} {state:?}", wanted.applied))
}

/// Whether the workload is as we applied it: we want nothing else, and nobody took a field from us.
fn is_as_applied(child: &Child, wanted: &DesiredWorkload) -> bool {
    child.annotation(annotation::APPLIED) == Some(&wanted.applied)
        && child
            .applied_by(manager::EDGEGRID)
            .is_some_and(|fields| covers(&fields, &wanted.body))
}
