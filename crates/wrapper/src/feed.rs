//! What is read from upstream, each by one list and watch of its own.

use crate::kinds::ServedKind;
use edgegrid_api::names::{label, marker};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// One list and watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Feed {
    /// The objects of a served kind; of Nodes only the own one.
    Kind(ServedKind),
    /// Names of the nodes with a value of a topology key.
    Peers {
        /// The node label's key.
        key: String,
        /// The own node's value of it.
        value: String,
    },
    /// What is left of a node that left such a set: nothing, or its metadata.
    Absent(String),
    /// Names of the nodes of a unit.
    Unit(String),
    /// The StatefulSets that grids have in the units of this name, as their notes say.
    Sets(String),
    /// Those that SuperEdge made and nobody has taken over: no note says whose they are.
    SuperEdgeSets,
}

const STATEFUL_SETS: &str = "/apis/apps/v1/statefulsets";

/// How a feed is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) path: String,
    /// Selector as a pair for the query, where there is one.
    pub(crate) selector: Option<(&'static str, String)>,
    /// Whether only metadata is wanted.
    pub(crate) metadata_only: bool,
    /// Different for each selection and the same in every version: a lite-apiserver in between
    /// keeps its cache under the first word of it.
    pub(crate) user_agent: String,
}

impl Feed {
    /// The label that every node of a node set has.
    pub(crate) fn label(&self) -> Option<(&str, &str)> {
        match self {
            Feed::Kind(_) | Feed::Absent(_) | Feed::SuperEdgeSets => None,
            Feed::Sets(unit) => Some((label::UNIT, unit)),
            Feed::Peers { key, value } => Some((key, value)),
            Feed::Unit(unit) => Some((unit, marker::NODE_UNIT)),
        }
    }

    /// Whether it is one of StatefulSets.
    pub(crate) fn is_of_sets(&self) -> bool {
        matches!(self, Feed::Sets(_) | Feed::SuperEdgeSets)
    }

    pub(crate) fn selection(&self, node: &str) -> Selection {
        match self {
            Feed::Kind(ServedKind::Nodes) => Selection {
                path: ServedKind::Nodes.path(),
                selector: Some(("fieldSelector", format!("metadata.name={node}"))),
                metadata_only: false,
                user_agent: "edgegrid-wrapper-node".to_owned(),
            },
            Feed::Kind(kind) => Selection {
                path: kind.path(),
                selector: None,
                metadata_only: false,
                user_agent: "edgegrid-wrapper".to_owned(),
            },
            Feed::Peers { .. } | Feed::Unit(_) => {
                let (key, value) = self.label().unwrap_or_default();
                let selector = format!("{key}={value}");
                Selection {
                    path: ServedKind::Nodes.path(),
                    user_agent: format!("edgegrid-wrapper-nodes-{}", digest(&selector)),
                    selector: Some(("labelSelector", selector)),
                    metadata_only: true,
                }
            }
            Feed::Absent(name) => Selection {
                path: ServedKind::Nodes.path(),
                selector: Some(("fieldSelector", format!("metadata.name={name}"))),
                metadata_only: true,
                user_agent: format!("edgegrid-agent-absent-{}", digest(name)),
            },
            Feed::Sets(_) => {
                let (key, value) = self.label().unwrap_or_default();
                let selector = format!("{key}={value}");
                Selection {
                    path: STATEFUL_SETS.to_owned(),
                    user_agent: format!("edgegrid-agent-sets-{}", digest(&selector)),
                    selector: Some(("labelSelector", selector)),
                    metadata_only: true,
                }
            }
            // Whole, as only the pod template says where their pods run.
            Feed::SuperEdgeSets => Selection {
                path: STATEFUL_SETS.to_owned(),
                user_agent: "edgegrid-agent-superedge-sets".to_owned(),
                selector: Some((
                    "labelSelector",
                    format!(
                        "{},{},!{}",
                        label::GRID_SELECTOR,
                        label::GRID_UNIQ_KEY,
                        label::UNIT
                    ),
                )),
                metadata_only: false,
            },
        }
    }
}

impl std::fmt::Display for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Feed::Kind(kind) => f.write_str(&kind.resource().plural),
            Feed::Peers { key, value } => write!(f, "nodes with {key}={value}"),
            Feed::Absent(name) => write!(f, "absent node {name}"),
            Feed::Unit(unit) => write!(f, "nodes of unit {unit}"),
            Feed::Sets(unit) => write!(f, "statefulsets of unit {unit}"),
            Feed::SuperEdgeSets => f.write_str("statefulsets of SuperEdge"),
        }
    }
}

/// A short name for a selector: label keys may hold what a User-Agent or a file name may not.
fn digest(selector: &str) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(selector.as_bytes()).iter().take(8) {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
    }
    text
}
