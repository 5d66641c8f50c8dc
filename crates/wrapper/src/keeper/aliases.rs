//! Short names of the own units' pods, as slices of their own in the view.
//!
//! ```text
//! db-beijing-0, seen by this node ─┐
//! set db-beijing: grid db ─────────┴─► slice "db-svc:aliases-ipv4": the same endpoint, hostname db-0
//! ```
//!
//! CoreDNS joins slices by their Service and so answers for the short name; real slices stay as
//! they are. kube-proxy never lists one: it is labelled as of a headless Service, and without
//! ports, so that it adds nothing to SRV records either. The slice's name has a colon, which no
//! object in a cluster can have.

use crate::document::{Family, Parts, Source};
use crate::held::judge::Mask;
use crate::held::{Held, Key};
use crate::keeper::lens::{Lens, Touched, store_key};
use crate::view::Place;
use bytes::Bytes;
use edgegrid_api::names::{ALIAS_MANAGER, label};
use edgegrid_listwatch::{Store, storable};
use edgegrid_machinery::names::dns_label;
use edgegrid_store::{Change, Expect, Write};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The families that have names, and how a slice's name and type say so.
const FAMILIES: [(Family, &str, &str); 2] =
    [(Family::V4, "ipv4", "IPv4"), (Family::V6, "ipv6", "IPv6")];

/// All short names that this node has.
#[derive(Debug)]
pub(crate) struct Aliases {
    store: Store,
    services: BTreeMap<Key, OfService>,
}

/// The short names of one service.
#[derive(Debug, Default)]
struct OfService {
    pieces: BTreeMap<Key, OfPiece>,
    left_out: BTreeSet<Box<str>>,
}

/// What one slice gives.
#[derive(Debug, PartialEq, Eq)]
struct OfPiece {
    mask: Mask,
    family: Family,
    /// Short name, and the endpoint under it.
    found: BTreeSet<(Box<str>, Box<str>)>,
    /// Hostnames that could be somebody's short name.
    taken: BTreeSet<Box<str>>,
}

impl Aliases {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            services: BTreeMap::new(),
        }
    }

    /// Brings the short names up to date with what is seen; gives the writes that make it so.
    pub(crate) fn update(&mut self, held: &Held, lens: &Lens, touched: &Touched<'_>) -> Vec<Write> {
        let mut writes = Vec::new();
        for service in touched.services.union(&touched.naming) {
            let known = self.services.remove(service);
            if known.is_none() && !held.has_names(service) {
                continue;
            }
            let mut known = known.unwrap_or_default();
            known.look(held, lens, service, touched);
            known.report(service);
            writes.extend(known.writes(&self.store, service));
            if !known.pieces.is_empty() {
                self.services.insert(Arc::clone(service), known);
            }
        }
        writes
    }

    /// The slices that a service's short names may be in.
    pub(crate) fn slices_of(service: &str) -> impl Iterator<Item = String> + use<'_> {
        FAMILIES
            .into_iter()
            .map(move |(_, word, _)| slice_name(service, word))
    }

    /// How many names there are, and how many are left out.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let sum = |count: fn(&OfService) -> usize| -> u64 {
            let counts = self.services.values().map(|one| count(one) as u64);
            counts.sum()
        };
        (
            sum(|one| one.shown().count()),
            sum(|one| one.left_out.len()),
        )
    }

    /// The short names of a service, and those that a pod of that name has itself.
    pub(crate) fn explain(&self, service: &str) -> Value {
        let Some(known) = self.services.get(service) else {
            return json!({});
        };
        let shown: BTreeSet<&str> = known.shown().map(|(_, (alias, _))| &**alias).collect();
        json!({ "shown": shown, "leftOut": known.left_out })
    }
}

impl OfService {
    /// Reads what has changed since the last look.
    fn look(&mut self, held: &Held, lens: &Lens, service: &str, touched: &Touched<'_>) {
        let mut seen = BTreeMap::new();
        if held.has_names(service) {
            for (_, key, _) in held
                .pieces_of(service)
                .filter(|(source, ..)| *source == Source::Slices)
            {
                let Some(mask) = lens.mask(Source::Slices, key) else {
                    continue;
                };
                let old = self.pieces.remove(key);
                let same = old.filter(|old| {
                    old.mask == *mask
                        && !touched.naming.contains(service)
                        && !touched.pieces.contains(&(Source::Slices, Arc::clone(key)))
                });
                let piece = same.or_else(|| OfPiece::read(held, service, key, mask, touched));
                if let Some(piece) = piece {
                    seen.insert(Arc::clone(key), piece);
                }
            }
        }
        self.pieces = seen;
    }

    /// Whether a pod of the service has a name for itself.
    fn is_taken(&self, alias: &str) -> bool {
        self.pieces
            .values()
            .any(|piece| piece.taken.contains(alias))
    }

    /// The names that nobody else has, and the family of each.
    fn shown(&self) -> impl Iterator<Item = (Family, &(Box<str>, Box<str>))> {
        let all = self.pieces.values();
        let all = all.flat_map(|piece| piece.found.iter().map(|one| (piece.family, one)));
        all.filter(|(_, (alias, _))| !self.left_out.contains(alias))
    }

    /// Says once which names a real pod has already.
    fn report(&mut self, service: &str) {
        let found = self.pieces.values().flat_map(|piece| &piece.found);
        let left_out = found.filter(|(alias, _)| self.is_taken(alias));
        let left_out: BTreeSet<Box<str>> = left_out.map(|(alias, _)| alias.clone()).collect();
        for alias in left_out.difference(&self.left_out) {
            tracing::warn!(
                service,
                name = &**alias,
                "a pod is called like another's short name and keeps the name: rename one of them"
            );
        }
        self.left_out = left_out;
    }

    fn writes(&self, store: &Store, service: &str) -> Vec<Write> {
        let mut writes = Vec::new();
        for (family, word, address_type) in FAMILIES {
            let endpoints = self.shown().filter(|(of, _)| *of == family);
            let endpoints: BTreeSet<_> = endpoints.map(|(_, one)| one).collect();
            let name = slice_name(service, word);
            let key = store_key(Source::Slices, &name);
            let text = slice(&name, service, address_type, &endpoints);
            let stored = store.get(&key);
            if stored.as_ref().map(|entry| entry.value()) != text.as_ref() {
                writes.push(Write {
                    key: key.into(),
                    expect: Expect::Anything,
                    change: text.map_or(Change::Delete, Change::Put),
                });
            }
        }
        writes
    }
}

impl OfPiece {
    fn read(
        held: &Held,
        service: &str,
        key: &Key,
        mask: &Mask,
        touched: &Touched<'_>,
    ) -> Option<Self> {
        if let Some((Source::Slices, parts)) = touched.fresh
            && parts.key() == **key
        {
            return Some(Self::of(held, service, mask, parts));
        }
        let piece = held.pieces(Source::Slices).get(key)?;
        let read = piece.read(Source::Slices, |parts| Self::of(held, service, mask, parts));
        read.ok()
    }

    /// What a slice says under a mask.
    fn of(held: &Held, service: &str, mask: &Mask, parts: &Parts<'_>) -> Self {
        let family = parts.family();
        let (mut found, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for one in parts.named(|at| mask.has(at)) {
            if held.sets.is_short(&parts.namespace, &one.hostname) {
                taken.insert(one.hostname.as_ref().into());
            }
            let pod = one.pod.as_deref().filter(|pod| *pod == one.hostname);
            let alias = pod
                .filter(|_| one.answers && family != Family::Other)
                .and_then(|pod| held.alias(service, pod, one.node.as_deref()?));
            if let Some(alias) = alias
                && let Some(endpoint) = one.renamed(&alias)
            {
                found.insert((alias, endpoint));
            }
        }
        Self {
            mask: mask.clone(),
            family,
            found,
            taken,
        }
    }
}

impl Held {
    /// Whether pods of a service can have short names.
    fn has_names(&self, service: &str) -> bool {
        let rule = self.rule(service);
        rule.is_some_and(|rule| !rule.naming_keys().is_empty())
    }

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

fn slice_name(service: &str, family: &str) -> String {
    format!("{service}:aliases-{family}")
}

/// The slice of some short names; none without any.
fn slice(
    name: &str,
    service: &str,
    address_type: &str,
    endpoints: &BTreeSet<&(Box<str>, Box<str>)>,
) -> Option<Bytes> {
    let (namespace, name) = name.split_once('/')?;
    let (_, service) = service.split_once('/')?;
    let raw = |text: &str| -> Option<Value> { serde_json::from_str(text).ok() };
    let endpoints: Vec<Value> = endpoints.iter().filter_map(|(_, text)| raw(text)).collect();
    let labels = json!({
        label::SERVICE_NAME: service,
        label::HEADLESS: "",
        label::SLICE_MANAGED_BY: ALIAS_MANAGER,
    });
    let slice = json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": { "name": name, "namespace": namespace, "labels": labels },
        "addressType": address_type, "endpoints": endpoints, "ports": [],
    });
    (!endpoints.is_empty()).then(|| storable(&slice).to_vec().into_boxed_slice().into())
}
