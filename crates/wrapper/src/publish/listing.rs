//! A complete answer in the making: items are packed as they arrive, and nothing counts
//! before the last has come.

use crate::document::{Parts, Source};
use crate::feed::Feed;
use crate::index::absent::SeenNode;
use crate::index::nodes::NodeNames;
use crate::index::sets::{Stamp, Stamped};
use crate::index::slice_entry::SliceEntry;
use crate::publish::plain::Plain;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a list has shown so far.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) items: Items,
    /// Shows that node numbers are in use which nothing else shows to be.
    _packing: Arc<()>,
}

#[derive(Debug)]
pub(crate) enum Items {
    SliceEntries(Source, BTreeMap<String, (String, SliceEntry)>),
    Plain(BTreeMap<String, Plain>),
    Nodes(BTreeSet<String>),
    Absent(Option<SeenNode>),
    Sets(BTreeMap<String, Stamp>),
}

/// What is read of a node that is only counted.
#[derive(Debug, Deserialize)]
pub(crate) struct NodeName {
    metadata: NodeMetadata,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeMetadata {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    resource_version: Option<String>,
}

impl NodeName {
    pub(crate) fn read(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// What counts of it when it was asked for by name.
    pub(crate) fn seen(self) -> SeenNode {
        SeenNode {
            uid: self.metadata.uid,
            labels: self.metadata.labels.unwrap_or_default(),
        }
    }

    pub(crate) fn revision(&self) -> &str {
        self.metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    /// Whether it belongs to a feed's set. Asked of every node, as there are servers in between
    /// that pass over selectors.
    pub(crate) fn is_in(&self, feed: &Feed) -> bool {
        let labels = self.metadata.labels.as_ref();
        feed.label().is_some_and(|(key, value)| {
            labels
                .and_then(|labels| labels.get(key))
                .is_some_and(|own| own == value)
        })
    }
}

impl Listing {
    pub(crate) fn new(feed: &Feed, packing: &Arc<()>) -> Self {
        let items = match feed {
            Feed::Kind(kind) => match kind.source() {
                Some(source) => Items::SliceEntries(source, BTreeMap::new()),
                None => Items::Plain(BTreeMap::new()),
            },
            Feed::Peers { .. } | Feed::Unit(_) => Items::Nodes(BTreeSet::new()),
            Feed::Absent(_) => Items::Absent(None),
            Feed::Sets(_) | Feed::SuperEdgeSets => Items::Sets(BTreeMap::new()),
        };
        Self {
            items,
            _packing: Arc::clone(packing),
        }
    }

    /// Adds an item. A list may have an object twice; the newer one counts.
    pub(crate) fn push(
        &mut self,
        feed: &Feed,
        json: &[u8],
        names: &mut NodeNames,
    ) -> Result<(), String> {
        match &mut self.items {
            Items::SliceEntries(source, entries) => {
                let parts = Parts::parse(*source, json).map_err(|error| error.to_string())?;
                let revision = parts.revision.clone().unwrap_or_default().into_owned();
                let known = entries.get(&parts.key());
                if known.is_none_or(|(known, _)| !is_older(&revision, known)) {
                    let entry = SliceEntry::pack(&parts, names);
                    entries.insert(parts.key(), (revision, entry));
                }
            }
            Items::Plain(objects) => {
                let Feed::Kind(kind) = feed else {
                    return Ok(());
                };
                let object = Plain::read(*kind, json)?;
                let known = objects.get(&object.key);
                if known.is_none_or(|known| !is_older(&object.revision, &known.revision)) {
                    objects.insert(object.key.clone(), object);
                }
            }
            Items::Nodes(nodes) => {
                let node = NodeName::read(json)?;
                if node.is_in(feed) {
                    nodes.insert(node.metadata.name);
                }
            }
            Items::Absent(found) => {
                let node = NodeName::read(json)?;
                if matches!(feed, Feed::Absent(name) if name == node.name()) {
                    *found = Some(node.seen());
                }
            }
            Items::Sets(sets) => {
                let set = Stamped::read(feed, json)?;
                if let Some(stamp) = set.stamp {
                    sets.insert(set.key, stamp);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        match &self.items {
            Items::SliceEntries(_, entries) => entries.is_empty(),
            Items::Plain(objects) => objects.is_empty(),
            Items::Nodes(nodes) => nodes.is_empty(),
            Items::Absent(node) => node.is_none(),
            Items::Sets(sets) => sets.is_empty(),
        }
    }
}

/// Whether a revision is older than another, as far as they can be compared.
pub(crate) fn is_older(one: &str, other: &str) -> bool {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nodes_that_nobody_asked_for_none_is_the_one_that_was() {
        let feed = Feed::Absent("x".to_owned());
        let mut listing = Listing::new(&feed, &Arc::default());
        for (name, is_empty) in [("y", true), ("x", false)] {
            let node = format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}"}}}}"#);
            let mut names = NodeNames::default();
            listing.push(&feed, node.as_bytes(), &mut names).unwrap();
            assert_eq!(listing.is_empty(), is_empty, "{name}");
        }
    }
}
