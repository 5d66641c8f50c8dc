//! A view as it is served: the edited objects in a store, and which endpoints of each are shown.

use crate::document::{Parts, Source, Written};
use crate::index::filter::{Filtered, Mask, Viewer};
use crate::index::{Index, Key};
use crate::kinds::ServedKind;
use crate::view::Visibility;
use edgegrid_listwatch::Store;
use edgegrid_store::{Change, Expect, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is shown of all edited objects.
#[derive(Debug)]
pub(crate) struct RenderedView {
    store: Store,
    shown: BTreeMap<(Source, Key), Rendered>,
}

/// What is shown of one object.
#[derive(Debug)]
struct Rendered {
    mask: Mask,
    /// Up to here the stored text is what a client can act on.
    stable: usize,
    withheld: [u32; Visibility::WITHHELD.len()],
}

/// What has changed since the view was made, so that only that is looked at.
#[derive(Debug, Default)]
pub(crate) struct Touched<'a> {
    /// Services whose endpoints may be seen differently.
    pub(crate) services: BTreeSet<Key>,
    /// Objects whose text is another, or which are gone.
    pub(crate) entries: BTreeSet<(Source, Key)>,
    /// One of them, taken apart already.
    pub(crate) fresh: Option<(Source, &'a Parts<'a>)>,
    /// Services whose pods may have other short names, though nothing else is different.
    pub(crate) naming: BTreeSet<Key>,
    /// What changes in the store besides.
    pub(crate) writes: Vec<Write>,
}

impl Touched<'_> {
    /// Adds services for which the own node may stand elsewhere now.
    pub(crate) fn add_moved(&mut self, services: BTreeSet<Key>) {
        self.naming.extend(services.iter().cloned());
        self.services.extend(services);
    }
}

impl RenderedView {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            shown: BTreeMap::new(),
        }
    }

    /// Everything there is, as if all of it had just changed.
    pub(crate) fn everything(index: &Index) -> Touched<'static> {
        let mut touched = Touched::default();
        for source in Source::ALL {
            let entries = index.entries(source);
            touched.services.extend(entries.services().cloned());
            touched
                .entries
                .extend(entries.iter().map(|(key, _)| (source, Arc::clone(key))));
        }
        touched
    }

    /// Brings what is shown up to date; gives the writes that make it so.
    pub(crate) fn update(
        &mut self,
        index: &Index,
        viewer: Viewer<'_>,
        touched: &Touched<'_>,
    ) -> Vec<Write> {
        let mut writes = Vec::new();
        for (source, key) in &touched.entries {
            let entries = index.entries(*source);
            if entries.get(key).is_none() {
                if self.shown.remove(&(*source, Arc::clone(key))).is_some() {
                    writes.push(write(*source, key, Change::Delete));
                }
            } else if entries.unowned().contains(key) {
                writes.extend(self.show(index, index.filter_unowned(*source, key), touched));
            }
        }
        for service in &touched.services {
            for filtered in index.filter(service, viewer) {
                writes.extend(self.show(index, filtered, touched));
            }
        }
        writes
    }

    /// How many endpoints are withheld, in the order of [`Visibility::WITHHELD`].
    pub(crate) fn withheld(&self) -> [u64; Visibility::WITHHELD.len()] {
        let mut sum = [0; Visibility::WITHHELD.len()];
        for shown in self.shown.values() {
            for (sum, count) in sum.iter_mut().zip(shown.withheld) {
                *sum += u64::from(count);
            }
        }
        sum
    }

    /// Which endpoints of an object are seen.
    pub(crate) fn mask(&self, source: Source, key: &Key) -> Option<&Mask> {
        let shown = self.shown.get(&(source, Arc::clone(key)))?;
        Some(&shown.mask)
    }

    fn show(&mut self, index: &Index, filtered: Filtered, touched: &Touched<'_>) -> Option<Write> {
        let id = (filtered.source, Arc::clone(&filtered.key));
        let before = self.shown.get_mut(&id);
        if let Some(before) = before
            && before.mask == filtered.mask
            && !touched.entries.contains(&id)
        {
            before.withheld = filtered.withheld;
            return None;
        }
        let Written { bytes, stable } = written(index, &filtered, touched)?;
        let Filtered {
            source,
            key,
            mask,
            withheld,
        } = filtered;
        if let Some(before) = self.shown.get_mut(&id)
            && let Some(entry) = self.store.get(&store_key(source, &key))
            && entry.value().get(..before.stable) == bytes.get(..stable)
        {
            (before.mask, before.withheld) = (mask, withheld);
            return None;
        }
        self.shown.insert(
            id,
            Rendered {
                mask,
                stable,
                withheld,
            },
        );
        // Boxed, so that the store keeps no spare room.
        Some(write(
            source,
            &key,
            Change::Put(bytes.into_boxed_slice().into()),
        ))
    }
}

/// The text of an object as it is to be seen.
fn written(index: &Index, filtered: &Filtered, touched: &Touched<'_>) -> Option<Written> {
    let keep = |at: usize| filtered.mask.has(at);
    if let Some((source, parts)) = touched.fresh
        && source == filtered.source
        && parts.key() == *filtered.key
    {
        return Some(parts.write(keep));
    }
    let entry = index.entries(filtered.source).get(&filtered.key)?;
    match entry.read(filtered.source, |parts| parts.write(keep)) {
        Ok(written) => Some(written),
        Err(error) => {
            // What is kept was read before it was compressed, so memory itself must be damaged.
            tracing::error!(key = %filtered.key, %error, "cannot read a compressed object");
            None
        }
    }
}

fn write(source: Source, key: &str, change: Change) -> Write {
    Write {
        key: store_key(source, key).into(),
        expect: Expect::Anything,
        change,
    }
}

pub(crate) fn store_key(source: Source, key: &str) -> String {
    format!("{}{key}", ServedKind::from(source).resource().key_prefix)
}
