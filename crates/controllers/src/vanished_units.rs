//! How and when the last node of a unit went: by losing its label, or with its Node object.
//!
//! The first is intended, and the unit's workloads go at once. The second may be an
//! autoscaler, a site that registers again, an outage: the workloads wait for the grace period. The cluster shows
//! only that the node is gone, so it must be noted as it happens, on a clock that does not jump.
//!
//! A process that did not see the node go counts from when it first found the unit without nodes. So does one that
//! has just become the leader, whatever it saw before: it may have been cut off since, and its watches may need a
//! while to show that the node is back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use edgegrid_plan::PrunedNode;
use edgegrid_plan::grid_state::VanishedUnit;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::reflector::Change;

/// How the last node of a unit went, and the unit with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vanished {
    /// Its label was removed or got another value.
    LabelLost,
    /// Its Node object was deleted, or replaced by another of the same name.
    NodeDeleted,
    /// It was gone when this process first looked.
    NotSeen,
}

/// What was seen of each unit's last node, by label key and value.
#[derive(Clone, Default)]
pub struct VanishedUnits(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    by_unit: BTreeMap<(String, String), Seen>,
    /// The last unit of each label key.
    by_key: BTreeMap<String, Seen>,
}

/// What was seen, and when.
#[derive(Clone, Copy)]
struct Seen {
    how: Vanished,
    at: Instant,
    /// The same moment by the wall clock, which may be wrong and may jump.
    moment: Timestamp,
}

impl Seen {
    fn now(how: Vanished, now: Timestamp) -> Self {
        Self {
            how,
            at: Instant::now(),
            moment: now,
        }
    }

    fn vanished(self) -> VanishedUnit {
        VanishedUnit {
            lost_label: self.how == Vanished::LabelLost,
            elapsed: self.at.elapsed(),
            ..VanishedUnit::seen_now(self.moment)
        }
    }
}

impl VanishedUnits {
    /// How and when a unit that has no nodes went; from now on, if that was not seen.
    pub fn unit(&self, label: &str, unit: &str, now: Timestamp) -> VanishedUnit {
        let mut inner = self.0.lock();
        let key = (label.to_owned(), unit.to_owned());
        let seen = inner.by_unit.entry(key);
        seen.or_insert_with(|| Seen::now(Vanished::NotSeen, now))
            .vanished()
    }

    /// How and when the last unit of a label key that no node has went; from now on, if that was not seen.
    pub fn last(&self, label: &str, now: Timestamp) -> VanishedUnit {
        let mut inner = self.0.lock();
        let seen = inner.by_key.entry(label.to_owned());
        seen.or_insert_with(|| Seen::now(Vanished::NotSeen, now))
            .vanished()
    }

    /// How the last node that had this label went; `None` when it was not seen going.
    pub fn get(&self, label: &str, unit: &str) -> Option<Vanished> {
        let inner = self.0.lock();
        let seen = inner.by_unit.get(&(label.to_owned(), unit.to_owned()))?;
        Some(seen.how).filter(|how| *how != Vanished::NotSeen)
    }

    /// Notes what a change of a Node means to the units of these label keys, and returns the keys
    /// whose units it concerns.
    pub fn apply(
        &self,
        change: &Change<PrunedNode>,
        keys: &BTreeSet<String>,
        now: Timestamp,
    ) -> BTreeSet<String> {
        let mut inner = self.0.lock();
        let seen = Seen::now(cause(change), now);
        let mut concerned = BTreeSet::new();
        for key in keys {
            let (old, new) = (
                value(change.before().map(|node| &**node), key),
                value(change.after().map(|node| &**node), key),
            );
            if old == new && seen.how == Vanished::LabelLost {
                continue;
            }
            if let Some(unit) = &old {
                inner.by_unit.insert((key.clone(), unit.clone()), seen);
                inner.by_key.insert(key.clone(), seen);
            }
            if let Some(unit) = &new {
                inner.by_unit.remove(&(key.clone(), unit.clone()));
                inner.by_key.remove(key);
            }
            if old.is_some() || new.is_some() {
                concerned.insert(key.clone());
            }
        }
        concerned
    }

    /// Forgets all that was seen, so that every unit without nodes is new.
    pub fn clear(&self) {
        let mut inner = self.0.lock();
        inner.by_unit.clear();
        inner.by_key.clear();
    }

    /// Forgets the label keys that nobody asks for any more.
    pub fn retain(&self, keys: &BTreeSet<String>) {
        let mut inner = self.0.lock();
        inner.by_unit.retain(|(key, _), _| keys.contains(key));
        inner.by_key.retain(|key, _| keys.contains(key));
    }
}

fn cause(change: &Change<PrunedNode>) -> Vanished {
    match change {
        Change::Added(_) => Vanished::LabelLost,
        Change::Changed { old, new } if old.metadata.uid == new.metadata.uid => Vanished::LabelLost,
        Change::Changed { .. } | Change::Removed(_) => Vanished::NodeDeleted,
    }
}

/// The unit that a label key puts a node into; an empty value is no unit.
fn value(node: Option<&PrunedNode>, key: &str) -> Option<String> {
    let labels = node?.metadata.labels.as_ref()?;
    labels.get(key).filter(|value| !value.is_empty()).cloned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    fn node(uid: &str, zone: Option<&str>) -> Arc<PrunedNode> {
        let mut node = PrunedNode::default();
        node.metadata.name = Some("n".into());
        node.metadata.uid = Some(uid.into());
        node.metadata.labels = zone.map(|zone| BTreeMap::from([("zone".into(), zone.into())]));
        Arc::new(node)
    }

    fn after(change: &Change<PrunedNode>) -> (Option<Vanished>, usize) {
        let vanished = VanishedUnits::default();
        let keys = BTreeSet::from(["zone".to_owned()]);
        let concerned = vanished.apply(change, &keys, Timestamp::UNIX_EPOCH);
        (vanished.get("zone", "a"), concerned.len())
    }

    fn changed(old: Arc<PrunedNode>, new: Arc<PrunedNode>) -> Change<PrunedNode> {
        Change::Changed { old, new }
    }

    #[test]
    fn a_label_taken_off_or_changed_is_intended() {
        for new in [node("1", None), node("1", Some("b"))] {
            let change = changed(node("1", Some("a")), new);
            assert_eq!(after(&change), (Some(Vanished::LabelLost), 1));
        }
    }

    #[test]
    fn a_deleted_node_and_one_that_came_back_as_another_are_not() {
        let deleted = Change::Removed(node("1", Some("a")));
        assert_eq!(after(&deleted), (Some(Vanished::NodeDeleted), 1));
        let replaced = changed(node("1", Some("a")), node("2", None));
        assert_eq!(after(&replaced), (Some(Vanished::NodeDeleted), 1));
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

    fn gone_for(vanished: &VanishedUnits) -> [Duration; 2] {
        let now = Timestamp::UNIX_EPOCH;
        [
            vanished.unit("zone", "a", now).elapsed,
            vanished.last("zone", now).elapsed,
        ]
    }

    /// However short the return: a pass may have seen nothing of it.
    #[tokio::test(start_paused = true)]
    async fn a_unit_that_came_back_and_went_again_is_gone_since_the_second_time() {
        let vanished = VanishedUnits::default();
        let apply = |change: &Change<PrunedNode>| {
            vanished.apply(change, &["zone".to_owned()].into(), Timestamp::UNIX_EPOCH)
        };
        let minute = Duration::from_mins(1);
        let node = node("1", Some("a"));
        apply(&Change::Removed(node.clone()));
        advance(minute).await;
        assert_eq!(gone_for(&vanished), [minute; 2]);
        apply(&Change::Added(node.clone()));
        apply(&Change::Removed(node));
        assert_eq!(gone_for(&vanished), [Duration::ZERO; 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_unit_that_was_not_seen_going_is_gone_since_the_first_look() {
        let vanished = VanishedUnits::default();
        advance(Duration::from_hours(1)).await;
        assert_eq!(gone_for(&vanished), [Duration::ZERO; 2]);
        advance(Duration::from_mins(1)).await;
        assert_eq!(gone_for(&vanished), [Duration::from_mins(1); 2]);
        assert_eq!(vanished.get("zone", "a"), None);
    }
}
