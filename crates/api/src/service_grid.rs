//! ServiceGrid: one Service for all units, whose traffic stays in the unit it starts in.

use k8s_openapi::api::core::v1::LoadBalancerStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::status::MembersStatus;
use crate::template::ServiceTemplate;
use crate::validation;

/// Makes one Service for the whole cluster; its traffic stays in the unit it starts in.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "superedge.io",
    version = "v1",
    kind = "ServiceGrid",
    shortname = "sg",
    namespaced,
    status = "ServiceGridStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Makes one Service for the whole cluster; its traffic stays in the unit it starts in.",
    validation = validation::grid_key_is_set(),
    printcolumn(
        name = "Key",
        type_ = "string",
        json_path = ".spec.gridUniqKey",
        description = "Node label key that names the units"
    ),
    printcolumn(
        name = "Service",
        type_ = "string",
        json_path = ".status.service",
        description = "The Service made for this grid"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ServiceGridSpec {
    /// Node label key that names the units: traffic stays among nodes that have the same value for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = validation::LABEL_KEY_PATTERN), length(max = validation::LABEL_KEY_MAX_LENGTH))]
    #[schemars(extend("x-kubernetes-validations" = [validation::grid_key_is_a_label_key()]))]
    pub grid_uniq_key: Option<String>,
    /// Spec of the Service, kept as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<ServiceTemplate>,
}

/// What a ServiceGrid reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceGridStatus {
    /// Name of the Service made for this grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready and Degraded, each with a reason and a message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Load balancer of the Service, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub load_balancer: Option<LoadBalancerStatus>,
    /// Member clusters that the grid is sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<MembersStatus>,
}
