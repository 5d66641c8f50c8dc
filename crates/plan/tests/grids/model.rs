//! A cluster with one DeploymentGrid: it makes the steps of plans as Kubernetes would, one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::DeploymentGrid;
use edgegrid_api::names::{annotation, label};
use edgegrid_plan::failure::{Attempt, Failure, Failures, Refusal};
use edgegrid_plan::grid::Grid;
use edgegrid_plan::grid_state::{Decision, SettledAt, VanishedUnit, World};
use edgegrid_plan::ownership::{Owner, controller};
use edgegrid_plan::step::RECHECK_INTERVAL;
use edgegrid_plan::unit_names::unit_of;
use edgegrid_plan::workload_grid::decide;
use edgegrid_plan::{Child, Claim, ObjectKind, Step};
use edgegrid_testkit::objects::{Name, Objects};
use jiff::{Span, Timestamp};
use serde_json::{Value, json};

pub(crate) const USER: &str = "kubectl";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const GRACE: Duration = Duration::from_mins(5);

/// A cluster, and what a controller remembers of it.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) objects: Objects,
    /// Nodes by name, each with its unit.
    pub(crate) nodes: BTreeMap<String, Option<String>>,
    /// How and when the controller saw units go.
    vanished: BTreeMap<String, (bool, Timestamp)>,
    pub(crate) now: Timestamp,
    failures: Failures,
    settled: BTreeMap<String, SettledAt>,
    /// Names of workloads that the controller knows of, `None` after a start.
    known: Option<BTreeSet<String>>,
    /// Names of workloads that the grid's status shows.
    pub(crate) reported: BTreeSet<String>,
    /// Units whose workload got another template and was not Available since.
    pub(crate) changing: BTreeMap<String, String>,
}

pub(crate) fn name_of(kind: ObjectKind, name: &str) -> Name {
    let resource = kind.resource();
    let mut name = Name::cluster((resource.group, resource.version, resource.kind), name);
    name.namespace = Some("default".into());
    name
}

pub(crate) fn template(image: &str, replicas: Option<i64>) -> Value {
    let mut template = json!({
        "selector": { "matchLabels": { "app": "web" } },
        "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "image": image, "ports": [{ "containerPort": 80 }] }] },
        },
    });
    if let Some(replicas) = replicas {
        template["replicas"] = json!(replicas);
    }
    template
}

impl Model {
    pub(crate) fn new() -> Self {
        let mut objects = Objects::default();
        let spec = json!({ "gridUniqKey": "zone", "template": template("web:1", Some(2)) });
        let body = json!({ "metadata": { "namespace": "default" }, "spec": spec });
        objects
            .create(&name_of(ObjectKind::DeploymentGrid, "web"), &body, USER)
            .unwrap();
        Self {
            objects,
            nodes: BTreeMap::new(),
            vanished: BTreeMap::new(),
            now: Timestamp::constant(1_800_000_000, 0),
            failures: Failures::new(),
            settled: BTreeMap::new(),
            known: None,
            reported: BTreeSet::new(),
            changing: BTreeMap::new(),
        }
    }

    pub(crate) fn grid(&self) -> Grid {
        let stored = self
            .objects
            .get(&name_of(ObjectKind::DeploymentGrid, "web"))
            .unwrap();
        let grid: DeploymentGrid = serde_json::from_value(stored.clone()).unwrap();
        Grid::from(&grid)
    }

    pub(crate) fn edit_grid(&mut self, change: impl FnOnce(&mut Value)) {
        let name = name_of(ObjectKind::DeploymentGrid, "web");
        self.objects.update(&name, USER, change).unwrap();
    }

    /// Somebody edits a workload, if it is there.
    pub(crate) fn edit_child(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let name = name_of(ObjectKind::Deployment, name);
        drop(self.objects.update(&name, "somebody", change));
        self.count_generation(&name, None);
    }

    pub(crate) fn units(&self) -> BTreeSet<String> {
        self.nodes.values().flatten().cloned().collect()
    }

    /// Gives a node a label, or takes it off.
    pub(crate) fn label(&mut self, node: &str, unit: Option<&str>) {
        let before = self.nodes.insert(node.into(), unit.map(str::to_owned));
        if let Some(left) = before.flatten() {
            self.vanished.insert(left, (true, self.now));
        }
        self.note_vanished();
    }

    /// Forgets how units went that are back, and notes those that went unseen.
    fn note_vanished(&mut self) {
        let there = self.units();
        self.vanished.retain(|unit, _| !there.contains(unit));
        for (unit, _) in self.controlled() {
            if !there.contains(&unit) {
                self.vanished.entry(unit).or_insert((false, self.now));
            }
        }
    }

    pub(crate) fn delete_node(&mut self, node: &str) {
        if let Some(Some(unit)) = self.nodes.remove(node) {
            self.vanished.insert(unit, (false, self.now));
        }
        self.note_vanished();
    }

    pub(crate) fn pass_time(&mut self, minutes: i64) {
        self.now += Span::new().minutes(minutes);
    }

    /// What a crash leaves: nothing but the cluster.
    pub(crate) fn forget(&mut self) {
        self.failures.clear();
        self.settled.clear();
        self.vanished.clear();
        self.known = None;
    }

    pub(crate) fn children(&self) -> Vec<Child> {
        let stored = self.objects.all("Deployment");
        stored
            .map(|object| {
                let mut child: Child = serde_json::from_value(object.clone()).unwrap();
                child.prune();
                child
            })
            .collect()
    }

    /// Workloads that the grid controls, by unit.
    pub(crate) fn controlled(&self) -> Vec<(String, Child)> {
        let uid = self.grid().uid().to_owned();
        let ours = self
            .children()
            .into_iter()
            .filter(|child| controller(&child.metadata).is_some_and(|owner| owner.uid == uid));
        ours.map(|child| (unit_of("web", &child.metadata).unwrap_or_default(), child))
            .collect()
    }

    /// Objects that are not the grid's, as they are.
    pub(crate) fn foreign(&self) -> Vec<Value> {
        let foreign = self
            .objects
            .all("Deployment")
            .filter(|object| object["metadata"]["labels"]["foreign"] == "yes");
        foreign.cloned().collect()
    }

    pub(crate) fn decide(&self) -> Decision {
        let grid = self.grid();
        let first = self.decide_with(&grid, false);
        if first.needs_name_scan {
            self.decide_with(&grid, true)
        } else {
            first
        }
    }

    fn decide_with(&self, grid: &Grid, names_scanned: bool) -> Decision {
        let all = self.children();
        let selector = grid.selector_value();
        let owner = Owner {
            uid: grid.uid(),
            selector: &selector,
        };
        let scan = owner.scan_names(all.iter().map(|child| &child.metadata));
        // The cache shows what carries a grid's label; a scan shows all, and what is ours is read.
        let is_cached = |child: &&Child| {
            let labels = child.metadata.labels.as_ref();
            labels.is_some_and(|labels| labels.contains_key(label::GRID_SELECTOR))
        };
        let is_ours = |child: &&Child| {
            names_scanned
                && scan
                    .ours
                    .iter()
                    .any(|name| child.metadata.name.as_ref() == Some(name))
        };
        let children = all
            .iter()
            .filter(|child| is_cached(child) || is_ours(child));
        let children: Vec<Arc<Child>> = children.cloned().map(Arc::new).collect();
        let names = children
            .iter()
            .filter_map(|child| child.metadata.name.clone())
            .collect();
        let known = self.known.as_ref().unwrap_or(&self.reported);
        let world = World {
            units: self.units(),
            vanished: self.seen_vanished(),
            children,
            names_scanned,
            foreign: if names_scanned {
                scan.foreign.clone()
            } else {
                BTreeMap::new()
            },
            pending: BTreeSet::new(),
            missed: known.difference(&names).cloned().collect(),
            failures: &self.failures,
            settled: &self.settled,
            unit_grace: GRACE,
            unreachable: Vec::new(),
        };
        decide(grid, &world, self.now)
    }

    fn seen_vanished(&self) -> BTreeMap<String, VanishedUnit> {
        let seen = self.vanished.iter();
        seen.map(|(unit, (lost_label, since))| {
            let elapsed = since.duration_until(self.now).unsigned_abs();
            let vanished = VanishedUnit {
                lost_label: *lost_label,
                since: *since,
                elapsed,
            };
            (unit.clone(), vanished)
        })
        .collect()
    }

    /// Makes up to `most` steps of what is planned; `lost` says that the last one's answer is.
    pub(crate) fn work(&mut self, most: usize, lost: bool) {
        self.note_vanished();
        let decision = self.decide();
        let limit = self.grid().rollout.max_concurrent_units;
        self.failures
            .retain(|scope, failure| decision.still_fails(scope, failure, self.now));
        self.settled.clone_from(&decision.settled);
        let mut made = 0;
        for (scope, steps) in &decision.plan.steps {
            for step in steps {
                if made == most {
                    return;
                }
                made += 1;
                self.make(step);
                if let Some(limit) = limit {
                    assert!(
                        self.changing.len() <= usize::try_from(limit).unwrap(),
                        "{:?} by {step:?}",
                        self.changing
                    );
                }
            }
            let is_last = made == most;
            self.failures.remove(scope);
            if lost
                && is_last
                && let Some(unit) = scope.unit().and_then(|unit| decision.units.get(unit))
            {
                let refusal = Refusal::NoAnswer("lost".into());
                let tried = Attempt {
                    hash: &unit.attempt_hash,
                    object_existed: unit.child.is_some(),
                };
                let failure = Failure::after(None, &refusal, tried, self.now);
                self.failures.insert(scope.clone(), failure);
            }
        }
        self.report();
    }

    /// What a pass that came to its end leaves: a status, and what it knows.
    fn report(&mut self) {
        let names = self.controlled().into_iter();
        self.reported = names.filter_map(|(_, child)| child.metadata.name).collect();
        self.known = Some(self.reported.clone());
    }

    fn make(&mut self, step: &Step) {
        let id = step.id();
        let name = name_of(id.kind, &id.name);
        let before = self.objects.get(&name).cloned();
        let done = match step {
            Step::Apply(apply) => {
                let uid = match &apply.claim {
                    Claim::Free => None,
                    Claim::Ours { uid } => Some(uid.as_str()),
                };
                self.objects
                    .apply(&name, &apply.body.value(), apply.manager.name(), uid)
            }
            Step::Patch {
                resource_version,
                operations,
                ..
            } => self
                .objects
                .patch(&name, resource_version, operations, "edgegrid"),
            Step::Create { body, .. } => self.objects.create(&name, body, "edgegrid"),
            Step::Delete { uid, .. } => self.objects.delete(&name, Some(uid)),
        };
        done.unwrap_or_else(|refusal| panic!("{step:?}: {refusal:?}"));
        self.count_generation(&name, before.as_ref());
        self.note_change(&name, before.as_ref());
    }

    /// A Deployment's generation follows its spec; before its first one there was none.
    fn count_generation(&mut self, name: &Name, before: Option<&Value>) {
        let Some(after) = self.objects.get(name) else {
            return;
        };
        if before.is_some_and(|before| before["spec"] == after["spec"]) {
            return;
        }
        let next = after["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        self.objects
            .update(name, CONTROLLER_MANAGER, |object| {
                object["metadata"]["generation"] = json!(next);
            })
            .unwrap();
    }

    /// Keeps the books of units that were changed, without a look at the plan.
    fn note_change(&mut self, name: &Name, before: Option<&Value>) {
        let hash = |object: Option<&Value>| {
            object
                .map(|object| object["metadata"]["annotations"][annotation::TEMPLATE_HASH].clone())
        };
        let after = self.objects.get(name);
        if before.is_some() && after.is_some() && hash(before) != hash(after) {
            let hash = hash(after).unwrap_or_default().to_string();
            self.changing.insert(name.name.clone(), hash);
        }
        self.check_books();
    }

    /// Drops from the books what is gone, or is to be changed again.
    pub(crate) fn check_books(&mut self) {
        let decision = self.decide();
        let is_current = |name: &str| {
            let mut units = decision.units.values();
            units.any(|unit| unit.name == *name && unit.is_current)
        };
        self.changing.retain(|name, _| is_current(name));
    }

    /// What the Deployment controller does in the end.
    pub(crate) fn make_available(&mut self, name: &str) {
        self.changing.remove(name);
        let name = name_of(ObjectKind::Deployment, name);
        drop(self.objects.update(&name, CONTROLLER_MANAGER, |object| {
            let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
            object["status"] = json!({
                "observedGeneration": object["metadata"]["generation"],
                "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas,
            });
        }));
    }

    /// Works until nothing is left to do, as time passes and everything becomes Available.
    pub(crate) fn settle(&mut self) {
        for _ in 0..60 {
            for (_, child) in self.controlled() {
                self.make_available(child.metadata.name.as_deref().unwrap());
            }
            let decision = self.decide();
            let is_over = decision
                .plan
                .recheck
                .is_none_or(|wait| wait == RECHECK_INTERVAL)
                && decision.units.values().all(|unit| unit.leaving.is_none());
            if decision.plan.is_empty() && is_over && decision.batch.waiting.is_empty() {
                return;
            }
            self.work(usize::MAX, false);
            self.pass_time(1);
        }
        panic!("never settles: {:#?}", self.decide());
    }
}
