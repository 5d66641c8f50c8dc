//! What the grids report: one line for people, one entry per unit for programs.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DeploymentStatus, StatefulSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// Most entries in `failingUnits`: enough to act on, small enough for one object.
pub const FAILING_UNITS_MAX: usize = 32;

/// What a DeploymentGrid reports.
pub type DeploymentGridStatus = GridStatus<DeploymentStatus>;
/// What a StatefulSetGrid reports.
pub type StatefulSetGridStatus = GridStatus<StatefulSetStatus>;

/// What a grid of workloads reports, over all of its units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    bound(deserialize = "S: Deserialize<'de>", serialize = "S: Serialize")
)]
#[schemars(bound = "")]
pub struct GridStatus<S> {
    /// Status of each unit's workload, by unit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "states")]
    pub states: BTreeMap<String, S>,
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, Progressing and Degraded, each with a reason and a message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Number of units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<i32>,
    /// Number of units that run what the grid asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_units: Option<i32>,
    /// Ready units out of all, for example 5/6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Units that do not run what the grid asks for, worst first; at most 32 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = FAILING_UNITS_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub failing_units: Vec<FailingUnit>,
    /// Units without a Node object, whose workloads go unless a node comes back, soonest first; at most 32 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = FAILING_UNITS_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub leaving_units: Vec<LeavingUnit>,
    /// Member clusters that the grid is sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<MembersStatus>,
}

/// How the member clusters of a federated grid stand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MembersStatus {
    /// Number of member clusters.
    pub total: i32,
    /// Number of those that have the grid as it is.
    pub in_step: i32,
    /// The others, those out of contact first; at most 32 are listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = FAILING_UNITS_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub behind: Vec<MemberBehind>,
}

/// A member cluster that does not have the grid as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MemberBehind {
    /// Name of the cluster.
    pub cluster: String,
    /// One word for programs.
    pub reason: String,
    /// What is wrong and what to do about it.
    pub message: String,
    /// When the member was last heard of, if that is too long ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
}

/// A unit whose Node objects were deleted, and whose workload is kept for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LeavingUnit {
    /// Name of the unit.
    pub unit: String,
    /// When it was seen that the last node is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub gone_since: Option<Time>,
    /// When the unit's workload is deleted if no node comes back. Without it the workload waits for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub removed_at: Option<Time>,
}

/// A unit that does not run what the grid asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FailingUnit {
    /// Name of the unit.
    pub unit: String,
    /// One word for programs.
    pub reason: String,
    /// What is wrong and what to do about it.
    pub message: String,
}

/// Atomic, because ownership is recorded per field otherwise: with hundreds of units the
/// managedFields alone would outgrow the object. Open, so that a newer Kubernetes' status
/// fields are kept.
fn states(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "x-kubernetes-map-type": "atomic",
    })
}
