//! Into a snapshot and back.

use super::listing::{Items, Listing};
use super::plain::Plain;
use super::{Changes, Inner, Publisher};
use crate::discovery::Answers;
use crate::document::{Parts, Source};
use crate::feed::Feed;
use crate::index::slice_entry::{Compressed, SliceEntry};
use crate::kinds::ServedKind;
use crate::snapshot::{self, Damaged, FeedMeta, Image, Meta, NodeSet, Record, StampedSets};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What has been read of a snapshot so far.
#[derive(Default)]
struct Restored {
    meta: Option<Meta>,
    listings: BTreeMap<Feed, Listing>,
    discovery: Answers,
}

impl Publisher {
    /// Everything that is known, to be written.
    pub(crate) fn image(&self) -> Image {
        let inner = self.inner();
        let stored = self.reader.store().snapshot();
        let plain = ServedKind::ALL.into_iter().filter(|kind| !kind.is_edited());
        let objects = plain.flat_map(|kind| {
            let of_kind = stored.clone().under(&kind.resource().key_prefix);
            let entries: Vec<_> = of_kind
                .iter()
                .map(|entry| (kind, Arc::clone(entry)))
                .collect();
            entries
        });
        let entries = Source::ALL.into_iter().flat_map(|source| {
            let entries = inner.index.entries(source).iter();
            entries.map(move |(_, entry)| (ServedKind::from(source), entry.body.clone()))
        });
        Image {
            meta: Meta {
                node: self.node.clone(),
                feeds: inner.feed_metas(self.now()),
                keys: inner.keys.clone(),
                cluster: inner.history.cluster.clone(),
                grace: inner.grace_records(self.node_grace(), self.now()),
            },
            objects: objects.collect(),
            sets: inner.node_sets(),
            stamped: inner.stamped_sets(),
            entries: entries.collect(),
            discovery: inner
                .discovery
                .iter()
                .map(|(question, answer)| (question.clone(), answer.clone()))
                .collect(),
        }
    }

    /// What the snapshot on disk has; none without a folder for one.
    pub(crate) fn on_disk(&self) -> Option<Changes> {
        *self.on_disk.lock()
    }

    /// Notes what the snapshot on disk has.
    pub(crate) fn set_on_disk(&self, changes: Changes) {
        *self.on_disk.lock() = Some(changes);
    }

    /// Whether the snapshot on disk is older than what clients see.
    pub(super) fn is_snapshot_outdated(&self, is_open: bool) -> bool {
        let now = *self.changes.borrow();
        self.on_disk().is_some_and(|on_disk| {
            now.cleared != on_disk.cleared || (is_open && now.view != on_disk.view)
        })
    }

    /// Loads what is in a snapshot; gives whether there was one.
    pub(crate) fn restore(&self, folder: &Path) -> Result<bool, Damaged> {
        let mut restored = Restored::default();
        let found = snapshot::load(folder, &mut |record| {
            self.load_record(&mut restored, record)
        })?;
        let Some(meta) = restored.meta else {
            return Ok(found);
        };
        let endpoints = meta
            .feeds
            .iter()
            .any(|at| at.feed == Feed::Kind(ServedKind::Endpoints));
        {
            let mut inner = self.inner();
            inner.endpoints_wanted = endpoints;
            inner.keys = meta.keys;
            inner.history.cluster = meta.cluster;
            inner.discovery = restored.discovery;
            self.publish_wanted(&mut inner);
        }
        // Node sets count only once services and labels ask for them, so the order matters.
        let rank = |feed: &Feed| match feed {
            Feed::Kind(kind) if kind.is_edited() => 2,
            Feed::Kind(_) => 0,
            Feed::Peers { .. }
            | Feed::Absent(_)
            | Feed::Unit(_)
            | Feed::Sets(_)
            | Feed::SuperEdgeSets => 1,
        };
        let mut feeds = meta.feeds;
        feeds.sort_by_key(|at| rank(&at.feed));
        for at in feeds {
            let listing = restored.listings.remove(&at.feed);
            let listing = listing.unwrap_or_else(|| self.listing(&at.feed));
            self.replace(&at.feed, listing, &at.revision);
            self.resume_grace(&at.feed, &meta.grace);
            if let Some(progress) = self.inner().feeds.get_mut(&at.feed) {
                progress.contact = at.contact;
                progress.returning = true;
            }
        }
        Ok(found)
    }

    fn load_record(&self, restored: &mut Restored, record: Record) -> Result<(), String> {
        match record {
            Record::Meta(meta) if meta.node != self.node => {
                return Err(format!("the view of {}, not of {}", meta.node, self.node));
            }
            Record::Meta(meta) => restored.meta = Some(meta),
            Record::Object(kind, text) => {
                let object = Plain::read(kind, &text)?;
                let listing = self.restored(restored, Feed::Kind(kind));
                if let Items::Plain(objects) = &mut listing.items {
                    objects.insert(object.key.clone(), object);
                }
            }
            Record::Set(NodeSet { feed, nodes }) => {
                let listing = self.restored(restored, feed);
                if let Items::Nodes(known) = &mut listing.items {
                    known.extend(nodes);
                }
            }
            Record::Stamped(StampedSets { feed, sets }) => {
                let listing = self.restored(restored, feed);
                if let Items::Sets(known) = &mut listing.items {
                    known.extend(sets);
                }
            }
            Record::SliceEntry(kind, body) => {
                let listing = self.restored(restored, Feed::Kind(kind));
                self.load_entry(listing, body)?;
            }
            Record::Discovery(question, answer) => restored.discovery.restore(question, answer)?,
        }
        Ok(())
    }

    fn load_entry(&self, listing: &mut Listing, body: Compressed) -> Result<(), String> {
        let Items::SliceEntries(source, entries) = &mut listing.items else {
            return Ok(());
        };
        let text = body.text().map_err(|error| error.to_string())?;
        let parts = Parts::parse(*source, &text).map_err(|error| error.to_string())?;
        let entry = SliceEntry::with_body(&parts, body, &mut self.inner().index.names);
        entries.insert(parts.key(), (String::new(), entry));
        Ok(())
    }

    fn restored<'a>(&self, restored: &'a mut Restored, feed: Feed) -> &'a mut Listing {
        let listing = self.listing(&feed);
        restored.listings.entry(feed).or_insert(listing)
    }
}

impl Inner {
    /// How far each feed has come; one whose watch is up is as of now.
    fn feed_metas(&self, now: Timestamp) -> Vec<FeedMeta> {
        let lasting = |feed: &Feed| !matches!(feed, Feed::Absent(_) | Feed::Unit(_));
        let synced = self
            .feeds
            .iter()
            .filter(|(feed, at)| at.synced && lasting(feed));
        synced
            .map(|(feed, at)| FeedMeta {
                feed: feed.clone(),
                revision: at.revision.clone(),
                contact: if at.online { Some(now) } else { at.contact },
            })
            .collect()
    }

    fn stamped_sets(&self) -> Vec<StampedSets> {
        let sets = self.index.sets.iter();
        sets.map(|(feed, sets)| StampedSets {
            feed: feed.clone(),
            sets: sets
                .iter()
                .map(|(key, stamp)| (key.to_string(), stamp.clone()))
                .collect(),
        })
        .collect()
    }

    fn node_sets(&self) -> Vec<NodeSet> {
        let name = |node: &u32| self.index.names.name(*node).to_owned();
        let set = |key: &str, peers: &crate::index::Peers| NodeSet {
            feed: Feed::Peers {
                key: key.to_owned(),
                value: peers.value.clone(),
            },
            nodes: peers.members.iter().map(name).collect(),
        };
        let peers = self.index.peers().iter();
        peers.map(|(key, peers)| set(key, peers)).collect()
    }
}
