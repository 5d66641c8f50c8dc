//! A view as it is served: the edited objects in a store, and which endpoints of each are shown.

use crate::document::{Parts, Source, Written};
use crate::held::judge::{Eye, Judged, Mask};
use crate::held::{Held, Key};
use crate::kinds::Kind;
use crate::view::Fate;
use edgegrid_listwatch::Store;
use edgegrid_store::{Change, Expect, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is shown of all edited objects.
#[derive(Debug)]
pub(crate) struct Lens {
    store: Store,
    shown: BTreeMap<(Source, Key), Shown>,
}

/// What is shown of one object.
#[derive(Debug)]
struct Shown {
    mask: Mask,
    /// Up to here the stored text says what a client can act on.
    stable: usize,
    withheld: [u32; Fate::WITHHELD.len()],
}

/// What has changed since the view was made, so that only that is looked at.
#[derive(Debug, Default)]
pub(crate) struct Touched<'a> {
    /// Services whose endpoints may be seen differently.
    pub(crate) services: BTreeSet<Key>,
    /// Objects whose text is another, or which are gone.
    pub(crate) pieces: BTreeSet<(Source, Key)>,
    /// One of them, taken apart already.
    pub(crate) fresh: Option<(Source, &'a Parts<'a>)>,
    /// Services whose pods may have other short names, though nothing else is different.
    pub(crate) naming: BTreeSet<Key>,
    /// What changes in the store besides.
    pub(crate) writes: Vec<Write>,
}

impl Touched<'_> {
    /// Adds services for which the own node may stand elsewhere now.
    pub(crate) fn place(&mut self, services: BTreeSet<Key>) {
        self.naming.extend(services.iter().cloned());
        self.services.extend(services);
    }
}

impl Lens {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            shown: BTreeMap::new(),
        }
    }

    /// Everything there is, as if all of it had just changed.
    pub(crate) fn everything(held: &Held) -> Touched<'static> {
        let mut touched = Touched::default();
        for source in Source::ALL {
            let pieces = held.pieces(source);
            touched.services.extend(pieces.services().cloned());
            touched
                .pieces
                .extend(pieces.iter().map(|(key, _)| (source, Arc::clone(key))));
        }
        touched
    }

    /// Brings what is shown up to date; gives the writes that make it so.
    pub(crate) fn update(
        &mut self,
        held: &Held,
        eye: Eye<'_>,
        touched: &Touched<'_>,
    ) -> Vec<Write> {
        let mut writes = Vec::new();
        for (source, key) in &touched.pieces {
            let pieces = held.pieces(*source);
            if pieces.get(key).is_none() {
                if self.shown.remove(&(*source, Arc::clone(key))).is_some() {
                    writes.push(write(*source, key, Change::Delete));
                }
            } else if pieces.homeless().contains(key) {
                writes.extend(self.show(held, held.judge_homeless(*source, key), touched));
            }
        }
        for service in &touched.services {
            for judged in held.judge(service, eye) {
                writes.extend(self.show(held, judged, touched));
            }
        }
        writes
    }

    /// How many endpoints are withheld, in the order of [`Fate::WITHHELD`].
    pub(crate) fn withheld(&self) -> [u64; Fate::WITHHELD.len()] {
        let mut sum = [0; Fate::WITHHELD.len()];
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

    fn show(&mut self, held: &Held, judged: Judged, touched: &Touched<'_>) -> Option<Write> {
        let id = (judged.source, Arc::clone(&judged.key));
        let before = self.shown.get_mut(&id);
        if let Some(before) = before
            && before.mask == judged.mask
            && !touched.pieces.contains(&id)
        {
            before.withheld = judged.withheld;
            return None;
        }
        let Written { bytes, stable } = written(held, &judged, touched)?;
        let Judged {
            source,
            key,
            mask,
            withheld,
        } = judged;
        if let Some(before) = self.shown.get_mut(&id)
            && let Some(entry) = self.store.get(&store_key(source, &key))
            && entry.value().get(..before.stable) == bytes.get(..stable)
        {
            (before.mask, before.withheld) = (mask, withheld);
            return None;
        }
        self.shown.insert(
            id,
            Shown {
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
fn written(held: &Held, judged: &Judged, touched: &Touched<'_>) -> Option<Written> {
    let keep = |at: usize| judged.mask.has(at);
    if let Some((source, parts)) = touched.fresh
        && source == judged.source
        && parts.key() == *judged.key
    {
        return Some(parts.write(keep));
    }
    let piece = held.pieces(judged.source).get(&judged.key)?;
    match piece.read(judged.source, |parts| parts.write(keep)) {
        Ok(written) => Some(written),
        Err(error) => {
            // What is held was read before it was pressed, so memory itself must be damaged.
            tracing::error!(key = %judged.key, %error, "an object that is held cannot be read");
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
    format!("{}{key}", Kind::from(source).resource().key_prefix)
}
