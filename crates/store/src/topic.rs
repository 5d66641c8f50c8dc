//! The prefixes somebody watches, each with the revisions that concern it.
//!
//! The index serves two ends: a watcher finds its next event without looking at anybody else's,
//! and one whose prefix is quiet is not cut off when the history moves on without it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct Topic {
    /// Every event under the prefix after this revision is, or was, in `revisions`.
    since: u64,
    /// The last revision that was dropped from `revisions`; nothing relevant was lost after it.
    dropped: u64,
    revisions: VecDeque<u64>,
    /// The last relevant revision; watchers sleep on it.
    sender: watch::Sender<u64>,
}

/// What the index says about a watcher's next event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This revision concerns the prefix and has not been seen.
    At(u64),
    /// Nothing has happened under the prefix since.
    Nothing,
    /// Events the watcher has not seen are gone.
    Lost,
    /// The index does not reach back that far; look through the history.
    Before,
}

impl Topic {
    fn new(since: u64) -> Self {
        Self {
            since,
            dropped: since,
            revisions: VecDeque::new(),
            sender: watch::Sender::new(since),
        }
    }

    pub(crate) fn next(&self, cursor: u64, compacted: u64) -> Next {
        if cursor < self.since {
            return Next::Before;
        }
        if cursor < self.dropped {
            return Next::Lost;
        }
        let index = self
            .revisions
            .partition_point(|revision| *revision <= cursor);
        match self.revisions.get(index) {
            Some(revision) if *revision <= compacted => Next::Lost,
            Some(revision) => Next::At(*revision),
            None => Next::Nothing,
        }
    }

    fn record(&mut self, revision: u64, compacted: u64) {
        while let Some(first) = self.revisions.front().copied()
            && first <= compacted
        {
            self.dropped = first;
            self.revisions.pop_front();
        }
        self.revisions.push_back(revision);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Topics(BTreeMap<Box<[u8]>, Topic>);

impl Topics {
    pub(crate) fn subscribe(&mut self, prefix: &str, revision: u64) -> watch::Receiver<u64> {
        let topic = self
            .0
            .entry(prefix.as_bytes().into())
            .or_insert_with(|| Topic::new(revision));
        topic.sender.subscribe()
    }

    /// Gives a subscription back; the last one takes the topic with it.
    pub(crate) fn unsubscribe(&mut self, prefix: &str, receiver: watch::Receiver<u64>) {
        drop(receiver);
        if self
            .get(prefix)
            .is_some_and(|topic| topic.sender.receiver_count() == 0)
        {
            self.0.remove(prefix.as_bytes());
        }
    }

    pub(crate) fn get(&self, prefix: &str) -> Option<&Topic> {
        self.0.get(prefix.as_bytes())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Enters a change into every topic it concerns, and says whom to wake once it is visible.
    pub(crate) fn record(
        &mut self,
        key: &str,
        revision: u64,
        compacted: u64,
    ) -> Vec<watch::Sender<u64>> {
        let mut awake = Vec::new();
        let mut bound = Some(key.len());
        while let Some(length) = bound {
            let upper = Bound::Included(&key.as_bytes()[..length]);
            let Some((prefix, topic)) = self
                .0
                .range_mut::<[u8], _>((Bound::Unbounded, upper))
                .next_back()
            else {
                break;
            };
            if key.as_bytes().starts_with(prefix) {
                topic.record(revision, compacted);
                awake.push(topic.sender.clone());
                bound = prefix.len().checked_sub(1);
            } else {
                bound = Some(common_length(key.as_bytes(), prefix));
            }
        }
        awake
    }
}

fn common_length(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reaches_every_prefix_of_its_key_and_no_other() {
        let mut topics = Topics::default();
        let prefixes = [
            "", "a/", "a/b", "a/b/", "a/bc", "a/ba", "a/b/x", "a/b/xy", "b", "a/b/w",
        ];
        let subscriptions: Vec<_> = prefixes.map(|prefix| topics.subscribe(prefix, 0)).into();
        topics.record("a/b/x", 7, 0);
        let reached: Vec<_> = prefixes
            .into_iter()
            .filter(|prefix| topics.get(prefix).unwrap().next(0, 0) == Next::At(7))
            .collect();
        assert_eq!(reached, ["", "a/", "a/b", "a/b/", "a/b/x"]);
        for (prefix, receiver) in prefixes.into_iter().zip(subscriptions) {
            topics.unsubscribe(prefix, receiver);
        }
        assert_eq!(topics.len(), 0);
    }

    #[test]
    fn a_quiet_topic_survives_compaction_and_a_lost_event_shows() {
        let mut topics = Topics::default();
        let _held = topics.subscribe("a/", 10);
        assert_eq!(topics.get("a/").unwrap().next(10, 5000), Next::Nothing);
        topics.record("a/x", 11, 10);
        assert_eq!(topics.get("a/").unwrap().next(10, 11), Next::Lost);
        topics.record("a/x", 20, 15);
        assert_eq!(topics.get("a/").unwrap().next(10, 15), Next::Lost);
        assert_eq!(topics.get("a/").unwrap().next(11, 15), Next::At(20));
        assert_eq!(topics.get("a/").unwrap().next(9, 15), Next::Before);
    }
}
