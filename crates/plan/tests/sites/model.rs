//! A cluster for plans: it makes their steps as Kubernetes would, one at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use edgegrid_api::{NodeGroup, NodeUnit, NodeUnitStatus};
use edgegrid_plan::membership::NodeUnits;
use edgegrid_plan::node_unit::{Planner, World};
use edgegrid_plan::{Claim, ObjectId, ObjectKind, Plan, PrunedNode, Step, node, node_group};
use edgegrid_testkit::objects::{Name, Objects, Refusal};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Long after everything that the model does.
pub(crate) const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
/// Who writes manifests.
pub(crate) const USER: &str = "kubectl";

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) objects: Objects,
}

pub(crate) fn name_of(kind: ObjectKind, name: &str) -> Name {
    let resource = kind.resource();
    Name::cluster((resource.group, resource.version, resource.kind), name)
}

impl Model {
    pub(crate) fn node(&mut self, name: &str, labels: &Value) {
        let body = json!({ "metadata": { "labels": labels }, "spec": {} });
        self.objects
            .create(&Name::node(name), &body, "kubelet")
            .unwrap();
    }

    /// Creates a unit, or replaces its spec as `kubectl replace` does.
    pub(crate) fn unit(&mut self, name: &str, spec: &Value) {
        self.put(ObjectKind::NodeUnit, name, spec);
    }

    pub(crate) fn group(&mut self, name: &str, spec: &Value) {
        self.put(ObjectKind::NodeGroup, name, spec);
    }

    fn put(&mut self, kind: ObjectKind, name: &str, spec: &Value) {
        let name = name_of(kind, name);
        match self.objects.create(&name, &json!({ "spec": spec }), USER) {
            Err(Refusal::AlreadyExists) => self.edit(&name, |object| object["spec"] = spec.clone()),
            other => other.unwrap(),
        }
    }

    pub(crate) fn edit(&mut self, name: &Name, change: impl FnOnce(&mut Value)) {
        self.objects.update(name, USER, change).unwrap();
    }

    pub(crate) fn edit_node(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.edit(&Name::node(name), change);
    }

    pub(crate) fn label(&mut self, node: &str, key: &str, value: impl Into<Value>) {
        let value = value.into();
        self.edit_node(node, |node| node["metadata"]["labels"][key] = value);
    }

    pub(crate) fn delete(&mut self, kind: ObjectKind, name: &str) {
        self.objects.delete(&name_of(kind, name), None).unwrap();
    }

    pub(crate) fn nodes(&self) -> Vec<Arc<PrunedNode>> {
        let mut nodes: Vec<PrunedNode> = self.parsed("Node");
        nodes.iter_mut().for_each(PrunedNode::prune);
        nodes.into_iter().map(Arc::new).collect()
    }

    pub(crate) fn units(&self) -> Vec<Arc<NodeUnit>> {
        self.parsed("NodeUnit").into_iter().map(Arc::new).collect()
    }

    pub(crate) fn groups(&self) -> Vec<Arc<NodeGroup>> {
        self.parsed("NodeGroup").into_iter().map(Arc::new).collect()
    }

    pub(crate) fn node_units(&self) -> NodeUnits {
        NodeUnits::new(&self.units(), &self.groups())
    }

    /// What every controller would do about every object, in one order.
    pub(crate) fn plans(&self) -> Vec<Plan> {
        let (nodes, units, groups) = (self.nodes(), self.units(), self.groups());
        let node_units = NodeUnits::new(&units, &groups);
        let world = World {
            nodes: &nodes,
            node_units: &node_units,
            failures: &BTreeMap::new(),
        };
        let of_groups = groups.iter().map(|group| {
            node_group::plan(
                group,
                &node_group::World {
                    nodes: &nodes,
                    units: &units,
                },
            )
        });
        let of_units = units.iter().filter_map(|unit| {
            let planner = Planner::new(unit.metadata.name.as_ref()?, world)?;
            Some(planner.plan(NOW))
        });
        let of_nodes = nodes.iter().map(|one| node::plan(one, &node_units, NOW));
        of_groups.chain(of_units).chain(of_nodes).collect()
    }

    pub(crate) fn steps(&self) -> Vec<Step> {
        let plans = self.plans().into_iter();
        plans.flat_map(Plan::into_steps).collect()
    }

    /// Makes one step; that somebody else was faster is nothing to complain about.
    pub(crate) fn make(&mut self, step: &Step) {
        let ObjectId { kind, name, .. } = step.id();
        let name = name_of(*kind, name);
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
        assert!(
            !matches!(done, Err(Refusal::Invalid(_))),
            "{step:?}: {done:?}"
        );
    }

    /// Plans and makes all steps again and again until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..12 {
            let steps = self.steps();
            if steps.is_empty() {
                return;
            }
            for step in &steps {
                self.make(step);
            }
        }
        panic!("still busy: {:#?}", self.steps());
    }

    pub(crate) fn status(&self, unit: &str) -> NodeUnitStatus {
        let nodes = self.nodes();
        let node_units = self.node_units();
        let world = World {
            nodes: &nodes,
            node_units: &node_units,
            failures: &BTreeMap::new(),
        };
        Planner::new(unit, world).unwrap().status(NOW)
    }

    pub(crate) fn labels(&self, node: &str) -> Value {
        self.objects.get(&Name::node(node)).unwrap()["metadata"]["labels"].clone()
    }

    pub(crate) fn stored(&self, kind: ObjectKind, name: &str) -> Option<&Value> {
        self.objects.get(&name_of(kind, name))
    }

    fn parsed<K: DeserializeOwned>(&self, kind: &str) -> Vec<K> {
        let objects = self.objects.all(kind).cloned();
        objects
            .map(|object| serde_json::from_value(object).unwrap())
            .collect()
    }
}
