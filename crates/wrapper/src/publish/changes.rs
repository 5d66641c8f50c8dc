//! What a change does to what is known: one object, or a complete list.

use super::Inner;
use super::plain::{Effect, Plain};
use super::rendered::Touched;
use crate::document::Source;
use crate::feed::Feed;
use crate::index::slice_entry::SliceEntry;
use crate::kinds::ServedKind;
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
    ) -> Touched<'static> {
        let mut touched = Touched::default();
        let Feed::Kind(kind) = *feed else {
            return touched;
        };
        if kind == ServedKind::Nodes {
            let own = kind.resource().key(None, self.index.own_name());
            objects.retain(|key, _| *key == own);
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
        let stored = self.store.get(key);
        if stored.as_ref().map(|entry| entry.value()) != text.as_ref() {
            touched.writes.push(Write {
                key: key.into(),
                expect: Expect::Anything,
                change: text.map_or(Change::Delete, Change::Put),
            });
        }
        match (kind, effect) {
            (ServedKind::Services, effect) => {
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
            (ServedKind::Nodes, effect) => {
                let labels = match effect {
                    Effect::Labels(labels) => labels,
                    _ => BTreeMap::new(),
                };
                touched.add_moved(self.index.set_labels(labels));
            }
            _ => {}
        }
    }

    pub(super) fn relist_nodes(
        &mut self,
        feed: &Feed,
        nodes: &BTreeSet<String>,
    ) -> Touched<'static> {
        let names = &mut self.index.names;
        let members = nodes.iter().map(|name| names.number(name)).collect();
        let mut touched = Touched::default();
        match feed {
            Feed::Peers { key, value } => {
                touched.add_moved(self.index.set_peers(key, value, members));
            }
            Feed::Unit(unit) => self.set_unit(unit, members),
            Feed::Kind(_) | Feed::Sets(_) | Feed::SuperEdgeSets => {}
        }
        touched
    }

    pub(super) fn node_event(&mut self, feed: &Feed, name: &str, member: bool) -> Touched<'static> {
        let number = if member {
            Some(self.index.names.number(name))
        } else {
            self.index.names.known(name)
        };
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
