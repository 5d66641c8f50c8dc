//! What NodeUnits want of a node, and which gives way.
//!
//! Two NodeUnits may want different things of one node. The older one gets its way, always: which one
//! that is does not depend on what is on the node, so nothing flaps.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Taint;

/// What a NodeUnit wants of each of its nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSettings {
    /// Labels that the nodes get.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the nodes get.
    pub annotations: BTreeMap<String, String>,
    /// Taints, by key and effect.
    pub taints: BTreeMap<(String, String), Taint>,
    /// Whether new pods are kept away.
    pub unschedulable: bool,
}

/// What all NodeUnits together want of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intent {
    /// The NodeUnits that have the node, oldest first.
    pub node_units: Vec<String>,
    /// What the node should carry.
    pub settings: NodeSettings,
    /// What younger NodeUnits want in vain.
    pub conflicts: Vec<Conflict>,
}

/// A setting of a NodeUnit that differs from an older one's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// Name of the node.
    pub node: String,
    /// What it is about: `label location`.
    pub subject: String,
    /// The older NodeUnit and what it wants.
    pub winner: (String, String),
    /// The younger NodeUnit and what it wants.
    pub loser: (String, String),
}

impl Intent {
    /// Merges the settings of a node's NodeUnits, which come by name and oldest first.
    pub(crate) fn new(node: &str, claimants: &[(&str, &NodeSettings)]) -> Self {
        let mut intent = Self::default();
        for younger in claimants {
            let (name, settings) = younger;
            intent.node_units.push((*name).to_owned());
            intent.settings.unschedulable |= settings.unschedulable;
            let lost = intent.settings.merge_younger(settings).into_iter();
            let conflicts = lost.map(|subject| Conflict::new(&subject, node, *younger, claimants));
            intent.conflicts.extend(conflicts);
        }
        intent
    }
}

impl NodeSettings {
    /// Adds what a younger NodeUnit wants; returns what of it gives way to what is wanted already.
    fn merge_younger(&mut self, younger: &Self) -> Vec<Subject> {
        let mut lost = Vec::new();
        for (key, value) in &younger.labels {
            if self
                .labels
                .entry(key.clone())
                .or_insert_with(|| value.clone())
                != value
            {
                lost.push(Subject::Label(key.clone()));
            }
        }
        for (key, value) in &younger.annotations {
            if self
                .annotations
                .entry(key.clone())
                .or_insert_with(|| value.clone())
                != value
            {
                lost.push(Subject::Annotation(key.clone()));
            }
        }
        for (identity, taint) in &younger.taints {
            let older = self
                .taints
                .entry(identity.clone())
                .or_insert_with(|| taint.clone());
            if older.value.as_deref().unwrap_or_default()
                != taint.value.as_deref().unwrap_or_default()
            {
                lost.push(Subject::Taint(identity.clone()));
            }
        }
        lost
    }

    fn value(&self, subject: &Subject) -> Option<String> {
        match subject {
            Subject::Label(key) => self.labels.get(key).cloned(),
            Subject::Annotation(key) => self.annotations.get(key).cloned(),
            Subject::Taint(identity) => {
                let taint = self.taints.get(identity)?;
                Some(taint.value.clone().unwrap_or_default())
            }
        }
    }
}

/// What NodeUnits can differ about on a node.
#[derive(Clone, Debug)]
enum Subject {
    Label(String),
    Annotation(String),
    Taint((String, String)),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(key) => write!(f, "label {key}"),
            Self::Annotation(key) => write!(f, "annotation {key}"),
            Self::Taint((key, effect)) => write!(f, "taint {key}:{effect}"),
        }
    }
}

impl Conflict {
    /// `loser` gives way to the oldest of the node's NodeUnits that has a setting for `subject`.
    fn new(
        subject: &Subject,
        node: &str,
        (loser, lost): (&str, &NodeSettings),
        claimants: &[(&str, &NodeSettings)],
    ) -> Self {
        let mut values = claimants
            .iter()
            .filter_map(|(name, settings)| Some(((*name).to_owned(), settings.value(subject)?)));
        Self {
            node: node.to_owned(),
            subject: subject.to_string(),
            winner: values.next().unwrap_or_default(),
            loser: (loser.to_owned(), lost.value(subject).unwrap_or_default()),
        }
    }
}
