//! Which nodes a NodeUnit has, and what it wants written there.
//!
//! A NodeUnit wants its own `setNode`, its marker, and `<group>=<NodeUnit>` for every group that
//! claims it. The NodeUnit's `setNode.labels` also *shows* the latter two, because we write them there; what
//! is only shown is not what its author wants, so it is taken from the groups themselves. A
//! manifest replaced as a whole then cannot take the labels off the nodes for a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use edgegrid_api::names::{annotation, marker};
use edgegrid_api::{NodeGroup, NodeUnit};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

use crate::conflict::{Intent, NodeSettings};
use crate::legal::{is_label_key, is_label_value, is_node_unit_name, is_taint_effect};
use crate::observed::PrunedNode;
use crate::site_manager::{is_owned, is_owned_by_others};
use crate::{auto_find, selection};

/// All NodeUnits, oldest first.
#[derive(Clone, Debug, Default)]
pub struct NodeUnits {
    all: Vec<ResolvedNodeUnit>,
    by_name: BTreeMap<String, usize>,
    /// Those that name a node.
    by_node: BTreeMap<String, Vec<usize>>,
    /// Those whose selector asks for a label's value, under one of the labels they ask for.
    by_label: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
    /// Those whose selector must be asked about every node.
    by_asking: Vec<usize>,
}

/// One NodeUnit, with the groups that claim it and what follows from that for its nodes.
#[derive(Clone, Debug)]
pub struct ResolvedNodeUnit {
    /// Name of the NodeUnit.
    pub name: String,
    /// The NodeUnit as it was read.
    pub object: Arc<NodeUnit>,
    /// Groups that claim it, sorted.
    pub groups: Vec<String>,
    /// Whether one of these groups finds it by its keys.
    pub is_found: bool,
    /// What its nodes should carry.
    pub settings: NodeSettings,
    /// What of its spec is left out because Kubernetes would refuse it, in words for people.
    pub field_errors: Vec<String>,
}

impl NodeUnits {
    /// Resolves all NodeUnits and groups. What is being deleted wants nothing any more.
    pub fn new(objects: &[Arc<NodeUnit>], groups: &[Arc<NodeGroup>]) -> Self {
        let mut all: Vec<ResolvedNodeUnit> = objects
            .iter()
            .map(|object| ResolvedNodeUnit::new(object, groups))
            .collect();
        all.sort_by_cached_key(ResolvedNodeUnit::age);
        let mut node_units = Self::default();
        for (index, unit) in all.iter().enumerate() {
            node_units.by_name.insert(unit.name.clone(), index);
            node_units.add_to_index(index, &unit.object);
        }
        node_units.all = all;
        node_units
    }

    fn add_to_index(&mut self, index: usize, unit: &NodeUnit) {
        for node in &unit.spec.nodes {
            self.by_node.entry(node.clone()).or_default().push(index);
        }
        let Some(selector) = unit.spec.selector.as_ref() else {
            return;
        };
        if let Some((key, value)) = selector.match_labels.first_key_value() {
            let values = self.by_label.entry(key.clone()).or_default();
            values.entry(value.clone()).or_default().push(index);
        } else if !selection::is_empty(selector) {
            self.by_asking.push(index);
        }
    }

    /// The NodeUnit of a name.
    pub fn get(&self, name: &str) -> Option<&ResolvedNodeUnit> {
        self.by_name.get(name).map(|index| &self.all[*index])
    }

    /// All NodeUnits, oldest first.
    pub fn all(&self) -> &[ResolvedNodeUnit] {
        &self.all
    }

    /// The NodeUnits that have a node, oldest first.
    pub fn claiming(&self, node: &PrunedNode) -> Vec<&ResolvedNodeUnit> {
        let named = node.metadata.name.as_ref();
        let named = named.and_then(|name| self.by_node.get(name)).into_iter();
        let labels = node.metadata.labels.iter().flatten();
        let labelled = labels.filter_map(|(key, value)| self.by_label.get(key)?.get(value));
        let candidates: BTreeSet<usize> = named
            .chain(labelled)
            .flatten()
            .chain(&self.by_asking)
            .copied()
            .collect();
        let candidates = candidates.into_iter().map(|index| &self.all[index]);
        candidates
            .filter(|unit| !unit.is_being_deleted() && unit.has(node))
            .collect()
    }

    /// What all NodeUnits together want of a node.
    pub fn intent(&self, node: &PrunedNode) -> Intent {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let claimants: Vec<(&str, &NodeSettings)> = self
            .claiming(node)
            .into_iter()
            .map(|unit| (unit.name.as_str(), &unit.settings))
            .collect();
        Intent::new(name, &claimants)
    }
}

impl ResolvedNodeUnit {
    /// Finds the groups that claim a NodeUnit, and what it wants of its nodes.
    pub fn new(object: &Arc<NodeUnit>, groups: &[Arc<NodeGroup>]) -> Self {
        let name = object.metadata.name.clone().unwrap_or_default();
        let claiming: Vec<&NodeGroup> = groups
            .iter()
            .map(AsRef::as_ref)
            .filter(|group| claims(group, object))
            .collect();
        let mut groups: Vec<String> = claiming
            .iter()
            .filter_map(|group| group.metadata.name.clone())
            .collect();
        groups.sort();
        let mut resolved = Self {
            name,
            object: object.clone(),
            is_found: claiming.iter().any(|group| auto_find::finds(group, object)),
            groups,
            settings: NodeSettings::default(),
            field_errors: object
                .spec
                .selector
                .iter()
                .flat_map(selection::field_errors)
                .collect(),
        };
        resolved.read_own_settings();
        resolved.add_markers();
        resolved
    }

    /// The labels by which the NodeUnit and its groups are known, as its `setNode` shows them.
    pub fn markers(&self) -> BTreeMap<String, String> {
        let own = (self.name.clone(), marker::NODE_UNIT.to_owned());
        let groups = self
            .groups
            .iter()
            .map(|group| (group.clone(), self.name.clone()));
        // A group of the NodeUnit's own name wins: grids go by the group's label.
        let all = std::iter::once(own).chain(groups);
        all.filter(|(key, _)| is_node_unit_name(key) && is_node_unit_name(&self.name))
            .collect()
    }

    /// Whether the NodeUnit is on its way out.
    pub fn is_being_deleted(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Whether the NodeUnit names a node or its selector picks it.
    pub fn has(&self, node: &PrunedNode) -> bool {
        let spec = &self.object.spec;
        let metadata = &node.metadata;
        let is_own = |key: &str, value: &str| {
            self.settings
                .labels
                .get(key)
                .is_some_and(|own| own == value)
                && is_owned(metadata, &["metadata", "labels", key])
        };
        metadata.deletion_timestamp.is_none()
            && (metadata
                .name
                .as_ref()
                .is_some_and(|name| spec.nodes.contains(name))
                || spec
                    .selector
                    .as_ref()
                    .is_some_and(|selector| selection::picks(selector, metadata, is_own)))
    }

    fn age(&self) -> (Option<Timestamp>, String) {
        let created = self.object.metadata.creation_timestamp.as_ref();
        (created.map(|time| time.0), self.name.clone())
    }

    fn read_own_settings(&mut self) {
        let object = self.object.clone();
        self.settings.unschedulable = object.spec.unschedulable;
        let Some(own) = &object.spec.set_node else {
            return;
        };
        for (key, value) in &own.labels {
            if is_only_shown(&object, key) {
                continue;
            }
            if is_label_key(key) && is_label_value(value) {
                self.settings.labels.insert(key.clone(), value.clone());
            } else {
                self.add_field_error(format!("label {key}={value} is not legal"));
            }
        }
        for (key, value) in &own.annotations {
            if is_label_key(key) && key != annotation::TAINTS {
                self.settings.annotations.insert(key.clone(), value.clone());
            } else {
                self.add_field_error(format!("annotation {key} is not legal"));
            }
        }
        for taint in &own.taints {
            self.read_taint(taint);
        }
    }

    fn read_taint(&mut self, taint: &Taint) {
        let value = taint.value.as_deref().unwrap_or_default();
        if is_label_key(&taint.key) && is_label_value(value) && is_taint_effect(&taint.effect) {
            let identity = (taint.key.clone(), taint.effect.clone());
            self.settings
                .taints
                .entry(identity)
                .or_insert_with(|| taint.clone());
        } else {
            self.add_field_error(format!(
                "taint {}={value}:{} is not legal",
                taint.key, taint.effect
            ));
        }
    }

    fn add_markers(&mut self) {
        if !is_node_unit_name(&self.name) {
            self.add_field_error("the unit's own name is too long for a label".into());
        }
        let long = self.groups.iter().filter(|group| !is_node_unit_name(group));
        let long: Vec<String> = long
            .map(|group| format!("the name of group {group} is too long for a label"))
            .collect();
        self.field_errors.extend(long);
        for (key, value) in self.markers() {
            let before = self.settings.labels.insert(key.clone(), value.clone());
            if let Some(before) = before.filter(|before| *before != value) {
                self.add_field_error(format!(
                    "label {key}={before} gives way to the marker {key}={value}"
                ));
            }
        }
        if self.groups.contains(&self.name) {
            self.add_field_error(format!(
                "a group is called {} too, so the unit has no marker",
                self.name
            ));
        }
    }

    fn add_field_error(&mut self, error: String) {
        self.field_errors.push(error);
    }
}

/// Whether a group claims a NodeUnit: by name, by selector, or because it found it.
pub fn claims(group: &NodeGroup, unit: &NodeUnit) -> bool {
    let name = unit.metadata.name.as_deref().unwrap_or_default();
    let own = group.metadata.name.as_deref().unwrap_or_default();
    let is_own = |key: &str, value: &str| key == own && value == marker::NODE_GROUP;
    let picks = |selector| selection::picks(selector, &unit.metadata, is_own);
    group.metadata.deletion_timestamp.is_none()
        && (group.spec.node_units.iter().any(|unit| unit == name)
            || group.spec.selector.as_ref().is_some_and(picks)
            || auto_find::finds(group, unit))
}

/// Whether a label in a NodeUnit's `setNode` is there only because we show it.
fn is_only_shown(unit: &NodeUnit, key: &str) -> bool {
    let path = ["spec", "setNode", "labels", key];
    is_owned(&unit.metadata, &path) && !is_owned_by_others(&unit.metadata, &path)
}
