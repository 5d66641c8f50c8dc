//! What becomes of a grid's pods on a node that the cluster no longer reaches.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// What becomes of a grid's pods on a node that the cluster no longer reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenUnreachable {
    /// They stay, however long the node is cut off.
    Keep,
    /// Kubernetes evicts them after a while.
    Evict,
    /// A value that a newer definition lets pass; as if it were left out.
    #[serde(untagged)]
    Unknown(String),
}

/// The values that may be written.
pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["Keep", "Evict"] })
}
