//! What is known of the own Node, and what is kept of it when it is gone: a Node object that is deleted says
//! nothing new about where the machine stands. Pure.
//!
//! ```text
//! deleted ─► labels kept, object still served ─┬─ back, same uid ────► what it says
//!                                              ├─ back, another uid ─► what it says; labels that it lacks stay kept
//!                                              └─ grace over ────────► nothing
//! a label taken off, same uid ─► gone at once
//! ```

use std::collections::BTreeMap;
use tokio::time::Instant;

/// The present moment, and when the grace of what is gone now will be over: at once if there is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grace {
    pub(crate) now: Instant,
    pub(crate) until: Instant,
}

/// The own Node.
#[derive(Debug, Default)]
pub(crate) struct OwnNode {
    /// Of the object that was seen last.
    uid: Option<String>,
    /// What it has.
    labels: BTreeMap<String, String>,
    /// What an earlier object had.
    kept: BTreeMap<String, KeptLabel>,
    /// When it is served no more, if the object is gone.
    gone_until: Option<Instant>,
}

/// The value of a label that no object has any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptLabel {
    pub(crate) value: String,
    pub(crate) until: Instant,
}

impl OwnNode {
    /// Takes note of the object as it is now.
    pub(crate) fn applied(&mut self, uid: &str, labels: BTreeMap<String, String>, until: Instant) {
        let was_gone = self.gone_until.take().is_some();
        if self.uid.as_deref() != Some(uid) {
            self.keep_labels(until);
        } else if was_gone {
            self.kept.clear();
        }
        self.kept.retain(|key, _| !labels.contains_key(key));
        self.uid = Some(uid.to_owned());
        self.labels = labels;
    }

    /// Takes note that there is no object; true if there was one.
    pub(crate) fn deleted(&mut self, until: Instant) -> bool {
        if self.uid.is_none() || self.gone_until.is_some() {
            return false;
        }
        self.keep_labels(until);
        self.gone_until = Some(until);
        true
    }

    fn keep_labels(&mut self, until: Instant) {
        let labels = std::mem::take(&mut self.labels);
        let kept = labels.into_iter();
        self.kept
            .extend(kept.map(|(key, value)| (key, KeptLabel { value, until })));
    }

    /// Drops what is over; true if the object is to be served no more.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        self.kept.retain(|_, kept| kept.until > now);
        let is_over = self.gone_until.is_some_and(|until| until <= now);
        if is_over {
            *self = Self::default();
        }
        is_over
    }

    /// The labels that say where the node stands.
    pub(crate) fn effective_labels(&self) -> BTreeMap<String, String> {
        let kept = self.kept.iter();
        let kept = kept.map(|(key, kept)| (key.clone(), kept.value.clone()));
        kept.chain(self.labels.clone()).collect()
    }

    /// When the next thing is over.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let kept = self.kept.values().map(|kept| kept.until);
        kept.chain(self.gone_until).min()
    }

    /// When the object is served no more, if it is gone.
    pub(crate) fn gone_until(&self) -> Option<Instant> {
        self.gone_until
    }

    /// Labels of an earlier object that still count.
    pub(crate) fn kept(&self) -> &BTreeMap<String, KeptLabel> {
        &self.kept
    }

    /// The uid of the object that was seen last.
    pub(crate) fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    /// Goes on with a grace that began in an earlier run.
    pub(crate) fn resume(
        &mut self,
        gone_until: Option<Instant>,
        kept: BTreeMap<String, KeptLabel>,
    ) {
        if let Some(until) = gone_until {
            self.deleted(until);
        }
        let kept = kept.into_iter();
        self.kept
            .extend(kept.filter(|(key, _)| !self.labels.contains_key(key)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn unit(value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("unit".to_owned(), value.to_owned())])
    }

    fn value(node: &OwnNode) -> Option<String> {
        node.effective_labels().remove("unit")
    }

    fn at(minutes: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_mins(minutes)
    }

    fn labelled() -> OwnNode {
        let mut node = OwnNode::default();
        node.applied("1", unit("a"), at(5));
        node
    }

    #[test]
    fn a_label_taken_off_the_same_object_counts_at_once() {
        let mut node = labelled();
        node.applied("1", BTreeMap::new(), at(6));
        assert_eq!((value(&node), node.deadline()), (None, None));
    }

    #[test]
    fn what_is_gone_keeps_its_labels_until_the_grace_is_over() {
        let mut node = labelled();
        assert!(node.deleted(at(6)));
        assert!(!node.deleted(at(9)), "it is gone already");
        assert!(!node.expire(at(5)));
        assert_eq!(
            (value(&node).as_deref(), node.deadline()),
            (Some("a"), Some(at(6)))
        );
        assert!(node.expire(at(6)));
        assert_eq!((value(&node), node.deadline()), (None, None));
    }

    #[test]
    fn another_object_keeps_what_it_lacks_and_stands_where_it_says() {
        for gone in [true, false] {
            let mut node = labelled();
            if gone {
                node.deleted(at(6));
            }
            let host = BTreeMap::from([("host".to_owned(), "x".to_owned())]);
            node.applied("2", host, at(6));
            assert_eq!(value(&node).as_deref(), Some("a"));
            assert_eq!((node.gone_until(), node.deadline()), (None, Some(at(6))));
            node.applied("2", unit("b"), at(7));
            assert_eq!(value(&node).as_deref(), Some("b"));
            node.applied("2", BTreeMap::new(), at(7));
            assert_eq!(value(&node), None, "it was taken off a living node");
        }
    }

    #[test]
    fn the_same_object_once_more_says_what_counts() {
        let mut node = labelled();
        node.deleted(at(6));
        node.applied("1", BTreeMap::new(), at(7));
        assert_eq!((value(&node), node.deadline()), (None, None));
    }

    #[test]
    fn every_label_has_a_grace_of_its_own() {
        let mut node = labelled();
        node.deleted(at(6));
        node.applied(
            "2",
            BTreeMap::from([("rack".to_owned(), "r".to_owned())]),
            at(7),
        );
        node.deleted(at(8));
        assert!(!node.expire(at(7)));
        let left: Vec<String> = node.effective_labels().into_keys().collect();
        assert_eq!(left, ["rack"]);
        assert!(node.expire(at(8)));
    }

    #[test]
    fn without_a_grace_nothing_is_kept() {
        let mut node = labelled();
        node.deleted(at(3));
        assert!(node.expire(at(3)));
        assert_eq!(value(&node), None);
    }
}
