//! NodeUnits as they bear on nodes: which nodes they have and what they want written there.
//!
//! A unit wants its own `setNode`, its marker, and `<group>=<unit>` for every group that claims
//! it. The unit's `setNode.labels` also *shows* the latter two, because we write them there; what
//! is only shown is not what the unit's author wants, so it is taken from the groups themselves. A
//! manifest replaced as a whole then cannot take the labels off the nodes for a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use edgegrid_api::names::{annotation, marker};
use edgegrid_api::{NodeGroup, NodeUnit};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

use crate::inheritance::{is_held, is_held_by_others};
use crate::legal::{is_label_key, is_label_value, is_site_name, is_taint_effect};
use crate::observed::SiteNode;
use crate::wish::{Intent, Wish};
use crate::{auto_find, selection};

/// All units, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    all: Vec<Site>,
    by_name: BTreeMap<String, usize>,
    /// Units that name a node.
    by_node: BTreeMap<String, Vec<usize>>,
    /// Units whose selector asks for a label's value, under one of those they ask for.
    by_label: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
    /// Units whose selector must be asked about every node.
    by_asking: Vec<usize>,
}

/// One unit, with the groups that claim it.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// The object.
    pub unit: Arc<NodeUnit>,
    /// Groups that claim it, sorted.
    pub groups: Vec<String>,
    /// Whether one of these groups finds it by its keys.
    pub is_found: bool,
    /// What its nodes should carry.
    pub wish: Wish,
    /// What of its spec is left out because Kubernetes would not take it, in words.
    pub complaints: Vec<String>,
}

impl Sites {
    /// Looks at all units and groups. What is being deleted wants nothing any more.
    pub fn new(units: &[Arc<NodeUnit>], groups: &[Arc<NodeGroup>]) -> Self {
        let mut sites: Vec<Site> = units.iter().map(|unit| Site::new(unit, groups)).collect();
        sites.sort_by_cached_key(Site::age);
        let mut known = Self::default();
        for (index, site) in sites.iter().enumerate() {
            known.by_name.insert(site.name.clone(), index);
            known.list(index, &site.unit);
        }
        known.all = sites;
        known
    }

    fn list(&mut self, index: usize, unit: &NodeUnit) {
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

    /// A unit.
    pub fn site(&self, name: &str) -> Option<&Site> {
        self.by_name.get(name).map(|index| &self.all[*index])
    }

    /// All units, oldest first.
    pub fn all(&self) -> &[Site] {
        &self.all
    }

    /// The units that have a node, oldest first.
    pub fn claiming(&self, node: &SiteNode) -> Vec<&Site> {
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
        let sites = candidates.into_iter().map(|index| &self.all[index]);
        sites
            .filter(|site| !site.is_leaving() && site.has(node))
            .collect()
    }

    /// What all units together want of a node.
    pub fn intent(&self, node: &SiteNode) -> Intent {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let sites = self.claiming(node);
        Intent::of(name, &sites)
    }
}

impl Site {
    /// Looks at one unit and the groups that claim it.
    pub fn new(unit: &Arc<NodeUnit>, groups: &[Arc<NodeGroup>]) -> Self {
        let name = unit.metadata.name.clone().unwrap_or_default();
        let claiming: Vec<&NodeGroup> = groups
            .iter()
            .map(AsRef::as_ref)
            .filter(|group| claims(group, unit))
            .collect();
        let mut groups: Vec<String> = claiming
            .iter()
            .filter_map(|group| group.metadata.name.clone())
            .collect();
        groups.sort();
        let mut site = Self {
            name,
            unit: unit.clone(),
            is_found: claiming.iter().any(|group| auto_find::finds(group, unit)),
            groups,
            wish: Wish::default(),
            complaints: unit
                .spec
                .selector
                .iter()
                .flat_map(selection::complaints)
                .collect(),
        };
        site.read_own_wish();
        site.add_markers();
        site
    }

    /// The labels by which the unit and its groups are known, as the unit shows them.
    pub fn markers(&self) -> BTreeMap<String, String> {
        let own = (self.name.clone(), marker::NODE_UNIT.to_owned());
        let groups = self
            .groups
            .iter()
            .map(|group| (group.clone(), self.name.clone()));
        // A group of the unit's own name wins: grids go by the group's label.
        let all = std::iter::once(own).chain(groups);
        all.filter(|(key, _)| is_site_name(key) && is_site_name(&self.name))
            .collect()
    }

    /// Whether the unit is being deleted.
    pub fn is_leaving(&self) -> bool {
        self.unit.metadata.deletion_timestamp.is_some()
    }

    /// Whether the unit names a node or its selector picks it.
    pub fn has(&self, node: &SiteNode) -> bool {
        let spec = &self.unit.spec;
        let metadata = &node.metadata;
        let is_own = |key: &str, value: &str| {
            self.wish.labels.get(key).is_some_and(|own| own == value)
                && is_held(metadata, &["metadata", "labels", key])
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
        let created = self.unit.metadata.creation_timestamp.as_ref();
        (created.map(|time| time.0), self.name.clone())
    }

    fn read_own_wish(&mut self) {
        let unit = self.unit.clone();
        self.wish.unschedulable = unit.spec.unschedulable;
        let Some(own) = &unit.spec.set_node else {
            return;
        };
        for (key, value) in &own.labels {
            if is_only_shown(&unit, key) {
                continue;
            }
            if is_label_key(key) && is_label_value(value) {
                self.wish.labels.insert(key.clone(), value.clone());
            } else {
                self.complain(format!("label {key}={value} is not legal"));
            }
        }
        for (key, value) in &own.annotations {
            if is_label_key(key) && key != annotation::TAINTS {
                self.wish.annotations.insert(key.clone(), value.clone());
            } else {
                self.complain(format!("annotation {key} is not legal"));
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
            self.wish
                .taints
                .entry(identity)
                .or_insert_with(|| taint.clone());
        } else {
            self.complain(format!(
                "taint {}={value}:{} is not legal",
                taint.key, taint.effect
            ));
        }
    }

    fn add_markers(&mut self) {
        if !is_site_name(&self.name) {
            self.complain("the unit's own name is too long for a label".into());
        }
        let long = self.groups.iter().filter(|group| !is_site_name(group));
        let long: Vec<String> = long
            .map(|group| format!("the name of group {group} is too long for a label"))
            .collect();
        self.complaints.extend(long);
        for (key, value) in self.markers() {
            let before = self.wish.labels.insert(key.clone(), value.clone());
            if let Some(before) = before.filter(|before| *before != value) {
                self.complain(format!(
                    "label {key}={before} gives way to the marker {key}={value}"
                ));
            }
        }
        if self.groups.contains(&self.name) {
            self.complain(format!(
                "a group is called {} too, so the unit has no marker",
                self.name
            ));
        }
    }

    fn complain(&mut self, what: String) {
        self.complaints.push(what);
    }
}

/// Whether a group claims a unit: by name, by selector, or because it found it.
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

/// Whether a label in a unit's `setNode` is there only because we show it.
fn is_only_shown(unit: &NodeUnit, key: &str) -> bool {
    let path = ["spec", "setNode", "labels", key];
    is_held(&unit.metadata, &path) && !is_held_by_others(&unit.metadata, &path)
}
