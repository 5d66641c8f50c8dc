//! What is known of the cluster, kept small, and who sees what of it.
//!
//! ```text
//! services: rule of each         own: name and labels of this node
//! entries:  slices, Endpoints    peers: per key in use, the nodes with the own value
//! ```
//!
//! A change is answered with the names of the services it touches; only those are filtered again.

pub(crate) mod absent;
pub(crate) mod filter;
pub(crate) mod nodes;
pub(crate) mod own_node;
pub(crate) mod sets;
pub(crate) mod slice_entry;

use crate::document::Source;
use crate::view::{Locality, NodeId, Rule};
use nodes::NodeNames;
use sets::Sets;
use slice_entry::SliceEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Namespace and name, as `namespace/name`.
pub(crate) type Key = Arc<str>;

/// Everything that decides over views.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) names: NodeNames,
    own: NodeId,
    labels: BTreeMap<String, String>,
    peers: BTreeMap<Box<str>, Peers>,
    services: BTreeMap<Key, Rule>,
    slices: SliceEntries,
    endpoints: SliceEntries,
    /// How many services use a key.
    uses: BTreeMap<Box<str>, usize>,
    /// The StatefulSets of the own units, where short names are wanted.
    pub(crate) sets: Sets,
    /// Whether short names are wanted.
    naming: bool,
}

/// The nodes that have the own node's value of a key, as far as known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peers {
    pub(crate) value: String,
    pub(crate) members: BTreeSet<NodeId>,
    /// Whether all of them have been seen once.
    pub(crate) synced: bool,
}

/// The objects of one source, and which service they belong to.
#[derive(Debug, Default)]
pub(crate) struct SliceEntries {
    all: BTreeMap<Key, SliceEntry>,
    of_service: BTreeMap<Key, BTreeSet<Key>>,
    unowned: BTreeSet<Key>,
}

impl Index {
    pub(crate) fn new(own: &str) -> Self {
        let mut names = NodeNames::default();
        let own = names.number(own);
        Self {
            names,
            own,
            labels: BTreeMap::new(),
            peers: BTreeMap::new(),
            services: BTreeMap::new(),
            slices: SliceEntries::default(),
            endpoints: SliceEntries::default(),
            uses: BTreeMap::new(),
            sets: Sets::default(),
            naming: false,
        }
    }

    /// The same with short names, which also opened services have.
    pub(crate) fn naming(mut self, naming: bool) -> Self {
        self.naming = naming;
        self
    }

    pub(crate) fn is_naming(&self) -> bool {
        self.naming
    }

    /// The keys for which the own node's locality must be known.
    fn keys_of<'a>(&self, rule: Option<&'a Rule>) -> &'a [Box<str>] {
        match rule {
            Some(rule) if self.naming => rule.naming_keys(),
            Some(rule) => rule.keys(),
            None => &[],
        }
    }

    pub(crate) fn entries(&self, source: Source) -> &SliceEntries {
        match source {
            Source::Slices => &self.slices,
            Source::Endpoints => &self.endpoints,
        }
    }

    fn entries_mut(&mut self, source: Source) -> &mut SliceEntries {
        match source {
            Source::Slices => &mut self.slices,
            Source::Endpoints => &mut self.endpoints,
        }
    }

    pub(crate) fn own_name(&self) -> &str {
        self.names.name(self.own)
    }

    pub(crate) fn rule(&self, service: &str) -> Option<&Rule> {
        self.services.get(service)
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = (&Key, &Rule)> {
        self.services.iter()
    }

    pub(crate) fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    pub(crate) fn peers(&self) -> &BTreeMap<Box<str>, Peers> {
        &self.peers
    }

    /// Takes note of a service's rule, or that it is gone; true if the rule is another now.
    pub(crate) fn set_rule(&mut self, service: &str, rule: Option<Rule>) -> bool {
        if self.services.get(service) == rule.as_ref() {
            return false;
        }
        for key in self.keys_of(rule.as_ref()) {
            *self.uses.entry(key.clone()).or_default() += 1;
        }
        let old = match rule {
            Some(rule) => self.services.insert(service.into(), rule),
            None => self.services.remove(service),
        };
        for key in self.keys_of(old.as_ref()) {
            if let Some(uses) = self.uses.get_mut(key) {
                *uses -= 1;
            }
        }
        self.uses.retain(|_, uses| *uses > 0);
        true
    }

    /// Takes note of an object, or that it is gone; gives the services it belonged and belongs to.
    pub(crate) fn set_entry(
        &mut self,
        source: Source,
        key: &str,
        entry: Option<SliceEntry>,
    ) -> BTreeSet<Key> {
        self.entries_mut(source).set(key, entry)
    }

    /// Takes note of the own node's labels; gives the services that may look different now.
    ///
    /// Sets of another value count for nothing from now on, see [`Locality::shares`].
    pub(crate) fn set_labels(&mut self, labels: BTreeMap<String, String>) -> BTreeSet<Key> {
        let old = std::mem::replace(&mut self.labels, labels);
        let changed = |key: &str| old.get(key) != self.labels.get(key);
        let affected = |rule: &Rule| self.keys_of(Some(rule)).iter().any(|key| changed(key));
        let services = self.services.iter().filter(|(_, rule)| affected(rule));
        services.map(|(service, _)| Arc::clone(service)).collect()
    }

    /// Drops the node sets that are needed no more. Only between changes: within one, a key may
    /// go out of use for a moment.
    pub(crate) fn forget_peers(&mut self) {
        let (uses, labels) = (&self.uses, &self.labels);
        self.peers.retain(|key, peers| {
            uses.contains_key(key) && labels.get(&**key) == Some(&peers.value)
        });
    }

    /// The node sets that are needed: keys in use with the own node's value.
    pub(crate) fn wanted_peers(&self) -> BTreeMap<Box<str>, String> {
        let value = |key: &str| self.labels.get(key).cloned();
        let keys = self.uses.keys();
        keys.filter_map(|key| Some((key.clone(), value(key)?)))
            .collect()
    }

    /// Whether the node set of every key in use has been seen.
    pub(crate) fn has_all_peers(&self) -> bool {
        let synced = |key: &str| self.peers.get(key).is_some_and(|peers| peers.synced);
        self.wanted_peers().keys().all(|key| synced(key))
    }

    /// Whether a node is in the set that is needed of a key and value.
    pub(crate) fn is_peer(&self, key: &str, value: &str, node: &str) -> bool {
        let members = self.peers.get(key).filter(|peers| peers.value == value);
        let number = self.names.known(node);
        self.is_wanted(key, value)
            && members
                .zip(number)
                .is_some_and(|(peers, number)| peers.members.contains(&number))
    }

    /// The nodes in the set of a key and value without the own one.
    pub(crate) fn other_peers(&self, key: &str, value: &str) -> Vec<String> {
        let peers = self.peers.get(key).filter(|peers| peers.value == value);
        let members = peers.into_iter().flat_map(|peers| &peers.members);
        let others = members.filter(|node| **node != self.own);
        others
            .map(|node| self.names.name(*node).to_owned())
            .collect()
    }

    /// Whether a key is in use.
    pub(crate) fn uses(&self, key: &str) -> bool {
        self.uses.contains_key(key)
    }

    /// Replaces a node set by a complete one; gives the services that may look different now. A
    /// set that is not wanted any more is passed over.
    pub(crate) fn set_peers(
        &mut self,
        key: &str,
        value: &str,
        members: BTreeSet<NodeId>,
    ) -> BTreeSet<Key> {
        if !self.is_wanted(key, value) {
            return BTreeSet::new();
        }
        let new = Peers {
            value: value.to_owned(),
            members,
            synced: true,
        };
        let old = self.peers.insert(key.into(), new);
        let old = old.map(|peers| peers.members).unwrap_or_default();
        let new = self.peers.get(key).map(|peers| peers.members.clone());
        let moved: Vec<_> = old
            .symmetric_difference(&new.unwrap_or_default())
            .copied()
            .collect();
        self.services_on(key, &moved)
    }

    /// Notes that a node joins or leaves a set.
    pub(crate) fn set_peer(
        &mut self,
        key: &str,
        value: &str,
        node: NodeId,
        member: bool,
    ) -> BTreeSet<Key> {
        let Some(peers) = self.peers.get_mut(key).filter(|peers| peers.value == value) else {
            return BTreeSet::new();
        };
        let changed = if member {
            peers.members.insert(node)
        } else {
            peers.members.remove(&node)
        };
        if changed {
            self.services_on(key, &[node])
        } else {
            BTreeSet::new()
        }
    }

    /// Forgets the numbers of nodes that nothing names any more, if there may be many.
    pub(crate) fn gc(&mut self, also_used: impl Fn(NodeId) -> bool) {
        if !self.names.is_due() {
            return;
        }
        let mut used: BTreeSet<NodeId> = [self.own].into();
        for source in Source::ALL {
            used.extend(
                self.entries(source)
                    .all
                    .values()
                    .flat_map(SliceEntry::nodes),
            );
        }
        used.extend(self.peers.values().flat_map(|peers| &peers.members));
        self.names
            .sweep(|node| used.contains(&node) || also_used(node));
    }

    fn is_wanted(&self, key: &str, value: &str) -> bool {
        self.uses.contains_key(key) && self.labels.get(key).is_some_and(|own| own == value)
    }

    /// The services with a key that have an endpoint on one of some nodes.
    fn services_on(&self, key: &str, nodes: &[NodeId]) -> BTreeSet<Key> {
        let mut found = BTreeSet::new();
        for (service, rule) in &self.services {
            let keys = self.keys_of(Some(rule));
            let has_key = keys.iter().any(|own| &**own == key);
            let on = |entry: &SliceEntry| nodes.iter().any(|node| entry.is_on(*node));
            if has_key && self.entries_of(service).any(|(_, _, entry)| on(entry)) {
                found.insert(Arc::clone(service));
            }
        }
        found
    }

    /// All objects of a service.
    pub(crate) fn entries_of(
        &self,
        service: &str,
    ) -> impl Iterator<Item = (Source, &Key, &SliceEntry)> + Clone + use<'_> {
        let slices = self.slices.of_service(service);
        let endpoints = self.endpoints.of_service(service);
        slices
            .map(|(key, entry)| (Source::Slices, key, entry))
            .chain(endpoints.map(|(key, entry)| (Source::Endpoints, key, entry)))
    }
}

impl SliceEntries {
    pub(crate) fn get(&self, key: &str) -> Option<&SliceEntry> {
        self.all.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &SliceEntry)> {
        self.all.iter()
    }

    fn of_service(
        &self,
        service: &str,
    ) -> impl Iterator<Item = (&Key, &SliceEntry)> + Clone + use<'_> {
        let keys = self.of_service.get(service).into_iter().flatten();
        keys.filter_map(|key| Some((key, self.all.get(key)?)))
    }

    /// The services that have objects here.
    pub(crate) fn services(&self) -> impl Iterator<Item = &Key> {
        self.of_service.keys()
    }

    /// Objects that say of no Service that they belong to it.
    pub(crate) fn unowned(&self) -> &BTreeSet<Key> {
        &self.unowned
    }

    fn set(&mut self, key: &str, entry: Option<SliceEntry>) -> BTreeSet<Key> {
        let mut touched = BTreeSet::new();
        let (key, old): (Key, _) = match self.all.remove_entry(key) {
            Some((key, old)) => (key, Some(old)),
            None => (key.into(), None),
        };
        if let Some(old) = old {
            self.unowned.remove(&key);
            if let Some(service) = old.service {
                self.leave(&service, &key);
                touched.insert(service);
            }
        }
        if let Some(entry) = entry {
            match &entry.service {
                Some(service) => {
                    let entries = self.of_service.entry(Arc::clone(service)).or_default();
                    entries.insert(Arc::clone(&key));
                    touched.insert(Arc::clone(service));
                }
                None => drop(self.unowned.insert(Arc::clone(&key))),
            }
            self.all.insert(key, entry);
        }
        touched
    }

    fn leave(&mut self, service: &str, key: &str) {
        if let Some(entries) = self.of_service.get_mut(service) {
            entries.remove(key);
            if entries.is_empty() {
                self.of_service.remove(service);
            }
        }
    }
}

impl Locality for Index {
    fn has(&self, key: &str) -> bool {
        self.labels.contains_key(key)
    }

    /// The own node shares what it has; another node only if the set for its present value has it.
    fn shares(&self, key: &str, node: NodeId) -> bool {
        let Some(value) = self.labels.get(key) else {
            return false;
        };
        let is_peer = |peers: &Peers| peers.value == *value && peers.members.contains(&node);
        node == self.own || self.peers.get(key).is_some_and(is_peer)
    }
}
