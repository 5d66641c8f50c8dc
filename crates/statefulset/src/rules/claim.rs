//! Claims of a set's pods: their names, and how they are made from the set's templates.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use serde_json::{Map, Value, json};

use super::set::Set;
use crate::names;

/// A claim as the rules read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Namespace that it shares with its pod.
    pub namespace: String,
    /// Name, made of template, set and ordinal.
    pub name: String,
    /// Identity: a claim made anew under the same name has another one.
    pub uid: String,
    /// Revision of the object that was read, as it was written.
    pub resource_version: String,
    /// Somebody deleted it and it has not gone yet.
    pub is_terminating: bool,
    /// Everybody it belongs to.
    pub owners: Vec<OwnerReference>,
}

impl Claim {
    /// Keeps what the rules read of a claim.
    pub fn new(metadata: ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            is_terminating: metadata.deletion_timestamp.is_some(),
            owners: metadata.owner_references.unwrap_or_default(),
        }
    }
}

/// Name of a template: that of the volume in the pods.
pub(super) fn template_name(template: &Value) -> &str {
    template["metadata"]["name"].as_str().unwrap_or_default()
}

/// Name of the claim that a template makes for an ordinal.
pub fn claim_name(template: &Value, set: &str, ordinal: i64) -> String {
    format!("{}-{set}-{ordinal}", template_name(template))
}

/// Names of all claims of an ordinal.
pub fn claim_names(set: &Set, ordinal: i64) -> impl Iterator<Item = String> {
    let templates = set.claim_templates.iter();
    templates.map(move |template| claim_name(template, &set.name, ordinal))
}

/// A claim to create. It belongs to nobody at first.
pub(super) fn new_claim(set: &Set, template: &Value, ordinal: i64) -> Value {
    let mut metadata = template["metadata"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    metadata.retain(|_, value| !value.is_null());
    let mut labels = labels_of(&metadata);
    for (key, value) in &set.match_labels {
        labels.insert(key.clone(), json!(value));
    }
    metadata.insert(
        "name".into(),
        claim_name(template, &set.name, ordinal).into(),
    );
    metadata.insert("namespace".into(), set.namespace.clone().into());
    metadata.insert("labels".into(), labels.into());
    json!({
        "apiVersion": names::CORE_API_VERSION,
        "kind": names::CLAIM_KIND,
        "metadata": metadata,
        "spec": template["spec"],
    })
}

fn labels_of(metadata: &Map<String, Value>) -> Map<String, Value> {
    let labels = metadata.get("labels").and_then(Value::as_object);
    labels.cloned().unwrap_or_default()
}
