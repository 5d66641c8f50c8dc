//! How a changed template reaches the units of a grid.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a changed template reaches the units. Units that have no workload yet get theirs at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Most units that are changed and not yet Available at a time; all units if left out. A changed unit that is not Available after its progress deadline stops the rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_concurrent_units: Option<i32>,
    /// Keep units as they are, whatever the template says, until this is false again.
    #[serde(default)]
    pub paused: bool,
}
