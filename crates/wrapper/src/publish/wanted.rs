//! What must be read, and whether enough has been seen to show anything.

use super::Inner;
use crate::feed::Feed;
use crate::kinds::ServedKind;
use std::collections::BTreeSet;

impl Inner {
    /// The feeds that are needed now.
    pub(super) fn wanted(&self) -> BTreeSet<Feed> {
        let kinds = ServedKind::ALL.into_iter();
        let kinds = kinds.filter(|kind| *kind != ServedKind::Endpoints || self.endpoints_wanted);
        let peers = self.index.wanted_peers().into_iter();
        let peers = peers.map(|(key, value)| Feed::Peers {
            key: key.into(),
            value,
        });
        let absent = self
            .grace
            .absent
            .asked()
            .map(|node| Feed::Absent(node.to_owned()));
        let units = self.units.keys().cloned().map(Feed::Unit);
        let kinds = kinds.map(Feed::Kind);
        let sets = self.wanted_sets();
        kinds
            .chain(peers)
            .chain(absent)
            .chain(units)
            .chain(sets)
            .collect()
    }

    /// The feeds of StatefulSets: one for each of the own units, whatever their keys.
    pub(super) fn wanted_sets(&self) -> BTreeSet<Feed> {
        if !self.index.is_naming() {
            return BTreeSet::new();
        }
        let units = self.index.wanted_peers().into_values();
        let mut sets: BTreeSet<Feed> = units.map(Feed::Sets).collect();
        if !sets.is_empty() {
            sets.insert(Feed::SuperEdgeSets);
        }
        sets
    }

    pub(super) fn is_synced(&self, feed: &Feed) -> bool {
        self.feeds.get(feed).is_some_and(|progress| progress.synced)
    }

    /// An error unless a feed has been listed: what was dropped meanwhile cannot be continued.
    pub(super) fn synced(&self, feed: &Feed) -> Result<(), String> {
        if self.is_synced(feed) {
            return Ok(());
        }
        Err("nothing was listed that this could follow".to_owned())
    }

    pub(super) fn set_resume_point(&mut self, feed: &Feed, revision: &str) {
        if let Some(progress) = self.feeds.get_mut(feed) {
            revision.clone_into(&mut progress.revision);
        }
    }

    /// Whether all that the view of this node depends on has been seen. Sets are waited for, so
    /// that no name is denied that will be there in a moment; but traffic does not depend on them,
    /// so to have asked in vain is enough.
    pub(super) fn is_complete(&self) -> bool {
        let needed = [ServedKind::Services, ServedKind::Slices, ServedKind::Nodes];
        let synced = |kind: ServedKind| self.is_synced(&Feed::Kind(kind));
        let asked = |feed: &Feed| {
            let progress = self.feeds.get(feed);
            progress.is_some_and(|progress| progress.synced || progress.failed)
        };
        needed.into_iter().all(synced)
            && self.index.has_all_peers()
            && self.wanted_sets().iter().all(asked)
    }
}
