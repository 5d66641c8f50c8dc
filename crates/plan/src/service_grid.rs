//! A ServiceGrid: one Service for all units, with an annotation that keeps traffic in its unit.
//!
//! What the API server allocates (addresses, IP families, node ports) is never applied by us unless
//! the template names it, so it stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use edgegrid_api::ServiceGrid;
use edgegrid_api::names::{self, annotation, manager, reason};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::applied_fields::covers;
use crate::digest::digest;
use crate::failure::{Failure, Problem, immutable_problem};
use crate::grid::without_nulls;
use crate::grid_state::{SettledAt, State};
use crate::notice::Notice;
use crate::observed::Child;
use crate::ownership::{Owner, Ownership, name_taken, owner_reference};
use crate::packed::Packed;
use crate::step::{Apply, Claim, Manager, ObjectId, ObjectKind, Plan, RECHECK_INTERVAL, Step};
use crate::takeover::{Takeover, drop_entries};
use crate::topology_keys::topology_keys;
use crate::unit_names::label_value;
use crate::workload::grid_labels;

/// The address of a Service that has none.
const HEADLESS: &str = "None";

/// What is known when a ServiceGrid is planned.
#[derive(Clone, Debug, Default)]
pub struct World<'a> {
    /// Services that carry the grid's label or are controlled by it.
    pub children: Vec<Arc<Child>>,
    /// Whether names were scanned in this pass, so that one not known to be taken is free.
    pub names_scanned: bool,
    /// Names that somebody else has, and who.
    pub foreign: BTreeMap<String, String>,
    /// Names whose last write of ours the caches do not show yet.
    pub pending: BTreeSet<String>,
    /// How the last write of the Service failed.
    pub failure: Option<&'a Failure>,
    /// The Service as an earlier pass found it settled.
    pub settled: Option<&'a SettledAt>,
}

/// What was decided about a ServiceGrid.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to write, and when to look again.
    pub plan: Plan,
    /// The wanted name is not known to be ours or free: scan all names, then decide again.
    pub needs_name_scan: bool,
    /// The Service as it is.
    pub service: Option<Arc<Child>>,
    /// What is to be done about it.
    pub state: State,
    /// Hash of what a write would try: compared with what failed.
    pub attempt_hash: String,
    /// The Service if it is settled, for the next pass.
    pub settled: Option<SettledAt>,
    /// Why the grid's own `topologyKeys` are not used.
    pub malformed: Option<Problem>,
}

/// Decides what a grid's Service should become.
pub fn decide(grid: &ServiceGrid, world: &World<'_>, now: Timestamp) -> Decision {
    let mut decision = Decision {
        plan: Plan::default(),
        needs_name_scan: false,
        service: None,
        state: State::Settled,
        attempt_hash: String::new(),
        settled: None,
        malformed: None,
    };
    if grid.metadata.deletion_timestamp.is_some() {
        return decision; // its Service goes by ownership
    }
    let Some(key) = grid
        .spec
        .grid_uniq_key
        .as_deref()
        .filter(|key| !key.is_empty())
    else {
        let message =
            "spec.gridUniqKey is missing: set it to the node label key that names the units";
        decision
            .plan
            .notices
            .push(Notice::warning(reason::EMPTY, message));
        decision.state = State::Blocked(Problem::new(reason::EMPTY, message));
        return decision;
    };
    let planner = Planner::new(grid, world, now);
    planner.remove_unwanted(&mut decision.plan);
    decision.service = planner.named().cloned();
    decision.state = match planner.claim() {
        Ok(()) if grid.spec.template.is_none() => State::Blocked(Problem::new(
            reason::TEMPLATE_MISSING,
            "spec.template is missing: write the spec of a Service there",
        )),
        Ok(()) => planner.compare(key, &mut decision),
        Err(state) => state,
    };
    decision.needs_name_scan = decision.state == State::Unknown;
    if matches!(&decision.state, State::Blocked(problem) if problem.reason == reason::NAME_TAKEN) {
        decision.plan.recheck_after(RECHECK_INTERVAL);
    }
    if decision.state == State::Retrying
        && let Some(left) = world.failure.and_then(|failure| failure.remaining(now))
    {
        decision.plan.recheck_after(left);
    }
    decision
}

/// The Service we want, without the hash of what is applied.
pub fn body(grid: &ServiceGrid, key: &str) -> (Value, Option<Problem>) {
    let name = grid.metadata.name.as_deref().unwrap_or_default();
    let (keys, malformed) = topology_keys(&grid.metadata, key);
    let mut annotations = grid.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(annotation::LAST_APPLIED);
    annotations.insert(annotation::TOPOLOGY_KEYS.into(), keys);
    if label_value(key) != key {
        annotations.insert(annotation::GRID_UNIQ_KEY.into(), key.into());
    }
    let template = serde_json::to_value(&grid.spec.template).unwrap_or_default();
    let mut spec = without_nulls(template);
    if spec["clusterIP"] == "" {
        // Empty means "allocate", which the server does anyway; applied, it would never settle.
        spec.as_object_mut()
            .map(|fields| fields.remove("clusterIP"));
    }
    let body = json!({
        "metadata": {
            "labels": grid_labels(grid.metadata.labels.as_ref(), name, key),
            "annotations": annotations,
            "ownerReferences": [owner_reference(ObjectKind::ServiceGrid, &grid.metadata)],
        },
        "spec": spec,
    });
    (body, malformed)
}

struct Planner<'a> {
    grid: &'a ServiceGrid,
    world: &'a World<'a>,
    now: Timestamp,
    name: String,
    selector: String,
}

impl<'a> Planner<'a> {
    fn new(grid: &'a ServiceGrid, world: &'a World<'a>, now: Timestamp) -> Self {
        let name = grid.metadata.name.as_deref().unwrap_or_default();
        Self {
            grid,
            world,
            now,
            name: names::service(name),
            selector: label_value(name),
        }
    }

    fn id(&self, name: &str) -> ObjectId {
        let namespace = self.grid.metadata.namespace.as_deref().unwrap_or_default();
        ObjectId::namespaced(ObjectKind::Service, namespace, name)
    }

    fn owner(&self) -> Owner<'_> {
        Owner {
            uid: self.grid.metadata.uid.as_deref().unwrap_or_default(),
            selector: &self.selector,
        }
    }

    fn named(&self) -> Option<&Arc<Child>> {
        let mut children = self.world.children.iter();
        children.find(|child| child.metadata.name.as_ref() == Some(&self.name))
    }

    /// Services that the grid controls under any other name.
    fn remove_unwanted(&self, plan: &mut Plan) {
        for child in &self.world.children {
            let (Some(name), Some(uid)) = (&child.metadata.name, &child.metadata.uid) else {
                continue;
            };
            let is_unwanted = *name != self.name
                && child.metadata.deletion_timestamp.is_none()
                && self.owner().ownership(&child.metadata) == Ownership::Ours;
            if is_unwanted {
                let (id, uid) = (self.id(name), uid.clone());
                plan.push(Step::Delete { id, uid });
            }
        }
    }

    /// Whether the name is ours to write.
    fn claim(&self) -> Result<(), State> {
        let taken = |whose: &str| State::Blocked(name_taken(&self.id(&self.name), whose));
        if self.world.pending.contains(&self.name) {
            return Err(State::Pending);
        }
        let Some(child) = self.named() else {
            return match self.world.foreign.get(&self.name) {
                Some(whose) => Err(taken(whose)),
                None if self.world.names_scanned => Ok(()),
                None => Err(State::Unknown),
            };
        };
        match self.owner().ownership(&child.metadata) {
            Ownership::Foreign(whose) => Err(taken(&whose)),
            _ if child.metadata.deletion_timestamp.is_some() => Err(State::Pending),
            Ownership::Ours | Ownership::Orphan => Ok(()),
        }
    }

    /// Compares what there is with what is wanted.
    fn compare(&self, key: &str, decision: &mut Decision) -> State {
        let (mut body, malformed) = body(self.grid, key);
        if let Some(problem) = &malformed {
            let notice = Notice::warning(problem.reason, problem.message.clone());
            decision.plan.notices.push(notice);
        }
        decision.malformed = malformed;
        let applied = digest(&body.to_string());
        body["metadata"]["annotations"][annotation::APPLIED] = json!(applied);
        let child = self.named();
        let id = self.id(&self.name);
        let Some(child) = child else {
            decision.attempt_hash = applied;
            return self.write(&body, Claim::Free, decision);
        };
        let takeover = Takeover::from_metadata(&child.metadata, self.now);
        if let Takeover::Contested { until } = takeover {
            decision.plan.recheck_at(until, self.now);
            return State::Blocked(Takeover::contested_problem(&id));
        }
        let spec = &child.spec;
        if is_headless(spec.cluster_ip.as_deref())
            != is_headless(body["spec"]["clusterIP"].as_str())
            && spec.cluster_ip.as_deref().is_some_and(|ip| !ip.is_empty())
        {
            let field = "spec.clusterIP (headless or not)";
            return State::Blocked(immutable_problem(field));
        }
        decision.attempt_hash = digest(&format!("{applied} {:?}", child.metadata.uid));
        let settled = SettledAt {
            grid: applied.clone(),
            resource_version: child.metadata.resource_version.clone().unwrap_or_default(),
        };
        let is_as_applied =
            self.world.settled == Some(&settled) || is_as_applied(child, &applied, &body);
        match takeover {
            Takeover::Done if is_as_applied => {
                decision.settled = Some(settled);
                State::Settled
            }
            Takeover::Due(indexes) if is_as_applied => {
                if let Some(step) = drop_entries(id, &child.metadata, &indexes) {
                    decision.plan.push(step);
                }
                State::Repair
            }
            _ => {
                let uid = child.metadata.uid.clone().unwrap_or_default();
                self.write(&body, Claim::Ours { uid }, decision)
            }
        }
    }

    fn write(&self, body: &Value, claim: Claim, decision: &mut Decision) -> State {
        let failure = self.world.failure;
        if failure.is_some_and(|failure| failure.is_backing_off(&decision.attempt_hash, self.now)) {
            return State::Retrying;
        }
        let state = match claim {
            Claim::Free => State::New,
            Claim::Ours { .. } => State::Repair,
        };
        let apply = Apply {
            id: self.id(&self.name),
            body: Packed::from(body),
            claim,
            manager: Manager::Edgegrid,
        };
        decision.plan.push(Step::Apply(apply));
        state
    }
}

fn is_headless(address: Option<&str>) -> bool {
    address == Some(HEADLESS)
}

fn is_as_applied(child: &Child, applied: &str, body: &Value) -> bool {
    child.annotation(annotation::APPLIED) == Some(applied)
        && child
            .applied_by(manager::EDGEGRID)
            .is_some_and(|fields| covers(&fields, body))
}

#[cfg(test)]
mod tests;
