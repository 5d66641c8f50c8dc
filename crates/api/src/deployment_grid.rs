//! DeploymentGrid: one Deployment in every unit.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rollout::Rollout;
use crate::status::DeploymentGridStatus;
use crate::template::DeploymentTemplate;
use crate::validation;
use crate::when_unreachable::{self, WhenUnreachable};

/// Runs one Deployment in every unit, that is for every value that nodes have for one label key.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "superedge.io",
    version = "v1",
    kind = "DeploymentGrid",
    shortname = "dg",
    namespaced,
    status = "DeploymentGridStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Runs one Deployment in every unit, that is for every value that nodes have for one label key.",
    validation = validation::grid_key_is_set(),
    printcolumn(
        name = "Key",
        type_ = "string",
        json_path = ".spec.gridUniqKey",
        description = "Node label key that names the units"
    ),
    printcolumn(
        name = "Units",
        type_ = "integer",
        json_path = ".status.units",
        description = "Number of units"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.ready",
        description = "Units that run what the grid asks for"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[schemars(extend("x-kubernetes-validations" = [
    validation::template_is_a_workload("Deployment"),
    validation::templates_are_in_pool(),
    validation::default_template_is_in_pool(),
]))]
#[serde(rename_all = "camelCase")]
pub struct DeploymentGridSpec {
    /// Node label key that names the units: each value it has on a node is one unit. The name of a NodeGroup, or any other label key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = validation::LABEL_KEY_PATTERN), length(max = validation::LABEL_KEY_MAX_LENGTH))]
    #[schemars(extend("x-kubernetes-validations" = [validation::grid_key_is_a_label_key()]))]
    pub grid_uniq_key: Option<String>,
    /// The template that units get by default, kept as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<DeploymentTemplate>,
    /// Further templates by name, kept as written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub template_pool: BTreeMap<String, DeploymentTemplate>,
    /// Which template a unit gets: unit to a name in `templatePool`; `default` or empty means `template`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "validation::templates")]
    pub templates: BTreeMap<String, String>,
    /// Template of the units that `templates` does not name; `default` or empty means `template`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = validation::TEMPLATE_NAME_MAX_LENGTH))]
    pub default_template_name: Option<String>,
    /// Drop entries of `templatePool` that neither `templates` nor `defaultTemplateName` names.
    #[serde(default)]
    pub auto_delete_unused_template: bool,
    /// How a changed template reaches the units; by default all at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// What becomes of pods on a node that the cluster no longer reaches. `Keep`: they stay, however long the node is cut off, and nothing restarts when the link is back. Its price: the pods of a machine that is really dead keep their places, and nothing starts elsewhere in the site; after ten minutes the condition `NodeUnreachable` names the node and the way out. `Evict`: Kubernetes evicts them after its toleration time, five minutes unless set otherwise. Left out: as the tolerations of the template say, which is `Evict` if there are none. Where this asks for other pods than there are, they restart once, as `rollout` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "when_unreachable::schema")]
    pub when_unreachable: Option<WhenUnreachable>,
}
