//! How the last node of a unit went: by losing its label, or with its Node object.
//!
//! The first is somebody's wish, and the unit's workloads go at once. The second may be an
//! autoscaler, a site that registers again, an outage: the workloads wait. The cluster shows
//! only that the node is gone, so it must be noted as it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use edgegrid_plan::SiteNode;

use crate::cache::Change;

/// How the last node of a unit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Its label was removed or got another value.
    LabelLost,
    /// Its Node object was deleted, or replaced by another of the same name.
    NodeDeleted,
}

/// What was seen of each unit's last node, by label key and value.
#[derive(Clone, Default)]
pub struct Departures(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    units: BTreeMap<(String, String), Departure>,
    /// The last one of each label key.
    last: BTreeMap<String, Departure>,
}

impl Departures {
    /// How the last node that had this label went; `None` when it was not seen going.
    pub fn of(&self, label: &str, unit: &str) -> Option<Departure> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.units
            .get(&(label.to_owned(), unit.to_owned()))
            .copied()
    }

    /// How the last node that had this label key went; `None` when it was not seen going.
    pub fn last(&self, label: &str) -> Option<Departure> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.last.get(label).copied()
    }

    /// Notes what a change of a Node means to the units of these label keys, and returns the keys
    /// whose units it concerns.
    pub fn apply(&self, change: &Change<SiteNode>, keys: &BTreeSet<String>) -> BTreeSet<String> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let departure = departure(change);
        let mut concerned = BTreeSet::new();
        for key in keys {
            let (old, new) = (
                value(change.before().map(|node| &**node), key),
                value(change.after().map(|node| &**node), key),
            );
            if old == new && departure == Departure::LabelLost {
                continue;
            }
            if let Some(unit) = &old {
                seen.units.insert((key.clone(), unit.clone()), departure);
                seen.last.insert(key.clone(), departure);
            }
            if let Some(unit) = &new {
                seen.units.remove(&(key.clone(), unit.clone()));
            }
            if old.is_some() || new.is_some() {
                concerned.insert(key.clone());
            }
        }
        concerned
    }

    /// Forgets the label keys that nobody asks for any more.
    pub fn retain(&self, keys: &BTreeSet<String>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.units.retain(|(key, _), _| keys.contains(key));
        seen.last.retain(|key, _| keys.contains(key));
    }
}

fn departure(change: &Change<SiteNode>) -> Departure {
    match change {
        Change::Added(_) => Departure::LabelLost,
        Change::Changed { old, new } if old.metadata.uid == new.metadata.uid => {
            Departure::LabelLost
        }
        Change::Changed { .. } | Change::Removed(_) => Departure::NodeDeleted,
    }
}

/// The unit that a label key puts a node into; an empty value is no unit.
fn value(node: Option<&SiteNode>, key: &str) -> Option<String> {
    let labels = node?.metadata.labels.as_ref()?;
    labels.get(key).filter(|value| !value.is_empty()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(uid: &str, zone: Option<&str>) -> Arc<SiteNode> {
        let mut node = SiteNode::default();
        node.metadata.name = Some("n".into());
        node.metadata.uid = Some(uid.into());
        node.metadata.labels = zone.map(|zone| BTreeMap::from([("zone".into(), zone.into())]));
        Arc::new(node)
    }

    fn after(change: &Change<SiteNode>) -> (Option<Departure>, usize) {
        let departures = Departures::default();
        let keys = BTreeSet::from(["zone".to_owned()]);
        let concerned = departures.apply(change, &keys);
        (departures.of("zone", "a"), concerned.len())
    }

    fn changed(old: Arc<SiteNode>, new: Arc<SiteNode>) -> Change<SiteNode> {
        Change::Changed { old, new }
    }

    #[test]
    fn a_label_taken_off_or_changed_is_a_wish() {
        for new in [node("1", None), node("1", Some("b"))] {
            let change = changed(node("1", Some("a")), new);
            assert_eq!(after(&change), (Some(Departure::LabelLost), 1));
        }
    }

    #[test]
    fn a_deleted_node_and_one_that_came_back_as_another_are_not() {
        let deleted = Change::Removed(node("1", Some("a")));
        assert_eq!(after(&deleted), (Some(Departure::NodeDeleted), 1));
        let replaced = changed(node("1", Some("a")), node("2", None));
        assert_eq!(after(&replaced), (Some(Departure::NodeDeleted), 1));
    }

    #[test]
    fn a_node_that_has_the_label_means_the_unit_is_there() {
        assert_eq!(after(&Change::Added(node("1", Some("a")))), (None, 1));
        let replaced = changed(node("1", Some("a")), node("2", Some("a")));
        assert_eq!(after(&replaced), (None, 1));
    }

    #[test]
    fn a_change_that_keeps_the_label_concerns_nobody() {
        assert_eq!(
            after(&changed(node("1", Some("a")), node("1", Some("a")))),
            (None, 0)
        );
        assert_eq!(
            after(&changed(node("1", Some("")), node("1", None))),
            (None, 0)
        );
    }
}
