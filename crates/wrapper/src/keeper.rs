//! The one place where what is known changes, and where a change becomes part of the view.
//!
//! ```text
//! upstream, snapshot ─► Keeper: held ─► judge what is touched ─► one commit ─► store ─► listwatch
//!                          └─► node sets wanted from now on ─► upstream
//! ```
//!
//! Everything happens under one lock that is never held across an await, so changes are applied in
//! the order in which they come and no older view can follow a newer one.

mod aliases;
mod changes;
pub(crate) mod lens;
pub(crate) mod listing;
mod naming;
mod needs;
mod persist;
pub(crate) mod plain;
mod report;
mod units;

use crate::document::{Parts, Source};
use crate::feed::Feed;
use crate::held::Held;
use crate::held::piece::Piece;
use crate::held::sets::Stamped;
use crate::kinds::Kind;
use crate::serve::tokens::Keys;
use aliases::Aliases;
use edgegrid_listwatch::{Reader, Store};
use jiff::Timestamp;
use lens::{Lens, Touched};
use listing::{Items, Listing, NodeName};
pub use naming::{Seen, Stale};
use plain::Plain;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
pub(crate) use units::UnitView;

/// The time of day, from whoever runs the wrapper.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What happened to an object upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happened {
    /// It is there, new or changed.
    Set,
    /// It is gone.
    Gone,
}

/// What became of a complete list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Believed {
    Yes,
    /// It is empty though there was something: worth a second look.
    NotYet,
}

/// Everything known, and the view made of it.
pub(crate) struct Keeper {
    inner: Mutex<Inner>,
    pub(crate) reader: Reader,
    /// The feeds that are needed now.
    wanted: watch::Sender<Wanted>,
    /// Counts changes worth a snapshot: of the view, and of anything.
    pub(crate) changes: watch::Sender<Changes>,
    /// Tells whoever follows names that some are stale.
    renamed: Notify,
    clock: Clock,
    node: String,
    /// Held by lists in the making: what they have packed is known to nobody else yet.
    packing: Arc<()>,
}

/// Feeds, and for each since when it is needed: the number of the wish. One that was not needed
/// for a moment has lost what it had listed and must start anew, whoever noticed or not.
pub(crate) type Wanted = BTreeMap<Feed, u64>;

/// How often something has changed since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Commits that changed what clients see.
    pub(crate) view: u64,
    /// Changes of what is held.
    pub(crate) held: u64,
}

struct Inner {
    held: Held,
    /// Where the view is served from.
    store: Store,
    lens: Lens,
    /// Short names, where they are wanted.
    aliases: Option<Aliases>,
    /// What whoever follows names has not seen yet; none if nobody does.
    stale: Option<Stale>,
    units: BTreeMap<String, units::Unit>,
    feeds: BTreeMap<Feed, Progress>,
    /// How often the feeds that are needed have changed.
    wishes: u64,
    /// Whether a client has asked for Endpoints.
    endpoints_wanted: bool,
    /// The cluster's public keys, where tokens are believed.
    keys: Option<Keys>,
    /// Whether everything needed has been seen once; from then on the view is served.
    open: bool,
}

/// How far a feed has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Whether a complete answer has been seen, from upstream or from disk.
    pub(crate) synced: bool,
    /// Where to go on; empty if a list gave none.
    pub(crate) revision: String,
    /// Whether its watch is up.
    pub(crate) online: bool,
    /// When it last was.
    pub(crate) contact: Option<Timestamp>,
    /// Whether it was asked for in vain.
    pub(crate) failed: bool,
}

impl Keeper {
    /// Knows nothing yet and serves from `store`; with short names if that is wished.
    pub(crate) fn new(node: &str, store: Store, names: bool, seed: u64, clock: Clock) -> Self {
        let inner = Inner {
            held: Held::new(node).naming(names),
            aliases: names.then(|| Aliases::new(store.clone())),
            stale: names.then(Stale::default),
            lens: Lens::new(store.clone()),
            store: store.clone(),
            units: BTreeMap::new(),
            feeds: BTreeMap::new(),
            wishes: 0,
            endpoints_wanted: false,
            keys: None,
            open: false,
        };
        let keeper = Self {
            inner: Mutex::new(inner),
            reader: Reader::new(store, seed),
            wanted: watch::Sender::new(Wanted::new()),
            changes: watch::Sender::new(Changes::default()),
            renamed: Notify::new(),
            clock,
            node: node.to_owned(),
            packing: Arc::default(),
        };
        keeper.publish_wanted(&mut keeper.inner());
        keeper
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

    /// Notes whether a feed's watch is up.
    pub(crate) fn set_online(&self, feed: &Feed, online: bool) {
        let now = self.now();
        let mut inner = self.inner();
        if !self.is_wanted(feed) {
            return;
        }
        let progress = inner.feeds.entry(feed.clone()).or_default();
        if progress.online || online {
            progress.contact = Some(now);
        }
        progress.online = online;
    }

    /// Notes how far a feed has come without a change.
    pub(crate) fn bookmark(&self, feed: &Feed, revision: &str) -> Result<(), String> {
        let mut inner = self.inner();
        inner.synced(feed)?;
        inner.came_to(feed, revision);
        drop(inner);
        self.changes.send_modify(|changes| changes.held += 1);
        Ok(())
    }

    /// Starts a list.
    pub(crate) fn listing(&self, feed: &Feed) -> Listing {
        Listing::of(feed, &self.packing)
    }

    /// Packs one item of a list in the making.
    pub(crate) fn push(
        &self,
        feed: &Feed,
        listing: &mut Listing,
        json: &[u8],
    ) -> Result<(), String> {
        listing.push(feed, json, &mut self.inner().held.names)
    }

    /// Makes a complete list the truth.
    pub(crate) fn relist(
        &self,
        feed: &Feed,
        listing: Listing,
        revision: &str,
        confirmed: bool,
    ) -> Believed {
        let mut inner = self.inner();
        if !self.is_wanted(feed) {
            return Believed::Yes; // nobody is interested any more
        }
        let known = inner.feeds.get(feed).is_some_and(|feed| feed.synced);
        if known && !confirmed && listing.is_empty() && inner.holds_any(feed) {
            return Believed::NotYet;
        }
        let touched = match listing.items {
            Items::Pieces(source, pieces) => inner.relist_pieces(source, pieces),
            Items::Plain(objects) => inner.relist_plain(feed, objects),
            Items::Nodes(nodes) => inner.relist_nodes(feed, &nodes),
            Items::Sets(sets) => inner.relist_sets(feed, sets),
        };
        let progress = inner.feeds.entry(feed.clone()).or_default();
        progress.synced = true;
        progress.contact = Some(self.now());
        revision.clone_into(&mut progress.revision);
        self.finish(&mut inner, touched);
        Believed::Yes
    }

    /// Takes over one event of a watch. An object that cannot be read is an error, and the caller
    /// lists again.
    pub(crate) fn event(&self, feed: &Feed, what: Happened, json: &[u8]) -> Result<(), String> {
        let mut inner = self.inner();
        inner.synced(feed)?;
        let revision = match feed {
            Feed::Kind(kind) => match kind.source() {
                Some(source) => self.piece_event(&mut inner, source, what, json)?,
                None => self.plain_event(&mut inner, *kind, what, json)?,
            },
            Feed::Peers { .. } | Feed::Unit(_) => {
                let node = NodeName::read(json)?;
                let member = what == Happened::Set && node.is_in(feed);
                let touched = inner.node_event(feed, node.name(), member);
                self.finish(&mut inner, touched);
                node.revision().to_owned()
            }
            Feed::Sets(_) | Feed::SuperEdgeSets => {
                let set = Stamped::read(feed, json)?;
                let stamp = set.stamp.filter(|_| what == Happened::Set);
                let touched = inner.set_event(feed, &set.key, stamp);
                self.finish(&mut inner, touched);
                set.revision
            }
        };
        inner.came_to(feed, &revision);
        Ok(())
    }

    fn is_wanted(&self, feed: &Feed) -> bool {
        self.wanted.borrow().contains_key(feed)
    }

    fn piece_event(
        &self,
        inner: &mut Inner,
        source: Source,
        what: Happened,
        json: &[u8],
    ) -> Result<String, String> {
        let parts = Parts::parse(source, json).map_err(|error| error.to_string())?;
        let key = parts.key();
        let piece = (what == Happened::Set).then(|| Piece::pack(&parts, &mut inner.held.names));
        let touched = Touched {
            services: inner.held.set_piece(source, &key, piece),
            pieces: [(source, key.into())].into(),
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
        kind: Kind,
        what: Happened,
        json: &[u8],
    ) -> Result<String, String> {
        let object = Plain::read(kind, json)?;
        let (key, revision) = (object.key.clone(), object.revision.clone());
        if kind == Kind::Nodes && key != kind.resource().key(None, &self.node) {
            return Ok(revision); // a server in between passed over the selector
        }
        let mut touched = Touched::default();
        let object = (what == Happened::Set).then_some(object);
        inner.set_plain(kind, &key, object, &mut touched);
        self.finish(inner, touched);
        Ok(revision)
    }

    /// Settles a change after which other feeds may be needed.
    fn finish(&self, inner: &mut Inner, touched: Touched<'_>) {
        self.settle(inner, touched);
        self.publish_wanted(inner);
    }

    /// Judges what is touched and commits all of it at once.
    fn settle(&self, inner: &mut Inner, mut touched: Touched<'_>) {
        let mut writes = std::mem::take(&mut touched.writes);
        if inner.open {
            inner.update_view(&touched, &mut writes);
        } else if inner.is_complete() {
            inner.open = true;
            let everything = Lens::everything(&inner.held);
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
            tracing::error!(%error, "a change did not get into the view");
        }
        if Arc::strong_count(&self.packing) == 1 {
            let Inner { held, units, .. } = &mut *inner;
            held.tidy(|node| units.values().any(|unit| unit.has(node)));
        }
        self.changes.send_modify(|changes| {
            changes.held += 1;
            changes.view += u64::from(visible);
        });
    }

    /// Says which feeds are needed, and forgets how far the others had come.
    fn publish_wanted(&self, inner: &mut Inner) {
        let wanted = inner.wanted();
        self.wanted.send_if_modified(|current| {
            if current.keys().eq(&wanted) {
                return false;
            }
            inner.wishes += 1;
            let since = |feed: &Feed| current.get(feed).copied().unwrap_or(inner.wishes);
            *current = wanted
                .iter()
                .map(|feed| (feed.clone(), since(feed)))
                .collect();
            inner.feeds.retain(|feed, _| wanted.contains(feed));
            inner.held.forget_peers();
            inner.held.sets.retain(|feed| wanted.contains(feed));
            true
        });
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
