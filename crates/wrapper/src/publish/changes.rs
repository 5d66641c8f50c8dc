//! What a change does to what is known: one object, or a complete list.

use super::Inner;
use super::listing::NodeName;
use super::plain::{Effect, Plain};
use super::rendered::Touched;
use crate::document::Source;
use crate::feed::Feed;
use crate::index::absent::Absence;
use crate::index::own_node::Grace;
use crate::index::slice_entry::SliceEntry;
use crate::kinds::ServedKind;
use bytes::Bytes;
use edgegrid_store::{Change, Expect, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Inner {
    /// Whether anything is known that a feed has shown.
    pub(super) fn knows_any(&self, feed: &Feed) -> bool {
        match feed {
            Feed::Kind(kind) => {
                let prefix = &kind.resource().key_prefix;
                let is_stored = || self.store.snapshot().under(prefix).iter().next().is_some();
                let is_known = |source| self.index.entries(source).iter().next().is_some();
                kind.source().map_or_else(is_stored, is_known)
            }
            Feed::Peers { key, .. } => {
                let peers = self.index.peers().get(&**key);
                peers.is_some_and(|peers| !peers.members.is_empty())
            }
            // That it is not there is all that is asked.
            Feed::Absent(_) => false,
            Feed::Unit(unit) => self.units.get(unit).is_some_and(|unit| !unit.is_empty()),
            Feed::Sets(_) | Feed::SuperEdgeSets => {
                let sets = self.index.sets.brought_by(feed);
                sets.is_some_and(|sets| !sets.is_empty())
            }
        }
    }

    pub(super) fn relist_entries(
        &mut self,
        source: Source,
        entries: BTreeMap<String, (String, SliceEntry)>,
    ) -> Touched<'static> {
        let mut touched = Touched::default();
        let index = self.index.entries(source).iter();
        let gone: Vec<_> = index
            .filter(|(key, _)| !entries.contains_key(&***key))
            .map(|(key, _)| Arc::clone(key))
            .collect();
        for key in gone {
            let services = self.index.set_entry(source, &key, None);
            touched.services.extend(services);
            touched.entries.insert((source, key));
        }
        for (key, (_, entry)) in entries {
            let same = self.index.entries(source).get(&key);
            if same.is_some_and(|same| same.body == entry.body) {
                continue;
            }
            let services = self.index.set_entry(source, &key, Some(entry));
            touched.services.extend(services);
            touched.entries.insert((source, key.into()));
        }
        touched
    }

    pub(super) fn relist_plain(
        &mut self,
        feed: &Feed,
        mut objects: BTreeMap<String, Plain>,
        grace: Grace,
    ) -> Touched<'static> {
        let mut touched = Touched::default();
        let Feed::Kind(kind) = *feed else {
            return touched;
        };
        if kind == ServedKind::Nodes {
            let own = kind.resource().key(None, self.index.own_name());
            self.set_own_node(objects.remove(&own), grace, &mut touched);
            return touched;
        }
        let stored = self.store.snapshot().under(&kind.resource().key_prefix);
        for entry in stored.iter() {
            if !objects.contains_key(entry.key()) {
                self.set_plain(kind, entry.key(), None, &mut touched);
            }
        }
        for (key, object) in objects {
            self.set_plain(kind, &key, Some(object), &mut touched);
        }
        touched
    }

    /// Takes note of an object that is served whole, or that it is gone.
    pub(super) fn set_plain(
        &mut self,
        kind: ServedKind,
        key: &str,
        object: Option<Plain>,
        touched: &mut Touched<'_>,
    ) {
        let (text, effect) = match object {
            Some(object) => (Some(object.text), object.effect),
            None => (None, Effect::Nothing),
        };
        self.write_plain(key, text, touched);
        if kind == ServedKind::Services {
            let prefix = &*kind.resource().key_prefix;
            let name = key.strip_prefix(prefix).unwrap_or(key);
            let rule = match effect {
                Effect::Rule(rule) => Some(rule),
                _ => None,
            };
            if self.index.set_rule(name, rule) {
                touched.add_moved([name.into()].into());
            }
        }
    }

    /// Has the store follow, where it is different.
    pub(super) fn write_plain(
        &mut self,
        key: &str,
        text: Option<Bytes>,
        touched: &mut Touched<'_>,
    ) {
        let stored = self.store.get(key);
        if stored.as_ref().map(|entry| entry.value()) != text.as_ref() {
            touched.writes.push(Write {
                key: key.into(),
                expect: Expect::Anything,
                change: text.map_or(Change::Delete, Change::Put),
            });
        }
    }

    pub(super) fn relist_nodes(
        &mut self,
        feed: &Feed,
        mut nodes: BTreeSet<String>,
        revision: &str,
        grace: Grace,
    ) -> Touched<'static> {
        if let Feed::Peers { key, value } = feed {
            for node in self.index.other_peers(key, value) {
                let absence = Absence::new(value, None, revision, grace);
                if nodes.contains(&node) {
                    self.grace.changed |= self.grace.absent.remove(&node, key);
                } else if self.add_absent(&node, key, absence, grace) {
                    nodes.insert(node);
                }
            }
        }
        let names = &mut self.index.names;
        let members = nodes.iter().map(|name| names.number(name)).collect();
        let mut touched = Touched::default();
        match feed {
            Feed::Peers { key, value } => {
                touched.add_moved(self.index.set_peers(key, value, members));
            }
            Feed::Unit(unit) => self.set_unit(unit, members),
            Feed::Kind(_) | Feed::Absent(_) | Feed::Sets(_) | Feed::SuperEdgeSets => {}
        }
        touched
    }

    /// Takes note that a watch has lost a node: it is gone, or belongs to the set no more.
    pub(super) fn node_deleted(
        &mut self,
        feed: &Feed,
        node: &NodeName,
        grace: Grace,
    ) -> Touched<'static> {
        if let Feed::Peers { key, value } = feed
            && node.name() != self.index.own_name()
            && self.index.is_peer(key, value, node.name())
        {
            let absence = Absence::new(value, Some(node.uid()), node.revision(), grace);
            if self.add_absent(node.name(), key, absence, grace) {
                return Touched::default();
            }
        }
        self.node_event(feed, node.name(), false)
    }

    pub(super) fn node_event(&mut self, feed: &Feed, name: &str, member: bool) -> Touched<'static> {
        let number = if member {
            Some(self.index.names.number(name))
        } else {
            self.index.names.known(name)
        };
        if let Feed::Peers { key, .. } = feed {
            self.grace.changed |= self.grace.absent.remove(name, key);
        }
        let mut touched = Touched::default();
        match (feed, number) {
            (Feed::Peers { key, value }, Some(node)) => {
                touched.add_moved(self.index.set_peer(key, value, node, member));
            }
            (Feed::Unit(unit), Some(node)) => self.set_unit_member(unit, node, member),
            _ => {}
        }
        touched
    }
}
