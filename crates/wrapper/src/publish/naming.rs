//! Short names: what changes them, and what whoever follows names has to look at again.

use super::rendered::{RenderedView, Touched};
use super::short_names::ShortNames;
use super::{Inner, Publisher, rendered};
use crate::document::Source;
use crate::feed::Feed;
use crate::index::Key;
use crate::index::filter::Viewer;
use crate::index::sets::{Stamp, namespace};
use crate::kinds::ServedKind;
use bytes::Bytes;
use edgegrid_store::Write;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What has changed since somebody last looked.
#[derive(Debug, Default)]
pub struct Stale {
    /// Services, as `namespace/name`.
    pub services: BTreeSet<Arc<str>>,
    /// Namespaces.
    pub namespaces: BTreeSet<Arc<str>>,
    /// Whether StatefulSets were listed anew: all short names may be known now.
    pub sets: bool,
    /// Whether everything was forgotten before: it was of another cluster.
    pub cleared: bool,
}

/// A service as this node sees it.
#[derive(Debug)]
pub struct ServiceView {
    /// The Service, as JSON.
    pub service: Bytes,
    /// Its slices that show anything, as JSON; those of short names among them.
    pub slices: Vec<Bytes>,
}

impl Publisher {
    /// Notes that a feed was asked for in vain.
    pub(crate) fn set_failed(&self, feed: &Feed) {
        let mut inner = self.inner();
        if !feed.is_of_sets() || !self.is_wanted(feed) {
            return;
        }
        let progress = inner.feeds.entry(feed.clone()).or_default();
        if !std::mem::replace(&mut progress.failed, true) {
            self.finish(&mut inner, Touched::default());
        }
    }

    /// Waits until something is different for whoever follows names, and gives what.
    pub(crate) async fn stale(&self) -> Stale {
        loop {
            match self.take_stale() {
                Some(stale) => return stale,
                None => self.renamed.notified().await,
            }
        }
    }

    fn take_stale(&self) -> Option<Stale> {
        let mut inner = self.inner();
        let open = inner.open;
        let stale = inner
            .stale
            .as_mut()
            .filter(|stale| stale.cleared || (open && !stale.is_empty()))?;
        Some(std::mem::take(stale))
    }

    /// A service as it is seen now.
    pub(crate) fn service(&self, service: &str) -> Option<ServiceView> {
        let inner = self.inner();
        let stored = |key: String| Some(inner.store.get(&key)?.value().clone());
        let key = format!("{}{service}", ServedKind::Services.resource().key_prefix);
        let text = stored(key)?;
        let slices = inner.index.entries_of(service);
        let slices = slices.filter(|(source, ..)| *source == Source::Slices);
        let shown = slices.filter(|(_, key, _)| {
            let mask = inner.rendered.mask(Source::Slices, key);
            mask.is_some_and(|mask| !mask.is_empty())
        });
        let keys = shown.flat_map(|(_, key, _)| {
            [
                rendered::store_key(Source::Slices, key),
                ShortNames::stored_key(key),
            ]
        });
        Some(ServiceView {
            service: text,
            slices: keys.filter_map(stored).collect(),
        })
    }

    /// Whether a namespace exists.
    pub(crate) fn has_namespace(&self, name: &str) -> bool {
        let key = ServedKind::Namespaces.resource().key(None, name);
        self.inner().store.get(&key).is_some()
    }

    /// Whether all short names are known, so that what is not among them does not exist.
    pub(crate) fn knows_names(&self) -> bool {
        let inner = self.inner();
        inner.open && inner.wanted_sets().iter().all(|feed| inner.is_synced(feed))
    }
}

impl Inner {
    /// What is seen of what is touched, and under which names.
    pub(super) fn update_view(&mut self, touched: &Touched<'_>, writes: &mut Vec<Write>) {
        writes.extend(self.rendered.update(&self.index, Viewer::Node, touched));
        if let Some(aliases) = &mut self.aliases {
            let names = aliases.update(&self.index, touched, writes);
            writes.extend(names);
        }
    }

    pub(super) fn relist_sets(
        &mut self,
        feed: &Feed,
        sets: BTreeMap<String, Stamp>,
    ) -> Touched<'static> {
        if *feed == Feed::SuperEdgeSets && !sets.is_empty() {
            let count = sets.len();
            tracing::info!(
                count,
                "StatefulSets of SuperEdge go by their labels and node selector until they are taken over"
            );
        }
        if let Some(stale) = &mut self.stale {
            stale.sets = true;
        }
        let namespaces = self.index.sets.relist(feed, sets);
        self.names_in(&namespaces)
    }

    pub(super) fn set_event(
        &mut self,
        feed: &Feed,
        key: &str,
        stamp: Option<Stamp>,
    ) -> Touched<'static> {
        let changed = self.index.sets.set(feed, key, stamp);
        let namespaces = changed.then(|| namespace(key));
        self.names_in(&namespaces.into_iter().collect())
    }

    /// The services of some namespaces that can have short names.
    fn names_in(&self, namespaces: &BTreeSet<Box<str>>) -> Touched<'static> {
        let rules = self.index.rules();
        let named = rules.filter(|(service, rule)| {
            !rule.naming_keys().is_empty() && namespaces.contains(&namespace(service))
        });
        Touched {
            naming: named.map(|(service, _)| Arc::clone(service)).collect(),
            ..Touched::default()
        }
    }

    /// Whoever follows names starts anew.
    pub(super) fn everything_is_stale(&mut self) {
        let prefix = &*ServedKind::Namespaces.resource().key_prefix;
        let stored = self.store.snapshot().under(prefix);
        let namespaces = stored.iter().map(|entry| name_in(entry.key(), prefix));
        let entries = RenderedView::everything(&self.index).services;
        if let Some(stale) = &mut self.stale {
            stale.namespaces.extend(namespaces);
            let services = self.index.rules().map(|(service, _)| Arc::clone(service));
            stale.services.extend(services.chain(entries));
        }
    }

    /// Keeps in mind what a commit changes for whoever follows names; true if it is something.
    pub(super) fn note_stale(&mut self, touched: &Touched<'_>, writes: &[Write]) -> bool {
        let Some(stale) = self.stale.as_mut().filter(|_| self.open) else {
            return false;
        };
        let (services, namespaces) = (
            &*ServedKind::Services.resource().key_prefix,
            &*ServedKind::Namespaces.resource().key_prefix,
        );
        let mut slices = false;
        for write in writes {
            if write.key.starts_with(services) {
                stale.services.insert(name_in(&write.key, services));
            } else if write.key.starts_with(namespaces) {
                stale.namespaces.insert(name_in(&write.key, namespaces));
            } else {
                slices = true;
            }
        }
        if slices {
            let touched = touched.services.union(&touched.naming);
            stale.services.extend(touched.cloned());
        }
        !stale.is_empty()
    }
}

impl Stale {
    fn is_empty(&self) -> bool {
        self.services.is_empty() && self.namespaces.is_empty() && !self.sets
    }
}

fn name_in(key: &str, prefix: &str) -> Key {
    key.strip_prefix(prefix).unwrap_or(key).into()
}
