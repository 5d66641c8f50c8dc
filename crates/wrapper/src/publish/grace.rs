//! Nodes that are gone: what of them counts on, and the end of it.

use super::plain::{Effect, Plain};
use super::rendered::Touched;
use super::{Inner, Publisher};
use crate::feed::Feed;
use crate::index::absent::{Absence, AbsentPeers, Answer, LeftSet, SeenNode};
use crate::index::own_node::{Grace, KeptLabel, OwnNode};
use crate::kinds::ServedKind;
use crate::snapshot::{AbsentRecord, GraceRecords, KeptLabelRecord};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// No grace is longer.
const MAX_GRACE: Duration = Duration::from_hours(24 * 365);

/// What is known of Nodes that are gone, or may be.
#[derive(Debug, Default)]
pub(super) struct NodeGrace {
    pub(super) own: OwnNode,
    pub(super) absent: AbsentPeers,
    /// Whether something has changed of it that outlives this process.
    pub(super) changed: bool,
    /// Whether the own Node is gone that was there before.
    own_went: bool,
}

impl Publisher {
    /// The same, with what is gone of Nodes counting for a while.
    pub(crate) fn with_node_grace(mut self, grace: Duration) -> Self {
        self.node_grace = grace.min(MAX_GRACE);
        self
    }

    pub(super) fn grace(&self) -> Grace {
        let now = Instant::now();
        Grace {
            now,
            until: now + self.node_grace,
        }
    }

    /// How often the own Node was gone.
    pub(crate) fn own_node_gone(&self) -> watch::Receiver<u64> {
        self.own_node_gone.subscribe()
    }

    /// The uid of the own Node as it was seen last.
    pub(crate) fn own_uid(&self) -> Option<String> {
        self.inner().grace.own.uid().map(str::to_owned)
    }

    /// How long what is gone of Nodes counts.
    pub(crate) fn node_grace(&self) -> Duration {
        self.node_grace
    }

    /// Ends every grace that is over, for ever.
    pub(crate) async fn end_graces(&self) {
        loop {
            let deadline = self.inner().deadline();
            let over = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => self.end_grace(),
                () = self.grace_changed.notified() => {}
            }
        }
    }

    fn end_grace(&self) {
        let mut inner = self.inner();
        let now = Instant::now();
        let mut touched = Touched::default();
        inner.expire_own_node(now, &mut touched);
        for left in inner.grace.absent.expire(now) {
            let LeftSet { node, key, value } = &left;
            tracing::warn!(%node, %key, value, "peer is gone and its grace is over, or nobody says where it is: leaving its endpoints out");
            inner.drop_peer(&left, &mut touched);
        }
        inner.grace.changed = true;
        self.finish(&mut inner, touched);
    }

    /// Wakes whoever ends graces, and has a snapshot written: a grace goes on over restarts.
    pub(super) fn publish_grace(&self, inner: &mut Inner) {
        if std::mem::take(&mut inner.grace.own_went) {
            self.own_node_gone.send_modify(|times| *times += 1);
        }
        if std::mem::take(&mut inner.grace.changed) {
            self.grace_changed.notify_one();
            self.changes.send_modify(|changes| changes.view += 1);
        }
    }

    /// Goes on with the graces of an earlier run, as soon as the feed is known that they are about.
    pub(super) fn resume_grace(&self, feed: &Feed, records: &GraceRecords) {
        let now = self.now();
        let until = |since: Timestamp| self.resumed(since, now);
        let mut inner = self.inner();
        match feed {
            Feed::Kind(ServedKind::Nodes) => {
                let labels = records.labels.iter().map(|label| {
                    let (value, until) = (label.value.clone(), until(label.since));
                    (label.key.clone(), KeptLabel { value, until })
                });
                let labels = labels.collect();
                inner.grace.own.resume(records.own.map(until), labels);
            }
            Feed::Peers { key, value } => {
                for record in records.peers.iter().filter(|record| record.key == *key) {
                    let grace = Grace {
                        now: Instant::now(),
                        until: until(record.since),
                    };
                    inner.resume_absence(record, value, grace);
                }
            }
            _ => return,
        }
        let mut touched = Touched::default();
        inner.expire_own_node(Instant::now(), &mut touched);
        inner.grace.changed = true;
        self.finish(&mut inner, touched);
    }

    /// When a grace is over that began at a time of day. A clock that was set back says nothing
    /// about how long ago that was.
    fn resumed(&self, since: Timestamp, now: Timestamp) -> Instant {
        let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        Instant::now() + self.node_grace.saturating_sub(passed)
    }

    /// What counts though it is gone, in sentences.
    pub(crate) fn grace_lines(&self) -> Vec<String> {
        self.inner().grace_lines(Instant::now())
    }
}

impl Inner {
    /// Takes note of the own Node, or that it is gone.
    pub(super) fn set_own_node(
        &mut self,
        object: Option<Plain>,
        grace: Grace,
        touched: &mut Touched<'_>,
    ) {
        let before = self.grace.own.deadline();
        match object {
            Some(Plain {
                key,
                text,
                effect: Effect::Node(SeenNode { uid, labels }),
                ..
            }) => {
                self.grace.own.applied(&uid, labels, grace.until);
                self.write_plain(&key, Some(text), touched);
            }
            _ => {
                if self.grace.own.deleted(grace.until) && grace.until > grace.now {
                    (self.grace.own_went, self.grace.changed) = (true, true);
                    let seconds = grace.until.duration_since(grace.now).as_secs();
                    tracing::warn!(
                        node = self.index.own_name(),
                        seconds,
                        "own Node is gone: keeping its labels and serving it for the grace"
                    );
                }
            }
        }
        self.expire_own_node(grace.now, touched);
        self.grace.changed |= self.grace.own.deadline() != before;
    }

    /// Ends what is over of the own Node, and has the view follow.
    fn expire_own_node(&mut self, now: Instant, touched: &mut Touched<'_>) {
        if self.grace.own.expire(now) {
            let key = ServedKind::Nodes
                .resource()
                .key(None, self.index.own_name());
            tracing::warn!(
                node = self.index.own_name(),
                "own Node is gone and its grace is over: services closed by its labels have no endpoints here"
            );
            self.write_plain(&key, None, touched);
        }
        touched.add_moved(self.index.set_labels(self.grace.own.effective_labels()));
    }

    /// Takes note that a node is missing in a set; true if it counts as a peer all the same.
    pub(super) fn add_absent(
        &mut self,
        node: &str,
        key: &str,
        absence: Absence,
        grace: Grace,
    ) -> bool {
        self.grace.changed = true;
        self.grace.absent.add(node, key, absence, grace.now)
    }

    /// Takes note of what is said of a node that is missing in sets.
    pub(super) fn absent_answered(
        &mut self,
        feed: &Feed,
        node: Option<SeenNode>,
        revision: &str,
    ) -> Touched<'static> {
        let mut touched = Touched::default();
        let Feed::Absent(name) = feed else {
            return touched;
        };
        let revision = revision.parse().ok();
        for left in self.grace.absent.answered(name, Answer { revision, node }) {
            let LeftSet { node, key, value } = &left;
            tracing::info!(%node, %key, value, "Node is there without the value: leaving its endpoints out");
            self.drop_peer(&left, &mut touched);
        }
        self.grace.changed = true;
        touched
    }

    fn drop_peer(&mut self, left: &LeftSet, touched: &mut Touched<'_>) {
        let LeftSet { node, key, value } = left;
        if let Some(number) = self.index.names.known(node) {
            touched.add_moved(self.index.set_peer(key, value, number, false));
        }
    }

    /// Forgets what is missing in sets that are needed no more.
    pub(super) fn forget_absent(&mut self) {
        let index = &self.index;
        self.grace
            .absent
            .retain(|node, key, absence| index.is_peer(key, &absence.value, node));
    }

    fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.grace.own.deadline(), self.grace.absent.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// What is to be known after a restart.
    pub(super) fn grace_records(&self, grace: Duration, now: Timestamp) -> GraceRecords {
        let at = Instant::now();
        let since = |until: Instant| {
            let passed = grace.saturating_sub(until.saturating_duration_since(at));
            now - SignedDuration::try_from(passed).unwrap_or_default()
        };
        let labels = self
            .grace
            .own
            .kept()
            .iter()
            .map(|(key, kept)| KeptLabelRecord {
                key: key.clone(),
                value: kept.value.clone(),
                since: since(kept.until),
            });
        let peers = self
            .grace
            .absent
            .iter()
            .map(|(node, key, absence)| AbsentRecord {
                node: node.to_owned(),
                key: key.to_owned(),
                uid: absence.uid.clone(),
                revision: absence.revision,
                gone: absence.answer_by.is_none(),
                since: since(absence.until),
            });
        GraceRecords {
            own: self.grace.own.gone_until().map(since),
            labels: labels.collect(),
            peers: peers.collect(),
        }
    }

    fn resume_absence(&mut self, record: &AbsentRecord, value: &str, grace: Grace) {
        if !self.index.is_peer(&record.key, value, &record.node) {
            return;
        }
        let mut absence = Absence::new(value, record.uid.as_deref(), "", grace);
        absence.revision = record.revision;
        if record.gone {
            absence.answer_by = None;
        }
        // What is over by now goes with the next look at the clock.
        absence.until = absence.until.max(grace.now + Duration::from_millis(1));
        self.grace
            .absent
            .add(&record.node, &record.key, absence, grace.now);
    }

    /// The nodes of which something counts though it is gone.
    pub(super) fn nodes_in_grace(&self) -> usize {
        let peers: BTreeSet<&str> = self.grace.absent.iter().map(|(node, ..)| node).collect();
        let is_own = self.grace.own.gone_until().is_some() || !self.kept_labels().is_empty();
        peers.len() + usize::from(is_own)
    }

    /// Kept labels of the own Node that some Service asks for.
    fn kept_labels(&self) -> BTreeMap<&str, &KeptLabel> {
        let kept = self.grace.own.kept().iter();
        kept.filter(|(key, _)| self.index.uses(key))
            .map(|(key, kept)| (&**key, kept))
            .collect()
    }

    pub(super) fn grace_lines(&self, now: Instant) -> Vec<String> {
        let left = |until: Instant| {
            let left = until.saturating_duration_since(now);
            format!("for {} s more", left.as_secs())
        };
        let own = self.index.own_name();
        let mut lines = Vec::new();
        if let Some(until) = self.grace.own.gone_until() {
            let left = left(until);
            lines.push(format!(
                "own Node {own} is gone: its labels count and it is served {left}"
            ));
        } else {
            for (key, KeptLabel { value, until }) in self.kept_labels() {
                let left = left(*until);
                lines.push(format!(
                    "own Node {own} came back without {key}: {value} counts {left}"
                ));
            }
        }
        for (node, key, absence) in self.grace.absent.iter() {
            let value = &absence.value;
            lines.push(match absence.answer_by {
                Some(_) => format!("Node {node} left {key}={value}: asking whether it is gone"),
                None => format!(
                    "Node {node} of {key}={value} is gone: its endpoints stay {}",
                    left(absence.until)
                ),
            });
        }
        lines
    }
}
