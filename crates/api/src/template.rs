//! What a grid stamps into each unit: the spec of a Deployment, StatefulSet or Service.
//!
//! A template is stored as the user wrote it. The fields edgegrid reads are typed; every
//! other one, at any depth, is kept as it is, so that a field of a newer Kubernetes or
//! one we never look at is stamped like the rest. Nothing in here is defaulted and
//! nothing is `required`: Kubernetes checks such rules again on every later write, which
//! would lock objects stored before the rule.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema;

/// Fields edgegrid does not look at, kept as written.
pub type Rest = Map<String, Value>;

/// Spec of the Deployment that each unit gets. Fields not listed here are kept as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentTemplate {
    /// Pods per unit. Leave it out when an autoscaler sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Which pods belong to the Deployment; must match the pod template's labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<PodSelector>,
    /// The pod template, as in a Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Opaque>,
    /// All other fields of a Deployment's spec.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Spec of the StatefulSet that each unit gets. Fields not listed here are kept as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetTemplate {
    /// Pods per unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Which pods belong to the StatefulSet; must match the pod template's labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<PodSelector>,
    /// The Service that gives the pods their names, `<ServiceGrid name>-svc` for one of a ServiceGrid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// The pod template, as in a StatefulSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Opaque>,
    /// All other fields of a StatefulSet's spec.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Spec of the one Service that a ServiceGrid makes. Fields not listed here are kept as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTemplate {
    /// Labels of the pods behind the Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selector: BTreeMap<String, String>,
    /// Ports of the Service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ServicePort>,
    /// Address of the Service; `None` makes it headless.
    #[serde(rename = "clusterIP", skip_serializing_if = "Option::is_none")]
    pub cluster_ip: Option<String>,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// All other fields of a Service's spec.
    #[serde(flatten)]
    pub rest: Rest,
}

/// One port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Name of the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Port of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Port of the pods, by number or by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    pub target_port: Option<IntOrString>,
    /// Port on every node, for a Service that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i32>,
    /// All other fields of a Service port.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Selects pods by their labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSelector {
    /// Labels that must have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// All other fields of a label selector.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A JSON object that is kept exactly as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Opaque(pub Rest);

impl JsonSchema for Opaque {
    fn schema_name() -> Cow<'static, str> {
        "Opaque".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
    }
}
