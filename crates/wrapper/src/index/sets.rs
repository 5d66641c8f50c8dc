//! The StatefulSets of the own units: what a pod's name says about its grid and ordinal.
//!
//! A pod belongs to a set if its name is exactly the set's, a dash and a number. Grid and unit are
//! what the set notes, never a part cut out of a name.

use super::Key;
use crate::feed::Feed;
use edgegrid_api::names::{annotation, label};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a set says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// The grid it was stamped from.
    pub(crate) grid: Box<str>,
    /// The node label key that the grid goes by.
    pub(crate) key: Box<str>,
    /// The value of it where the set's pods run.
    pub(crate) unit: Box<str>,
}

/// A set as it was read.
#[derive(Debug)]
pub(crate) struct Stamped {
    /// Namespace and name.
    pub(crate) key: String,
    pub(crate) revision: String,
    /// None if it is no grid's, or not of the feed that brought it.
    pub(crate) stamp: Option<Stamp>,
}

/// All sets that are known.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    by_feed: BTreeMap<Feed, BTreeMap<Key, Stamp>>,
    /// How many there are of each grid, by `namespace/grid`: asked for every pod of every change.
    grids: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct Document {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    resource_version: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    template: Template,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Template {
    spec: PodSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_selector: BTreeMap<String, String>,
}

/// The note on a workload: [`annotation::GRID`].
#[derive(Deserialize)]
struct Note {
    grid: Box<str>,
    unit: Box<str>,
}

impl Stamped {
    /// Reads a set; one that says nothing of a grid is none of ours and no error.
    pub(crate) fn read(feed: &Feed, json: &[u8]) -> Result<Self, String> {
        let set: Document = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        // Asked of every set, as there are servers in between that pass over selectors.
        let stamp = match feed {
            Feed::Sets(unit) if set.metadata.labels.get(label::UNIT) == Some(unit) => set.noted(),
            Feed::SuperEdgeSets if !set.metadata.labels.contains_key(label::UNIT) => set.placed(),
            _ => None,
        };
        Ok(Self {
            key: format!("{}/{}", set.metadata.namespace, set.metadata.name),
            revision: set.metadata.resource_version.unwrap_or_default(),
            stamp,
        })
    }
}

impl Document {
    /// As edgegrid notes it.
    fn noted(&self) -> Option<Stamp> {
        let note = self.metadata.annotations.get(annotation::GRID)?;
        let note: Note = serde_json::from_str(note).ok()?;
        let true_key = self.metadata.annotations.get(annotation::GRID_UNIQ_KEY);
        let key = true_key.or_else(|| self.metadata.labels.get(label::GRID_UNIQ_KEY))?;
        Some(Stamp {
            grid: note.grid,
            key: key.as_str().into(),
            unit: note.unit,
        })
    }

    /// As SuperEdge leaves it: its labels, and where the template sends its pods.
    fn placed(&self) -> Option<Stamp> {
        let labels = &self.metadata.labels;
        let (grid, key) = (
            labels.get(label::GRID_SELECTOR)?,
            labels.get(label::GRID_UNIQ_KEY)?,
        );
        let unit = self.spec.template.spec.node_selector.get(key)?;
        Some(Stamp {
            grid: grid.as_str().into(),
            key: key.as_str().into(),
            unit: unit.as_str().into(),
        })
    }
}

impl Sets {
    /// Replaces what a feed brought by a complete list; gives the namespaces that look different now.
    pub(crate) fn relist(
        &mut self,
        feed: &Feed,
        sets: BTreeMap<String, Stamp>,
    ) -> BTreeSet<Box<str>> {
        let new: BTreeMap<Key, Stamp> = sets
            .into_iter()
            .map(|(key, stamp)| (key.into(), stamp))
            .collect();
        let old = self.by_feed.insert(feed.clone(), new).unwrap_or_default();
        self.count_grids();
        let new = self.brought_by(feed);
        let changed = |(key, stamp): &(&Key, &Stamp), other: Option<&BTreeMap<Key, Stamp>>| {
            other.and_then(|all| all.get(*key)) != Some(*stamp)
        };
        let gone = old.iter().filter(|one| changed(one, new));
        let come = new.into_iter().flatten();
        let come = come.filter(|one| changed(one, Some(&old)));
        gone.chain(come).map(|(key, _)| namespace(key)).collect()
    }

    /// Takes note of a set, or that it is gone; true if something is different now.
    pub(crate) fn set(&mut self, feed: &Feed, key: &str, stamp: Option<Stamp>) -> bool {
        let sets = self.by_feed.entry(feed.clone()).or_default();
        if sets.get(key) == stamp.as_ref() {
            return false;
        }
        let come = stamp.as_ref().map(|stamp| grid(key, stamp));
        let gone = match stamp {
            Some(stamp) => sets.insert(key.into(), stamp),
            None => sets.remove(key),
        };
        if let Some(come) = come {
            *self.grids.entry(come).or_default() += 1;
        }
        if let Some(gone) = gone.map(|stamp| grid(key, &stamp))
            && let Some(count) = self.grids.get_mut(&gone)
        {
            *count -= 1;
            if *count == 0 {
                self.grids.remove(&gone);
            }
        }
        true
    }

    fn count_grids(&mut self) {
        self.grids.clear();
        for (key, stamp) in self.by_feed.values().flatten() {
            *self.grids.entry(grid(key, stamp)).or_default() += 1;
        }
    }

    /// What a feed has brought.
    pub(crate) fn brought_by(&self, feed: &Feed) -> Option<&BTreeMap<Key, Stamp>> {
        self.by_feed.get(feed)
    }

    /// All feeds and what they have brought.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Feed, &BTreeMap<Key, Stamp>)> {
        self.by_feed.iter()
    }

    /// Forgets what feeds brought that are needed no more.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&Feed) -> bool) {
        self.by_feed.retain(|feed, _| wanted(feed));
        self.count_grids();
    }

    /// The set that a pod belongs to, and which of its pods it is.
    pub(crate) fn owner(&self, namespace: &str, pod: &str) -> Option<(&Stamp, u64)> {
        let (set, ordinal) = split(pod)?;
        let key = format!("{namespace}/{set}");
        let mut found = self.by_feed.values().filter_map(|sets| sets.get(&*key));
        Some((found.next()?, ordinal))
    }

    /// Whether a name could be the short name of a pod of some grid.
    pub(crate) fn is_short(&self, namespace: &str, name: &str) -> bool {
        let grid = split(name).map(|(grid, _)| format!("{namespace}/{grid}"));
        grid.is_some_and(|grid| self.grids.contains_key(&grid))
    }
}

/// A set's namespace and grid.
fn grid(key: &str, stamp: &Stamp) -> String {
    format!("{}/{}", namespace(key), stamp.grid)
}

/// The namespace of a key.
pub(crate) fn namespace(key: &str) -> Box<str> {
    key.split('/').next().unwrap_or_default().into()
}

/// A name that ends in a dash and a number, as Kubernetes writes numbers.
fn split(name: &str) -> Option<(&str, u64)> {
    let (set, digits) = name.rsplit_once('-')?;
    let is_plain = digits == "0" || !digits.starts_with('0');
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_plain && all_digits)?;
    Some((set, number))
}

#[cfg(test)]
mod tests;
