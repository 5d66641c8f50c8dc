//! What a change does to what is held: one object, or a complete list.

use super::Inner;
use super::lens::Touched;
use super::plain::{Plain, Says};
use crate::document::Source;
use crate::feed::Feed;
use crate::held::piece::Piece;
use crate::kinds::Kind;
use edgegrid_store::{Change, Expect, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Inner {
    /// Whether anything is held that a feed has shown.
    pub(super) fn holds_any(&self, feed: &Feed) -> bool {
        match feed {
            Feed::Kind(kind) => {
                let prefix = &kind.resource().key_prefix;
                let is_stored = || self.store.snapshot().under(prefix).iter().next().is_some();
                let is_held = |source| self.held.pieces(source).iter().next().is_some();
                kind.source().map_or_else(is_stored, is_held)
            }
            Feed::Peers { key, .. } => {
                let peers = self.held.peers().get(&**key);
                peers.is_some_and(|peers| !peers.members.is_empty())
            }
            Feed::Unit(unit) => self.units.get(unit).is_some_and(|unit| !unit.is_empty()),
            Feed::Sets(_) | Feed::SuperEdgeSets => {
                let sets = self.held.sets.of(feed);
                sets.is_some_and(|sets| !sets.is_empty())
            }
        }
    }

    pub(super) fn relist_pieces(
        &mut self,
        source: Source,
        pieces: BTreeMap<String, (String, Piece)>,
    ) -> Touched<'static> {
        let mut touched = Touched::default();
        let held = self.held.pieces(source).iter();
        let gone: Vec<_> = held
            .filter(|(key, _)| !pieces.contains_key(&***key))
            .map(|(key, _)| Arc::clone(key))
            .collect();
        for key in gone {
            let services = self.held.set_piece(source, &key, None);
            touched.services.extend(services);
            touched.pieces.insert((source, key));
        }
        for (key, (_, piece)) in pieces {
            let same = self.held.pieces(source).get(&key);
            if same.is_some_and(|same| same.body == piece.body) {
                continue;
            }
            let services = self.held.set_piece(source, &key, Some(piece));
            touched.services.extend(services);
            touched.pieces.insert((source, key.into()));
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
        if kind == Kind::Nodes {
            let own = kind.resource().key(None, self.held.own_name());
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
        kind: Kind,
        key: &str,
        object: Option<Plain>,
        touched: &mut Touched<'_>,
    ) {
        let (text, says) = match object {
            Some(object) => (Some(object.text), object.says),
            None => (None, Says::Nothing),
        };
        let stored = self.store.get(key);
        if stored.as_ref().map(|entry| entry.value()) != text.as_ref() {
            touched.writes.push(Write {
                key: key.into(),
                expect: Expect::Anything,
                change: text.map_or(Change::Delete, Change::Put),
            });
        }
        match (kind, says) {
            (Kind::Services, says) => {
                let prefix = &*kind.resource().key_prefix;
                let name = key.strip_prefix(prefix).unwrap_or(key);
                let rule = match says {
                    Says::Rule(rule) => Some(rule),
                    _ => None,
                };
                if self.held.set_rule(name, rule) {
                    touched.place([name.into()].into());
                }
            }
            (Kind::Nodes, says) => {
                let labels = match says {
                    Says::Labels(labels) => labels,
                    _ => BTreeMap::new(),
                };
                touched.place(self.held.set_labels(labels));
            }
            _ => {}
        }
    }

    pub(super) fn relist_nodes(
        &mut self,
        feed: &Feed,
        nodes: &BTreeSet<String>,
    ) -> Touched<'static> {
        let names = &mut self.held.names;
        let members = nodes.iter().map(|name| names.number(name)).collect();
        let mut touched = Touched::default();
        match feed {
            Feed::Peers { key, value } => {
                touched.place(self.held.set_peers(key, value, members));
            }
            Feed::Unit(unit) => self.set_unit(unit, members),
            Feed::Kind(_) | Feed::Sets(_) | Feed::SuperEdgeSets => {}
        }
        touched
    }

    pub(super) fn node_event(&mut self, feed: &Feed, name: &str, member: bool) -> Touched<'static> {
        let number = if member {
            Some(self.held.names.number(name))
        } else {
            self.held.names.known(name)
        };
        let mut touched = Touched::default();
        match (feed, number) {
            (Feed::Peers { key, value }, Some(node)) => {
                touched.place(self.held.set_peer(key, value, node, member));
            }
            (Feed::Unit(unit), Some(node)) => self.set_unit_member(unit, node, member),
            _ => {}
        }
        touched
    }
}
