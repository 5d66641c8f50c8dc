//! What units want of a node, and who gives way.
//!
//! Two units may want different things of one node. The older one gets its way, always: which one
//! that is does not depend on what is on the node, so nothing flaps.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Taint;

use crate::site::Site;

/// What a unit wants of each of its nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wish {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Taints, by key and effect.
    pub taints: BTreeMap<(String, String), Taint>,
    /// Whether new pods are kept away.
    pub unschedulable: bool,
}

/// What all units together want of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intent {
    /// The units that have the node, oldest first.
    pub units: Vec<String>,
    /// What the node should carry.
    pub wish: Wish,
    /// Who does not get its way.
    pub conflicts: Vec<Conflict>,
}

/// A wish that an older unit's stands against.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The node.
    pub node: String,
    /// What it is about: `label location`.
    pub subject: String,
    /// The older unit and what it wants.
    pub winner: (String, String),
    /// The younger unit and what it wants.
    pub loser: (String, String),
}

impl Intent {
    /// The wishes of a node's units, oldest first, made one.
    pub(crate) fn of(node: &str, sites: &[&Site]) -> Self {
        let mut intent = Self::default();
        for site in sites {
            intent.units.push(site.name.clone());
            intent.wish.unschedulable |= site.wish.unschedulable;
            let lost = intent.wish.hear(&site.wish).into_iter();
            let conflicts = lost.map(|subject| Conflict::over(&subject, node, site, sites));
            intent.conflicts.extend(conflicts);
        }
        intent
    }
}

impl Wish {
    /// Adds what a younger unit wants; returns what of it gives way to what is wanted already.
    fn hear(&mut self, younger: &Self) -> Vec<Subject> {
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
            let standing = self
                .taints
                .entry(identity.clone())
                .or_insert_with(|| taint.clone());
            if standing.value.as_deref().unwrap_or_default()
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

/// What units can differ about on a node.
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
    /// `loser` gives way to the first of the node's units, oldest first, that speaks about it.
    fn over(subject: &Subject, node: &str, loser: &Site, sites: &[&Site]) -> Self {
        let mut speaking = sites
            .iter()
            .filter_map(|site| Some((site.name.clone(), site.wish.value(subject)?)));
        Self {
            node: node.to_owned(),
            subject: subject.to_string(),
            winner: speaking.next().unwrap_or_default(),
            loser: (
                loser.name.clone(),
                loser.wish.value(subject).unwrap_or_default(),
            ),
        }
    }
}
