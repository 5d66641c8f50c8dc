//! Short names of the own units' pods, as slices of their own in the view.
//!
//! ```text
//! slice "db-svc-x7k2", as shown: db-beijing-0 ─┐
//! set db-beijing: grid db ─────────────────────┴─► slice "db-svc-x7k2:aliases": the same endpoint, hostname db-0
//! ```
//!
//! Beside each slice stands one for its short names, made of nothing but what is shown of it: the store has them, and
//! nobody else. CoreDNS joins slices by their Service and so answers for the short name; real slices stay as they are.
//! kube-proxy never lists one: it is labelled as of a headless Service, and without ports, so that it adds nothing to
//! SRV records either. The slice's name has a colon, which no object in a cluster can have.

use crate::document::{Parts, Source};
use crate::index::{Index, Key};
use crate::kinds::ServedKind;
use crate::publish::rendered::{Touched, store_key};
use crate::view::Locality;
use bytes::Bytes;
use edgegrid_api::names::{ALIAS_MANAGER, label};
use edgegrid_listwatch::Store;
use edgegrid_machinery::names::dns_label;
use edgegrid_store::{Change, Expect, Write};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of all short names that this node has, besides what is in the store.
#[derive(Debug)]
pub(crate) struct ShortNames {
    store: Store,
    /// By slice of pods; those with nothing to remember are not here.
    slices: BTreeMap<Key, OfSlice>,
}

/// What is remembered of a slice. Its sets are almost always empty.
#[derive(Debug, Default)]
struct OfSlice {
    service: Option<Key>,
    shown: u32,
    /// Hostnames that could be somebody's short name.
    taken: BTreeSet<Box<str>>,
    /// Short names that a pod of the service has for itself.
    left_out: BTreeSet<Box<str>>,
}

/// What a slice has to say about names.
#[derive(Debug, Default)]
struct Found {
    service: Option<Key>,
    address_type: String,
    /// Short names, and the endpoint under each.
    named: Vec<(Box<str>, Box<RawValue>)>,
    taken: BTreeSet<Box<str>>,
}

/// Slices as they will be shown: as stored, but for what is about to be written.
struct View<'a> {
    store: &'a Store,
    changes: BTreeMap<&'a str, &'a Change>,
}

/// A slice of short names, as it is stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Slice<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Value,
    address_type: &'a str,
    endpoints: Vec<&'a RawValue>,
    ports: [(); 0],
}

impl ShortNames {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            slices: BTreeMap::new(),
        }
    }

    /// Brings the short names up to date with what is about to be shown; gives the writes that make it so.
    pub(crate) fn update(
        &mut self,
        index: &Index,
        touched: &Touched<'_>,
        shown: &[Write],
    ) -> Vec<Write> {
        let store = self.store.clone();
        let view = View::new(&store, shown);
        let naming = touched.naming.iter();
        let naming = naming
            .flat_map(|service| slices_of(index, service))
            .cloned();
        let keys: BTreeSet<Key> = naming.chain(view.changed()).collect();
        let mut found = BTreeMap::new();
        // A name that a pod has in one slice is nobody's short name in any other of the service.
        let mut contested = BTreeSet::new();
        for key in keys {
            let slice = view.read(index, &key);
            contested.extend(self.note_taken(&key, &slice));
            found.insert(key, slice);
        }
        for key in contested
            .iter()
            .flat_map(|service| slices_of(index, service))
        {
            let slice = found.entry(Arc::clone(key));
            slice.or_insert_with(|| view.read(index, key));
        }
        let writes = found.into_iter();
        writes
            .filter_map(|(key, found)| self.settle(index, &key, found))
            .collect()
    }

    /// Where the short names of a slice are stored.
    pub(crate) fn stored_key(slice: &str) -> String {
        store_key(Source::Slices, &beside(slice))
    }

    /// How many names there are, and how many are left out.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let all = self.slices.values();
        (
            all.clone().map(|one| u64::from(one.shown)).sum(),
            all.map(|one| one.left_out.len() as u64).sum(),
        )
    }

    /// The short names of a service, and those that a pod of that name has itself.
    pub(crate) fn explain(&self, index: &Index, service: &str) -> Value {
        let (mut shown, mut left_out) = (BTreeSet::new(), BTreeSet::new());
        for key in slices_of(index, service) {
            let known = self.slices.get(key);
            left_out.extend(known.into_iter().flat_map(|known| &known.left_out));
            if let Some(entry) = self.store.get(&Self::stored_key(key))
                && let Ok(parts) = Parts::parse(Source::Slices, entry.value())
            {
                let names = parts.named().into_iter();
                shown.extend(names.map(|one| one.hostname.into_owned()));
            }
        }
        json!({ "shown": shown, "leftOut": left_out })
    }

    /// Remembers which hostnames of a slice could be short names; gives the services for which that is new.
    fn note_taken(&mut self, key: &Key, found: &Found) -> Vec<Key> {
        let known = self.slices.entry(Arc::clone(key)).or_default();
        let nothing_taken = known.taken.is_empty() && found.taken.is_empty();
        let same = known.service == found.service && known.taken == found.taken;
        known.taken.clone_from(&found.taken);
        let before = std::mem::replace(&mut known.service, found.service.clone());
        let services = [before, found.service.clone()].into_iter().flatten();
        services.filter(|_| !nothing_taken && !same).collect()
    }

    /// Decides which names of a slice are shown; gives the write that makes it so, if one is needed.
    fn settle(&mut self, index: &Index, key: &Key, mut found: Found) -> Option<Write> {
        let slices = found.service.iter();
        let slices = slices.flat_map(|service| slices_of(index, service));
        let taken = slices.filter_map(|key| self.slices.get(key));
        let taken: BTreeSet<&str> = taken.flat_map(|one| &one.taken).map(|one| &**one).collect();
        let names = found.named.iter().map(|(alias, _)| alias);
        let left_out = names.filter(|alias| taken.contains(&***alias));
        let left_out: BTreeSet<Box<str>> = left_out.cloned().collect();
        found.named.retain(|(alias, _)| !left_out.contains(alias));
        let known = self.slices.entry(Arc::clone(key)).or_default();
        for alias in left_out.difference(&known.left_out) {
            tracing::warn!(
                service = found.service.as_deref(),
                name = &**alias,
                "a pod is called like another's short name and keeps the name: rename one of them"
            );
        }
        known.shown = u32::try_from(found.named.len()).unwrap_or(u32::MAX);
        known.left_out = left_out;
        if known.is_empty() {
            self.slices.remove(key);
        }
        let (stored_key, text) = (Self::stored_key(key), found.text(key));
        let stored = self.store.get(&stored_key);
        let same = stored.as_ref().map(|entry| entry.value()) == text.as_ref();
        (!same).then(|| Write {
            key: stored_key.into(),
            expect: Expect::Anything,
            change: text.map_or(Change::Delete, Change::Put),
        })
    }
}

impl OfSlice {
    fn is_empty(&self) -> bool {
        self.shown == 0 && self.taken.is_empty() && self.left_out.is_empty()
    }
}

impl<'a> View<'a> {
    fn new(store: &'a Store, writes: &'a [Write]) -> Self {
        let prefix = &*ServedKind::from(Source::Slices).resource().key_prefix;
        let slices = writes
            .iter()
            .filter_map(|write| Some((write.key.strip_prefix(prefix)?, &write.change)));
        let changes = slices.collect();
        Self { store, changes }
    }

    fn changed(&self) -> impl Iterator<Item = Key> {
        self.changes.keys().map(|key| (*key).into())
    }

    /// What a slice has to say about names; nothing if there is none.
    fn read(&self, index: &Index, key: &str) -> Found {
        let text = match self.changes.get(key) {
            Some(Change::Put(text)) => Some(text.clone()),
            Some(Change::Delete | Change::Check) => None,
            None => {
                let entry = self.store.get(&store_key(Source::Slices, key));
                entry.map(|entry| entry.value().clone())
            }
        };
        let parts = text.as_ref().map(|text| Parts::parse(Source::Slices, text));
        match parts {
            Some(Ok(parts)) => Found::new(index, &parts),
            // What cannot be read was not written by the view.
            Some(Err(_)) | None => Found::default(),
        }
    }
}

impl Found {
    fn new(index: &Index, parts: &Parts<'_>) -> Self {
        let Some(service) = parts.service() else {
            return Self::default();
        };
        let address_type = parts.address_type().unwrap_or_default();
        let has_names = matches!(&*address_type, "IPv4" | "IPv6");
        let (mut named, mut taken) = (Vec::new(), BTreeSet::new());
        for one in parts.named() {
            if index.sets.is_short(&parts.namespace, &one.hostname) {
                taken.insert(one.hostname.as_ref().into());
            }
            let pod = one.pod.as_deref().filter(|pod| *pod == one.hostname);
            let alias = pod
                .filter(|_| one.answers && has_names)
                .and_then(|pod| index.alias(&service, pod, one.node.as_deref()?));
            if let Some(alias) = alias
                && let Some(endpoint) = one.renamed(&alias)
            {
                named.push((alias, endpoint));
            }
        }
        Self {
            service: Some(service.into()),
            address_type: address_type.into_owned(),
            named,
            taken,
        }
    }

    /// The slice of the short names; none without any.
    fn text(&self, slice: &str) -> Option<Bytes> {
        let (namespace, slice) = slice.split_once('/')?;
        let (_, service) = self.service.as_ref()?.split_once('/')?;
        if self.named.is_empty() {
            return None;
        }
        let labels = json!({
            label::SERVICE_NAME: service,
            label::HEADLESS: "",
            label::SLICE_MANAGED_BY: ALIAS_MANAGER,
        });
        let slice = Slice {
            kind: "EndpointSlice",
            api_version: "discovery.k8s.io/v1",
            metadata: json!({ "name": beside(slice), "namespace": namespace, "labels": labels }),
            address_type: &self.address_type,
            endpoints: self.named.iter().map(|(_, endpoint)| &**endpoint).collect(),
            ports: [],
        };
        // Boxed, so that the store keeps no spare room.
        let text = serde_json::to_vec(&slice).ok()?;
        Some(text.into_boxed_slice().into())
    }
}

impl Index {
    /// The short name of a pod: its grid's and its number, if its set is one of the own unit by
    /// one of the service's keys, and it runs there.
    fn alias(&self, service: &str, pod: &str, node: &str) -> Option<Box<str>> {
        let (namespace, _) = service.split_once('/')?;
        let (stamp, ordinal) = self.sets.owner(namespace, pod)?;
        let mut keys = self.rule(service)?.naming_keys().iter();
        let by_key = keys.any(|key| *key == stamp.key);
        let own = self
            .labels()
            .get(&*stamp.key)
            .is_some_and(|own| **own == *stamp.unit);
        let node = self.names.known(node)?;
        let alias = format!("{}-{ordinal}", stamp.grid);
        let fits = by_key && own && self.shares(&stamp.key, node) && dns_label(&alias).is_empty();
        (fits && alias != pod).then(|| alias.into())
    }
}

/// The slices of a service.
fn slices_of<'a>(index: &'a Index, service: &str) -> impl Iterator<Item = &'a Key> + use<'a> {
    let slices = index.entries_of(service);
    let slices = slices.filter(|(source, ..)| *source == Source::Slices);
    slices.map(|(_, key, _)| key)
}

/// What the slice beside one of pods is called.
fn beside(slice: &str) -> String {
    format!("{slice}:aliases")
}
