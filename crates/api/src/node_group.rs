//! NodeGroup: sites gathered under one node label key.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node_unit::Selector;
use crate::schema;
use crate::validation;

/// Gathers units: each node of a unit gets the label whose key is the group's name and whose value is the unit's.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "site.superedge.io",
    version = "v1alpha2",
    kind = "NodeGroup",
    shortname = "ng",
    category = "all",
    status = "NodeGroupStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Gathers units: each node of a unit gets the label whose key is the group's name and whose value is the unit's.",
    validation = validation::name_is_a_label("NodeGroup"),
    printcolumn(name = "Units", type_ = "integer", json_path = ".status.unitNumber", description = "Number of units"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupSpec {
    /// Units by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_units: Vec<String>,
    /// Units by label, in addition to those by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Node label keys; every combination of values they have on nodes becomes a unit of this group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auto_find_node_keys: Vec<String>,
    /// Workloads of the group, for information.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload: Vec<Workload>,
}

/// A workload that belongs to a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Name of the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Kind of the workload.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Workloads by label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

/// What a NodeGroup reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupStatus {
    /// Number of units in the group.
    #[serde(default)]
    pub unit_number: i32,
    /// Names of the units in the group, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_units: Vec<String>,
    /// State of the group's workloads, unit by unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload_status: Vec<WorkloadStatus>,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready and Degraded, each with a reason and a message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Where a workload of a group runs as it should.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// Name of the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_name: Option<String>,
    /// Units in which it is ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ready_unit: Vec<String>,
    /// Units in which it is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_ready_unit: Vec<String>,
}
