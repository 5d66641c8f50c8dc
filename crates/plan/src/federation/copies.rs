//! The control cluster's side: a copy of a federated grid in every member's namespace.
//!
//! | the original | a copy |
//! |---|---|
//! | is federated | is as the original, and has our finalizer |
//! | is deleted, or no longer federated | is marked and deleted; it goes when the member says `Removed` |
//! | any, but the namespace is no member's or is going | goes at once, and takes nothing with it |
//!
//! The mark is what tells a member that a copy goes on purpose: one that vanishes with its namespace, or by
//! a slip of somebody's hand, means nothing.

use std::collections::{BTreeMap, BTreeSet};

use edgegrid_api::names::{YES, annotation, condition, finalizer, label};
use serde_json::json;

use super::{
    DesiredGrid, GridObject, NamespacedName, add_finalizer, annotation_of, carried_annotations,
    has_finalizer, is_federated, is_to_be_removed, key, label_of, remove_finalizer,
};
use crate::digest::digest;
use crate::failure::Problem;
use crate::ownership::name_taken;
use crate::step::{Manager, ObjectId, ObjectKind, Plan, RECHECK_INTERVAL, Scope, Step};

/// A member cluster, by its namespace in the control cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The name that people give it.
    pub cluster: String,
    /// Whether its namespace is being deleted.
    pub is_leaving: bool,
}

/// What is known when copies are planned.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// The members by namespace.
    pub members: &'a BTreeMap<String, Member>,
    /// The copies of this original, wherever they are.
    pub copies: Vec<GridObject>,
    /// Namespaces of copies that are known to be as wanted, whatever else they show.
    pub settled: BTreeSet<String>,
    /// Namespaces where a write of ours is not visible yet.
    pub pending: BTreeSet<String>,
    /// Names that other objects have.
    pub taken: BTreeSet<NamespacedName>,
}

/// What was decided about the copies of one original.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What to write, by the member's namespace.
    pub plan: Plan,
    /// What keeps members from getting their copies, by namespace.
    pub problems: BTreeMap<Scope, Problem>,
}

/// Decides about the copies of `original`, which is at `at` if it is still there.
pub fn decide(
    kind: ObjectKind,
    at: &NamespacedName,
    original: Option<&GridObject>,
    world: &World<'_>,
) -> Decision {
    let mut decision = Decision::default();
    let wanting = original.filter(|original| {
        is_federated(&original.metadata) && original.metadata.deletion_timestamp.is_none()
    });
    if let Some(original) = wanting
        && !has_finalizer(&original.metadata, finalizer::FEDERATED)
    {
        // Before the first copy is made: an original that went meanwhile would leave copies behind.
        let has_members = world.members.values().any(|member| !member.is_leaving);
        if has_members || !world.copies.is_empty() {
            let steps = add_finalizer(original).into_iter();
            steps.for_each(|step| decision.plan.push(step));
            return decision;
        }
    }
    let planner = Planner { kind, at, world };
    for copy in &world.copies {
        planner.plan_existing(wanting, copy, &mut decision);
    }
    match (wanting, original) {
        (Some(original), _) => planner.plan_missing(original, &mut decision),
        (None, Some(original)) if world.copies.is_empty() && world.pending.is_empty() => {
            let steps = remove_finalizer(original, finalizer::FEDERATED).into_iter();
            steps.for_each(|step| decision.plan.push(step));
        }
        _ => {}
    }
    decision
}

/// The copy that a member should have; marked if the member is to remove the grid.
pub fn render_copy(original: &GridObject, is_removed: bool) -> DesiredGrid {
    let (namespace, name) = key(&original.metadata);
    let mut labels = original.metadata.labels.clone().unwrap_or_default();
    labels.insert(label::DISTRIBUTED.into(), YES.into());
    labels.insert(label::TARGET_NAMESPACE.into(), namespace);
    labels.insert(
        label::ORIGIN.into(),
        original.metadata.uid.clone().unwrap_or_default(),
    );
    let mut annotations = carried_annotations(&original.metadata);
    annotations.insert(annotation::ORIGIN_NAME.into(), name);
    if is_removed {
        annotations.insert(annotation::REMOVAL.into(), YES.into());
    }
    DesiredGrid::new(json!({
        "metadata": {
            "labels": labels,
            "annotations": annotations,
            "finalizers": [finalizer::DISTRIBUTED],
        },
        "spec": original.spec,
    }))
}

/// The name of a copy that comes beside one of the same name from another namespace.
pub fn second_name(at: &NamespacedName) -> String {
    let (namespace, name) = at;
    let hash = digest(&format!("{namespace}\n{name}"));
    let head = name.get(..name.len().min(240)).unwrap_or(name);
    format!("{}-{}", head.trim_end_matches(['-', '.']), &hash[..10])
}

struct Planner<'a> {
    kind: ObjectKind,
    at: &'a NamespacedName,
    world: &'a World<'a>,
}

impl Planner<'_> {
    /// Plans a copy that is there.
    fn plan_existing(
        &self,
        wanting: Option<&GridObject>,
        copy: &GridObject,
        decision: &mut Decision,
    ) {
        let namespace = copy.metadata.namespace.clone().unwrap_or_default();
        if self.world.pending.contains(&namespace) {
            return;
        }
        let member = self.world.members.get(&namespace);
        let is_member = member.is_some_and(|member| !member.is_leaving);
        let is_going = copy.metadata.deletion_timestamp.is_some();
        let steps = match (wanting, is_member) {
            // Nobody is to remove anything: it goes alone.
            (_, false) if is_going => remove_finalizer(copy, finalizer::DISTRIBUTED)
                .into_iter()
                .collect(),
            (_, false) => delete(copy),
            (_, true) if is_going => finish_removal(copy).into_iter().collect(),
            (Some(_), true) if self.world.settled.contains(&namespace) => Vec::new(),
            (Some(original), true) => {
                render_copy(original, false).writes(Some(copy), &copy.id(), Manager::Federation)
            }
            (None, true) => removal(copy),
        };
        for step in steps {
            decision.plan.push_for(namespace.clone(), step);
        }
    }

    /// Plans the copies that are not there yet.
    fn plan_missing(&self, original: &GridObject, decision: &mut Decision) {
        let wanted = render_copy(original, false);
        for (namespace, member) in self.world.members {
            let has_copy = self
                .world
                .copies
                .iter()
                .any(|copy| copy.metadata.namespace.as_ref() == Some(namespace));
            if has_copy || member.is_leaving || self.world.pending.contains(namespace) {
                continue;
            }
            if let Some(name) = self.free_name(namespace) {
                let id = ObjectId::namespaced(self.kind, namespace, &name);
                for step in wanted.writes(None, &id, Manager::Federation) {
                    decision.plan.push_for(namespace.clone(), step);
                }
            } else {
                let id = ObjectId::namespaced(self.kind, namespace, &self.at.1);
                let problem = name_taken(&id, "it is not a copy of this grid");
                let member = Scope::Unit(namespace.clone());
                decision.problems.insert(member, problem);
                decision.plan.recheck_after(RECHECK_INTERVAL);
            }
        }
    }

    /// The original's own name, or another one if another object has that.
    fn free_name(&self, namespace: &str) -> Option<String> {
        [self.at.1.clone(), second_name(self.at)]
            .into_iter()
            .find(|name| {
                !self
                    .world
                    .taken
                    .contains(&(namespace.to_owned(), name.clone()))
            })
    }
}

/// Takes our finalizer off a copy that is being deleted: one that goes on purpose keeps it until the member
/// has removed its grid, any other loses it at once, to make room for another copy.
fn finish_removal(copy: &GridObject) -> Option<Step> {
    let is_over = !is_to_be_removed(&copy.metadata) || copy.has_condition(condition::REMOVED);
    is_over
        .then(|| remove_finalizer(copy, finalizer::DISTRIBUTED))
        .flatten()
}

/// Marks a copy and deletes it. The mark is applied over the copy as it is: its original may be gone.
fn removal(copy: &GridObject) -> Vec<Step> {
    let mut steps = Vec::new();
    if annotation_of(&copy.metadata, annotation::REMOVAL).is_none() {
        steps.extend(mark(copy));
    }
    steps.extend(delete(copy));
    steps
}

fn mark(copy: &GridObject) -> Option<Step> {
    let path = format!(
        "/metadata/annotations/{}",
        crate::json_pointer::escape(annotation::REMOVAL)
    );
    // Every copy has annotations, unless somebody took them all off.
    let operation = match &copy.metadata.annotations {
        Some(_) => json!({ "op": "add", "path": path, "value": YES }),
        None => {
            json!({ "op": "add", "path": "/metadata/annotations", "value": { annotation::REMOVAL: YES } })
        }
    };
    Some(Step::Patch {
        id: copy.id(),
        resource_version: copy.metadata.resource_version.clone()?,
        operations: vec![operation],
    })
}

fn delete(copy: &GridObject) -> Vec<Step> {
    let uid = copy.metadata.uid.clone().into_iter();
    uid.map(|uid| Step::Delete { id: copy.id(), uid }).collect()
}

/// Names of the members by namespace: the name that people give a member if it is unique, else the namespace.
pub fn clusters<'a>(
    namespaces: impl IntoIterator<Item = &'a kube::core::ObjectMeta>,
) -> BTreeMap<String, Member> {
    let namespaces: Vec<_> = namespaces.into_iter().collect();
    let mut called: BTreeMap<&str, usize> = BTreeMap::new();
    for metadata in &namespaces {
        let names = [
            label_of(metadata, label::CLUSTER_NAME),
            metadata.name.as_deref(),
        ];
        for name in BTreeSet::from(names).into_iter().flatten() {
            *called.entry(name).or_default() += 1;
        }
    }
    namespaces
        .iter()
        .filter_map(|metadata| {
            let namespace = metadata.name.clone()?;
            let own = label_of(metadata, label::CLUSTER_NAME);
            let is_plain = |name: &&str| !name.is_empty() && called.get(name) == Some(&1);
            let cluster = own.filter(is_plain).unwrap_or(&namespace).to_owned();
            let is_leaving = metadata.deletion_timestamp.is_some();
            let member = Member {
                cluster,
                is_leaving,
            };
            Some((namespace, member))
        })
        .collect()
}
