//! The records of a snapshot as values: what the publisher gives, and what it takes back.

use crate::discovery::{Discovered, Question};
use crate::feed::Feed;
use crate::index::sets::Stamp;
use crate::index::slice_entry::Compressed;
use crate::kinds::ServedKind;
use crate::tokens::Keys;
use edgegrid_listwatch::Memo;
use edgegrid_store::Entry;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The node of the view, and how far it had come.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) node: String,
    pub(crate) feeds: Vec<FeedMeta>,
    /// The cluster's public keys, where tokens are accepted.
    #[serde(default)]
    pub(crate) keys: Option<Keys>,
    /// The cluster, by the uid of its namespace `kube-system`, where a look has shown it.
    #[serde(default)]
    pub(crate) cluster: Option<String>,
    /// What is kept of Nodes that are gone.
    #[serde(default)]
    pub(crate) grace: GraceRecords,
}

/// What is kept of Nodes that are gone, with the times at which they were.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct GraceRecords {
    /// When the own Node was gone, if it is.
    pub(crate) own: Option<Timestamp>,
    /// Labels that the own Node had and no object has any more.
    pub(crate) labels: Vec<KeptLabelRecord>,
    /// Peers that are gone, or may be.
    pub(crate) peers: Vec<AbsentRecord>,
}

/// A label of a Node that is gone.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct KeptLabelRecord {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) since: Timestamp,
}

/// A peer that is missing in the set of a key.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct AbsentRecord {
    pub(crate) node: String,
    pub(crate) key: String,
    pub(crate) uid: Option<String>,
    pub(crate) revision: Option<u64>,
    /// Whether it is certain that it is gone.
    pub(crate) gone: bool,
    pub(crate) since: Timestamp,
}

/// How far a feed had come.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct FeedMeta {
    pub(crate) feed: Feed,
    pub(crate) revision: String,
    pub(crate) contact: Option<Timestamp>,
}

/// The nodes of a feed.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct NodeSet {
    pub(crate) feed: Feed,
    pub(crate) nodes: Vec<String>,
}

/// The StatefulSets of a feed, by namespace and name.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct StampedSets {
    pub(crate) feed: Feed,
    pub(crate) sets: Vec<(String, Stamp)>,
}

/// Everything to be written. Texts are shared with the publisher, so that it costs little to take.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) meta: Meta,
    pub(crate) objects: Vec<(ServedKind, Arc<Entry<Memo>>)>,
    pub(crate) sets: Vec<NodeSet>,
    pub(crate) stamped: Vec<StampedSets>,
    pub(crate) entries: Vec<(ServedKind, Compressed)>,
    pub(crate) discovery: Vec<(Question, Discovered)>,
}

/// One record that was read.
#[derive(Debug)]
pub(crate) enum Record {
    Meta(Meta),
    Object(ServedKind, Vec<u8>),
    Set(NodeSet),
    Stamped(StampedSets),
    SliceEntry(ServedKind, Compressed),
    Discovery(Question, Discovered),
}
