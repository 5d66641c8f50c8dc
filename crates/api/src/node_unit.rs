//! NodeUnit: a site, as the nodes it has and what is written on them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelectorRequirement};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::names;
use crate::schema;
use crate::template::Opaque;
use crate::validation;

/// A site: picks nodes by name and by label, and writes labels, annotations and taints on them.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "site.superedge.io",
    version = "v1alpha2",
    kind = "NodeUnit",
    shortname = "nu",
    status = "NodeUnitStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A site: picks nodes by name and by label, and writes labels, annotations and taints on them.",
    validation = validation::name_is_a_label("NodeUnit"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type", description = "Kind of site"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.readyRate", description = "Ready nodes out of all"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Deleting", type_ = "date", json_path = ".metadata.deletionTimestamp", priority = 1, description = "How long the unit has been going away")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeUnitSpec {
    /// Kind of site: edge, cloud, master or other.
    #[serde(rename = "type", default)]
    pub type_: UnitType,
    /// Whether the unit's nodes are closed for new pods.
    #[serde(default)]
    pub unschedulable: bool,
    /// Nodes by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Nodes by label, in addition to those by name. An empty selector picks none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// What is written on every node of the unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_node: Option<SetNode>,
    /// How far the unit can go on by itself: L3 its nodes, L4 with one k3s server of its own, L5 with three.
    #[serde(default = "default_autonomy_level")]
    pub autonomy_level: String,
    /// Where the credentials of the unit's own cluster are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object_reference")]
    pub unit_credential_config_map_ref: Option<ObjectReference>,
    /// How the unit's own cluster is set up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_cluster_info: Option<UnitClusterInfo>,
}

/// Kind of site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitType {
    /// At the edge, behind a link that may fail.
    #[default]
    Edge,
    /// In the cloud.
    Cloud,
    /// Nodes of the control plane.
    Master,
    /// Anything else, as the unit that holds every node.
    Other,
    /// A value stored before values were checked; kept, so that it hides no other unit.
    #[serde(untagged)]
    Unknown(String),
}

/// Selects by labels and annotations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Labels that must have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Label requirements, all of which must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::label_requirements")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// Annotations that must have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What is written on every node of a unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetNode {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Vec<Taint>,
}

/// How a unit's own cluster is set up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitClusterInfo {
    /// Where the cluster keeps its state: sqlite or etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_type: Option<String>,
    /// Settings by name: k3s-image, criw-image, service-cidr, node-port-range.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

/// What a NodeUnit reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeUnitStatus {
    /// Ready nodes out of all, for example 3/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_rate: Option<String>,
    /// Names of the ready nodes, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ready_nodes: Vec<String>,
    /// Names of the other nodes, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_ready_nodes: Vec<String>,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready and Degraded, each with a reason and a message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// State of the unit's own cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_cluster_status: Option<UnitClusterStatus>,
}

/// State of a unit's own cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitClusterStatus {
    /// Kubernetes version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Phase of its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Opaque>,
    /// Addresses under which it is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Opaque>,
    /// Its capacity and what of it is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Opaque>,
    /// Range of its service addresses.
    #[serde(rename = "serviceCIDR", skip_serializing_if = "Option::is_none")]
    pub service_cidr: Option<String>,
}

impl JsonSchema for UnitType {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "UnitType".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": ["edge", "cloud", "master", "other"] })
    }
}

fn default_autonomy_level() -> String {
    names::DEFAULT_AUTONOMY_LEVEL.into()
}
