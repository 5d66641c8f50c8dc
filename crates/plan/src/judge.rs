//! The verdict on one unit: whose its workload is, whether it is as wanted, and what to write.

use std::sync::Arc;

use edgegrid_api::names::{annotation, manager};
use jiff::Timestamp;
use serde_json::Value;

use crate::claims::{Owner, Whose, name_taken};
use crate::failure::Trouble;
use crate::grid::{Grid, Template};
use crate::observed::Child;
use crate::ownership::covers;
use crate::packed::Packed;
use crate::rollout;
use crate::step::{Apply, Claim, Manager, Step};
use crate::takeover::{Takeover, drop_entries};
use crate::units::digest;
use crate::workload::{self, Wanted};
use crate::workload_grid::{State, Unit, World};

/// A workload that was found as wanted: nothing has to be compared again until it or the grid changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// [`Grid::digest`] at that time.
    pub grid: String,
    /// The workload's revision.
    pub resource_version: String,
}

/// Judges the units of one grid.
pub(crate) struct Judge<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) key: &'a str,
    pub(crate) world: &'a World<'a>,
    pub(crate) now: Timestamp,
}

/// A unit's state, and what follows from it.
pub(crate) struct Verdict {
    pub(crate) unit: Unit,
    pub(crate) steps: Vec<Step>,
    /// Whether the unit takes one of the rollout's places.
    pub(crate) is_in_flight: bool,
    pub(crate) judged: Option<Judged>,
    pub(crate) recheck: Option<Timestamp>,
}

impl Judge<'_> {
    /// The verdict on a unit whose workload is called `name`.
    pub(crate) fn unit(&self, unit: &str, name: String, child: Option<&Arc<Child>>) -> Verdict {
        let mut verdict = Verdict {
            unit: Unit {
                name,
                child: child.cloned(),
                state: State::Pending,
                of: String::new(),
                is_current: false,
                is_available: false,
                deadline: None,
                leaving: None,
            },
            steps: Vec::new(),
            is_in_flight: false,
            judged: None,
            recheck: None,
        };
        let template = match self.grid.templates.chosen(unit) {
            Ok(template) => template,
            Err(trouble) => {
                verdict.unit.state = State::Held(trouble);
                return verdict;
            }
        };
        if let Some(child) = child {
            self.observe(unit, template, child, &mut verdict);
        }
        verdict.unit.state = match self.claim(&verdict.unit.name, child.map(AsRef::as_ref)) {
            Ok(()) => self.compare(unit, template, child, &mut verdict),
            Err(state) => state,
        };
        self.mind_the_wave(unit, &mut verdict);
        verdict
    }

    /// What a second unit of the same name hears. Hashes make that all but impossible.
    pub(crate) fn taken_by_sister(&self, name: &str) -> Trouble {
        name_taken(&self.grid.child(name), "it is another unit's of this grid")
    }

    fn observe(&self, unit: &str, template: &Template, child: &Child, verdict: &mut Verdict) {
        let hash = workload::template_hash(template, self.key, unit);
        verdict.unit.is_current = child.annotation(annotation::TEMPLATE_HASH) == Some(&hash);
        verdict.unit.is_available = rollout::is_available(self.grid.workload, template, child);
        verdict.unit.deadline = rollout::deadline(self.grid.workload, template, child);
    }

    /// Whether the name is ours to write.
    fn claim(&self, name: &str, child: Option<&Child>) -> Result<(), State> {
        if self.world.pending.contains(name) {
            return Err(State::Pending);
        }
        let Some(child) = child else {
            return match self.world.foreign.get(name) {
                Some(whose) => Err(State::Held(name_taken(&self.grid.child(name), whose))),
                None if self.world.looked => Ok(()),
                None => Err(State::Unknown),
            };
        };
        let selector = self.grid.selector_value();
        let owner = Owner {
            uid: self.grid.uid(),
            selector: &selector,
        };
        match owner.whose(&child.metadata) {
            Whose::Foreign(whose) => Err(State::Held(name_taken(&self.grid.child(name), &whose))),
            _ if child.metadata.deletion_timestamp.is_some() => Err(State::Pending),
            Whose::Ours | Whose::Orphan => Ok(()),
        }
    }

    /// Compares what there is with what is wanted.
    fn compare(
        &self,
        unit: &str,
        template: &Template,
        child: Option<&Arc<Child>>,
        verdict: &mut Verdict,
    ) -> State {
        let takeover = child.map_or(Takeover::Done, |child| {
            Takeover::of(&child.metadata, self.now)
        });
        if let Takeover::Contested { until } = takeover {
            verdict.recheck = Some(until);
            return State::Held(Takeover::trouble(&self.grid.child(&verdict.unit.name)));
        }
        let judged = child.map(|child| Judged {
            grid: self.grid.digest.clone(),
            resource_version: child.metadata.resource_version.clone().unwrap_or_default(),
        });
        let known = self.world.judged.get(&verdict.unit.name);
        if takeover == Takeover::Done && judged.is_some() && known == judged.as_ref() {
            verdict.judged = judged;
            return State::Settled;
        }
        let child = child.map(AsRef::as_ref);
        let wanted = match workload::render(self.grid, (self.key, unit), template, child, self.now)
        {
            Ok(wanted) => wanted,
            Err(trouble) => return State::Held(trouble),
        };
        verdict.unit.of = attempt(&wanted, child);
        match (child, takeover) {
            (Some(child), Takeover::Done) if is_as_applied(child, &wanted) => {
                verdict.judged = judged;
                State::Settled
            }
            (Some(child), Takeover::Due(places)) if is_as_applied(child, &wanted) => {
                let id = self.grid.child(&verdict.unit.name);
                verdict
                    .steps
                    .extend(drop_entries(id, &child.metadata, &places));
                self.unless_held_back(unit, State::Repair, verdict)
            }
            _ => {
                verdict.steps = self.writes(&verdict.unit.name, template, child, &wanted);
                let state = match child {
                    None => State::New,
                    Some(_) if verdict.unit.is_current => State::Repair,
                    Some(_) => State::Change,
                };
                self.unless_held_back(unit, state, verdict)
            }
        }
    }

    fn unless_held_back(&self, unit: &str, state: State, verdict: &mut Verdict) -> State {
        match self.world.failures.get(unit) {
            Some(failure) if failure.holds_back(&verdict.unit.of, self.now) => {
                verdict.steps.clear();
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
        wanted: &Wanted,
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

    /// Whether the unit takes a place of the rollout: changed and not yet Available, or perhaps changed by
    /// a write whose result nobody knows.
    fn mind_the_wave(&self, unit: &str, verdict: &mut Verdict) {
        if verdict.unit.child.is_none() {
            return;
        }
        let was_changed = verdict.unit.deadline.is_some() && !verdict.unit.is_available;
        let failure = self.world.failures.get(unit);
        let may_have_been = match verdict.unit.state {
            _ if verdict.unit.is_current => false,
            State::Pending => true,
            State::Retrying => failure.is_some_and(|failure| failure.is_uncertain),
            _ => false,
        };
        verdict.is_in_flight = was_changed || may_have_been;
    }
}

/// What a write tries: the same body for the same state of the workload will fail the same way.
fn attempt(wanted: &Wanted, child: Option<&Child>) -> String {
    let state = child.map(|child| (&child.metadata.uid, child.metadata.generation));
    digest(&format!("{} {state:?}", wanted.applied))
}

/// Whether the workload is as we applied it: we want nothing else, and nobody took a field from us.
fn is_as_applied(child: &Child, wanted: &Wanted) -> bool {
    child.annotation(annotation::APPLIED) == Some(&wanted.applied)
        && child
            .applied_by(manager::EDGEGRID)
            .is_some_and(|fields| covers(&fields, &wanted.body))
}
