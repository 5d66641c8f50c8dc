//! The one place where what is known changes, and where a change becomes part of the view.
//!
//! ```text
//! upstream, snapshot ─► Publisher: index ─► filter what is touched ─► one commit ─► store ─► listwatch
//!                          └─► node sets wanted from now on ─► upstream
//! ```
//!
//! Everything happens under one lock that is never kept across an await, so changes are applied in
//! the order in which they come and no older view can follow a newer one.

mod answers;
mod changes;
pub(crate) mod empty_list;
mod grace;
mod history;
pub(crate) mod listing;
mod naming;
mod persist;
pub(crate) mod plain;
pub(crate) mod rendered;
pub(crate) mod report;
mod short_names;
mod units;
mod wanted;

use crate::discovery::Answers;
use crate::document::{Parts, Source};
use crate::feed::Feed;
use crate::index::Index;
use crate::index::sets::Stamped;
use crate::index::slice_entry::SliceEntry;
use crate::kinds::ServedKind;
use crate::tokens::Keys;
use edgegrid_listwatch::{Reader, Store};
use empty_list::{EmptyListGuard, ListOutcome};
use grace::NodeGrace;
use history::History;
pub(crate) use history::KnownHistory;
use jiff::{SignedDuration, Timestamp};
use listing::{Items, Listing, NodeName};
pub use naming::{ServiceView, Stale};
use parking_lot::{Mutex, MutexGuard};
use plain::Plain;
use rendered::{RenderedView, Touched};
use short_names::ShortNames;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
pub(crate) use units::UnitView;

/// The time of day, from whoever runs the wrapper.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What happened to an object upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// It is there, new or changed.
    Applied,
    /// It is gone.
    Deleted,
}

/// Everything known, and the view made of it.
pub(crate) struct Publisher {
    inner: Mutex<Inner>,
    pub(crate) reader: Reader,
    /// The feeds that are needed now.
    wanted: watch::Sender<Wanted>,
    /// Counts changes worth a snapshot: of the view, and of anything.
    pub(crate) changes: watch::Sender<Changes>,
    /// How often feeds came back: each time somebody must look whether the history is still the same.
    reconnects: watch::Sender<u64>,
    /// What the snapshot on disk has; none without a folder for one.
    on_disk: Mutex<Option<Changes>>,
    /// Tells whoever follows names that some are stale.
    renamed: Notify,
    clock: Clock,
    node: String,
    /// How long what is gone of Nodes counts as if it were there.
    node_grace: Duration,
    /// Tells whoever ends graces that there is another, or one less.
    grace_changed: Notify,
    /// How often the own Node was gone.
    own_node_gone: watch::Sender<u64>,
    /// Shared with lists in the making: what they have packed is known to nobody else yet.
    packing: Arc<()>,
}

/// Feeds, and for each since when it is needed: the generation of the set of feeds. One that was not needed
/// for a moment has lost what it had listed and must start anew, whoever noticed or not.
pub(crate) type Wanted = BTreeMap<Feed, u64>;

/// How often something has changed since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Commits that changed what clients see.
    pub(crate) view: u64,
    /// Changes of what is known.
    pub(crate) index: u64,
    /// Times that all was forgotten.
    pub(crate) cleared: u64,
}

struct Inner {
    index: Index,
    /// Where the view is served from.
    store: Store,
    rendered: RenderedView,
    /// Short names, where they are wanted.
    aliases: Option<ShortNames>,
    /// What whoever follows names has not seen yet; none if nobody does.
    stale: Option<Stale>,
    units: BTreeMap<String, units::Unit>,
    feeds: BTreeMap<Feed, Progress>,
    /// How often the feeds that are needed have changed.
    generation: u64,
    /// Whether a client has asked for Endpoints.
    endpoints_wanted: bool,
    /// The cluster's public keys, where tokens are accepted.
    keys: Option<Keys>,
    /// Whether everything needed has been seen once; from then on the view is served.
    open: bool,
    history: History,
    /// What the API server last said of its version and groups.
    discovery: Answers,
    grace: NodeGrace,
}

/// How far a feed has come.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all combinations occur"
)]
pub(crate) struct Progress {
    /// Whether a complete answer has been seen, from upstream or from disk.
    pub(crate) synced: bool,
    /// Where to go on; empty if a list gave none.
    pub(crate) revision: String,
    /// Whether its watch is up.
    pub(crate) online: bool,
    /// When it was last heard of.
    pub(crate) contact: Option<Timestamp>,
    /// Whether its watch was up before, in this run or in the one that left the snapshot.
    pub(crate) returning: bool,
    /// Whether it was asked for in vain.
    pub(crate) failed: bool,
}

impl Publisher {
    /// Knows nothing yet and serves from `store`; with short names if `names`.
    pub(crate) fn new(node: &str, store: Store, names: bool, seed: u64, clock: Clock) -> Self {
        let publisher = Self {
            inner: Mutex::new(Inner::new(node, store.clone(), names)),
            reader: Reader::new(store, seed),
            wanted: watch::Sender::new(Wanted::new()),
            changes: watch::Sender::new(Changes::default()),
            reconnects: watch::Sender::new(0),
            on_disk: Mutex::default(),
            renamed: Notify::new(),
            clock,
            node: node.to_owned(),
            node_grace: Duration::ZERO,
            grace_changed: Notify::new(),
            own_node_gone: watch::Sender::new(0),
            packing: Arc::default(),
        };
        publisher.publish_wanted(&mut publisher.inner());
        publisher
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The cluster's public keys, as last seen.
    pub(crate) fn keys(&self) -> Option<Keys> {
        self.inner().keys.clone()
    }

    /// Takes note of the cluster's public keys.
    pub(crate) fn set_keys(&self, keys: Keys) {
        let mut inner = self.inner();
        if inner.keys.as_ref() != Some(&keys) {
            inner.keys = Some(keys);
            // Worth a snapshot of its own: without them a restart while cut off lets nobody in.
            self.changes.send_modify(|changes| changes.view += 1);
        }
    }

    /// The feeds that are needed, now and later.
    pub(crate) fn wanted(&self) -> watch::Receiver<Wanted> {
        self.wanted.subscribe()
    }

    /// Where a feed can go on without a list.
    pub(crate) fn resume(&self, feed: &Feed) -> Option<String> {
        let inner = self.inner();
        let progress = inner.feeds.get(feed).filter(|progress| progress.synced)?;
        Some(progress.revision.clone()).filter(|revision| !revision.is_empty())
    }

    /// Notes that a feed's watch is up.
    pub(crate) fn set_online(&self, feed: &Feed) {
        let now = self.now();
        let mut inner = self.inner();
        if !self.is_wanted(feed) {
            return;
        }
        let progress = inner.feeds.entry(feed.clone()).or_default();
        let was_online = std::mem::replace(&mut progress.online, true);
        let is_back = std::mem::replace(&mut progress.returning, true) && !was_online;
        let lost = progress.contact.replace(now);
        if is_back || inner.history.cluster.is_none() {
            inner.note_reconnect(lost.unwrap_or(Timestamp::UNIX_EPOCH), now);
            self.reconnects.send_modify(|reconnects| *reconnects += 1);
        }
    }

    /// Notes that a feed's watch is down, which was last heard of so long ago.
    pub(crate) fn set_offline(&self, feed: &Feed, silent: Duration) {
        let last = self.now() - SignedDuration::try_from(silent).unwrap_or_default();
        let mut inner = self.inner();
        if let Some(progress) = inner.feeds.get_mut(feed)
            && std::mem::take(&mut progress.online)
        {
            progress.contact = Some(last);
        }
    }

    /// Notes how far a feed has come without a change.
    pub(crate) fn bookmark(&self, feed: &Feed, revision: &str) -> Result<(), String> {
        let mut inner = self.inner();
        inner.synced(feed)?;
        inner.set_resume_point(feed, revision);
        drop(inner);
        self.changes.send_modify(|changes| changes.index += 1);
        Ok(())
    }

    /// Starts a list.
    pub(crate) fn listing(&self, feed: &Feed) -> Listing {
        Listing::new(feed, &self.packing)
    }

    /// Packs one item of a list in the making.
    pub(crate) fn push(
        &self,
        feed: &Feed,
        listing: &mut Listing,
        json: &[u8],
    ) -> Result<(), String> {
        listing.push(feed, json, &mut self.inner().index.names)
    }

    /// Replaces what is known of a feed by a complete list, unless the guard wants a second one.
    pub(crate) fn relist(
        &self,
        feed: &Feed,
        listing: Listing,
        revision: &str,
        guard: &mut EmptyListGuard,
    ) -> ListOutcome {
        let mut inner = self.inner();
        let loses_everything = inner.is_synced(feed) && listing.is_empty() && inner.knows_any(feed);
        let outcome = guard.outcome(loses_everything, revision);
        if outcome == ListOutcome::Accepted {
            self.replace_locked(&mut inner, feed, listing, revision);
        }
        outcome
    }

    /// Replaces what is known of a feed by a complete list that is beyond doubt.
    pub(crate) fn replace(&self, feed: &Feed, listing: Listing, revision: &str) {
        self.replace_locked(&mut self.inner(), feed, listing, revision);
    }

    fn replace_locked(&self, inner: &mut Inner, feed: &Feed, listing: Listing, revision: &str) {
        if !self.is_wanted(feed) {
            return; // nobody is interested any more
        }
        let touched = match listing.items {
            Items::SliceEntries(source, entries) => inner.relist_entries(source, entries),
            Items::Plain(objects) => inner.relist_plain(feed, objects, self.grace()),
            Items::Nodes(nodes) => inner.relist_nodes(feed, nodes, revision, self.grace()),
            Items::Absent(node) => inner.absent_answered(feed, node, revision),
            Items::Sets(sets) => inner.relist_sets(feed, sets),
        };
        let progress = inner.feeds.entry(feed.clone()).or_default();
        progress.synced = true;
        progress.contact = Some(self.now());
        revision.clone_into(&mut progress.revision);
        self.finish(inner, touched);
    }

    /// Takes over one event of a watch. An object that cannot be read is an error, and the caller
    /// lists again.
    pub(crate) fn event(&self, feed: &Feed, what: EventKind, json: &[u8]) -> Result<(), String> {
        let mut inner = self.inner();
        inner.synced(feed)?;
        let revision = match feed {
            Feed::Kind(kind) => match kind.source() {
                Some(source) => self.entry_event(&mut inner, source, what, json)?,
                None => self.plain_event(&mut inner, *kind, what, json)?,
            },
            Feed::Peers { .. } | Feed::Unit(_) => {
                let node = NodeName::read(json)?;
                let touched = match what {
                    EventKind::Applied => inner.node_event(feed, node.name(), node.is_in(feed)),
                    EventKind::Deleted => inner.node_deleted(feed, &node, self.grace()),
                };
                self.finish(&mut inner, touched);
                node.revision().to_owned()
            }
            Feed::Absent(name) => {
                let node = NodeName::read(json)?;
                let revision = node.revision().to_owned();
                if node.name() == name {
                    let seen = (what == EventKind::Applied).then(|| node.seen());
                    let touched = inner.absent_answered(feed, seen, &revision);
                    self.finish(&mut inner, touched);
                }
                revision
            }
            Feed::Sets(_) | Feed::SuperEdgeSets => {
                let set = Stamped::read(feed, json)?;
                let stamp = set.stamp.filter(|_| what == EventKind::Applied);
                let touched = inner.set_event(feed, &set.key, stamp);
                self.finish(&mut inner, touched);
                set.revision
            }
        };
        inner.set_resume_point(feed, &revision);
        Ok(())
    }

    fn is_wanted(&self, feed: &Feed) -> bool {
        self.wanted.borrow().contains_key(feed)
    }

    fn entry_event(
        &self,
        inner: &mut Inner,
        source: Source,
        what: EventKind,
        json: &[u8],
    ) -> Result<String, String> {
        let parts = Parts::parse(source, json).map_err(|error| error.to_string())?;
        let key = parts.key();
        let entry =
            (what == EventKind::Applied).then(|| SliceEntry::pack(&parts, &mut inner.index.names));
        let touched = Touched {
            services: inner.index.set_entry(source, &key, entry),
            entries: [(source, key.into())].into(),
            fresh: Some((source, &parts)),
            ..Touched::default()
        };
        // Which feeds are needed does not depend on endpoints, and they change most often.
        self.settle(inner, touched);
        Ok(parts.revision.clone().unwrap_or_default().into_owned())
    }

    fn plain_event(
        &self,
        inner: &mut Inner,
        kind: ServedKind,
        what: EventKind,
        json: &[u8],
    ) -> Result<String, String> {
        let object = Plain::read(kind, json)?;
        let (key, revision) = (object.key.clone(), object.revision.clone());
        if kind == ServedKind::Nodes && key != kind.resource().key(None, &self.node) {
            return Ok(revision); // a server in between ignored the selector
        }
        let mut touched = Touched::default();
        let object = (what == EventKind::Applied).then_some(object);
        if kind == ServedKind::Nodes {
            inner.set_own_node(object, self.grace(), &mut touched);
        } else {
            inner.set_plain(kind, &key, object, &mut touched);
        }
        self.finish(inner, touched);
        Ok(revision)
    }

    /// Settles a change after which other feeds may be needed.
    fn finish(&self, inner: &mut Inner, touched: Touched<'_>) {
        self.settle(inner, touched);
        self.publish_wanted(inner);
        self.publish_grace(inner);
    }

    /// Filters what is touched and commits all of it at once.
    fn settle(&self, inner: &mut Inner, mut touched: Touched<'_>) {
        let mut writes = std::mem::take(&mut touched.writes);
        if inner.open {
            inner.update_view(&touched, &mut writes);
        } else if inner.is_complete() {
            inner.open = true;
            let everything = RenderedView::everything(&inner.index);
            inner.update_view(&everything, &mut writes);
            inner.everything_is_stale();
            tracing::info!(node = self.node, "the view is complete");
        }
        inner.update_units(&touched);
        let visible = !writes.is_empty();
        if inner.note_stale(&touched, &writes) {
            self.renamed.notify_one();
        }
        if let Err(error) = inner.store.commit(writes) {
            tracing::error!(%error, "cannot commit a change to the view");
        }
        if Arc::strong_count(&self.packing) == 1 {
            let Inner { index, units, .. } = &mut *inner;
            index.gc(|node| units.values().any(|unit| unit.has(node)));
        }
        self.changes.send_modify(|changes| {
            changes.index += 1;
            changes.view += u64::from(visible);
        });
    }

    /// Publishes which feeds are needed, and forgets how far the others had come.
    fn publish_wanted(&self, inner: &mut Inner) {
        inner.forget_absent();
        let wanted = inner.wanted();
        self.wanted.send_if_modified(|current| {
            if current.keys().eq(&wanted) {
                return false;
            }
            inner.generation += 1;
            let since = |feed: &Feed| current.get(feed).copied().unwrap_or(inner.generation);
            *current = wanted
                .iter()
                .map(|feed| (feed.clone(), since(feed)))
                .collect();
            inner.feeds.retain(|feed, _| wanted.contains(feed));
            inner.index.forget_peers();
            inner.index.sets.retain(|feed| wanted.contains(feed));
            true
        });
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Inner {
    fn new(node: &str, store: Store, names: bool) -> Self {
        Self {
            index: Index::new(node).naming(names),
            aliases: names.then(|| ShortNames::new(store.clone())),
            stale: names.then(Stale::default),
            rendered: RenderedView::new(store.clone()),
            store,
            units: BTreeMap::new(),
            feeds: BTreeMap::new(),
            generation: 0,
            endpoints_wanted: false,
            keys: None,
            open: false,
            history: History::default(),
            discovery: Answers::default(),
            grace: NodeGrace::default(),
        }
    }
}
