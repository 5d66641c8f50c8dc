//! A StatefulSet as the rules read it: parsed once at the edge, trusted inside.
//!
//! The pod template and the claim templates stay JSON, so that a field nobody here knows reaches
//! the pods and the revisions all the same.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{DynamicObject, Selector};
use serde::Deserialize;
use serde_json::Value;

use super::status::Status;

/// What a StatefulSet asks for, and what its status says so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// Namespace of the set and of all that belongs to it.
    pub namespace: String,
    /// Name, with which the names of its pods begin.
    pub name: String,
    /// Identity: a set made anew under the same name has another one.
    pub uid: String,
    /// Revision of the object that was read, as a number.
    pub version: u64,
    /// Counts changes of the spec.
    pub generation: i64,
    /// Somebody deleted it and it has not gone yet.
    pub is_deleting: bool,
    /// Copied to new revisions.
    pub annotations: BTreeMap<String, String>,
    /// Wanted number of pods.
    pub replicas: i64,
    /// Lowest ordinal of its pods.
    pub start: i64,
    /// Whether pods come and go one by one.
    pub management: Management,
    /// How pods get a new template.
    pub strategy: Strategy,
    /// How long a pod must be ready to count as available.
    pub min_ready: SignedDuration,
    /// Old revisions to keep; negative keeps all.
    pub history_limit: i64,
    /// What becomes of claims.
    pub retention: ClaimRetention,
    /// Claims of every pod.
    pub claim_templates: Vec<Value>,
    /// Labels of the selector, which claims carry.
    pub match_labels: BTreeMap<String, String>,
    /// Which pods and revisions can be its own.
    pub selector: Selector,
    /// Service that names the pods.
    pub service: String,
    /// Template of the pods.
    pub template: Value,
    /// The status as it is stored.
    pub status: Status,
}

/// How pods are made and removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Management {
    /// One after the other, each waiting for the one before.
    OrderedReady,
    /// All at once, without waiting for each other.
    Parallel,
}

/// How running pods come to a new template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// By replacing them from the highest ordinal down; without limits there is no `rollingUpdate` block.
    RollingUpdate(Option<Limits>),
    /// When somebody deletes them.
    OnDelete,
    /// A strategy of a later Kubernetes.
    Unknown(String),
}

/// Limits of a rolling update.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Pods with a lower index keep the old template.
    pub partition: i64,
    /// Pods that may be unavailable at once.
    pub max_unavailable: Option<Share>,
}

/// A number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// A fixed number of pods.
    Count(i64),
    /// A percentage of the replicas, rounded down.
    Percent(i64),
}

/// What becomes of a claim when its pod or its set goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClaimRetention {
    /// When its set is deleted.
    pub when_deleted: RetentionPolicy,
    /// When its pod is scaled away.
    pub when_scaled: RetentionPolicy,
}

/// Whether a claim outlives its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetentionPolicy {
    /// The claim stays when its user goes.
    #[default]
    Retain,
    /// The claim is deleted with its user.
    Delete,
}

/// Why a StatefulSet cannot be parsed; only a change of the object repairs it.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The selector selects everything, nothing or is not understood.
    #[error("StatefulSet {name} has no usable selector")]
    Selector {
        /// Namespace and name of the set.
        name: String,
    },
    /// A field has an unexpected type.
    #[error("parse StatefulSet {name}")]
    Spec {
        /// Namespace and name of the set.
        name: String,
        /// What was wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    replicas: Option<i64>,
    ordinals: Option<Ordinals>,
    pod_management_policy: Option<String>,
    update_strategy: Option<UpdateStrategy>,
    min_ready_seconds: Option<i64>,
    revision_history_limit: Option<i64>,
    persistent_volume_claim_retention_policy: Option<Policy>,
    volume_claim_templates: Option<Vec<Value>>,
    selector: Option<LabelSelector>,
    service_name: Option<String>,
    template: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Ordinals {
    start: i64,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct UpdateStrategy {
    r#type: Option<String>,
    rolling_update: Option<RollingUpdate>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdate {
    partition: Option<i64>,
    max_unavailable: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Policy {
    when_deleted: Option<String>,
    when_scaled: Option<String>,
}

impl Set {
    /// Reads a StatefulSet of the API.
    pub fn parse(object: &DynamicObject) -> Result<Self, ParseError> {
        let metadata = &object.metadata;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (namespace, name) = (text(&metadata.namespace), text(&metadata.name));
        let shown = || format!("{namespace}/{name}");
        let part = |field: &str| object.data.get(field).cloned().unwrap_or(Value::Null);
        let invalid = |source| ParseError::Spec {
            name: shown(),
            source,
        };
        let spec = Option::<Spec>::deserialize(part("spec")).map_err(invalid)?;
        let spec = spec.unwrap_or_default();
        let status = Option::<Status>::deserialize(part("status")).map_err(invalid)?;
        let labels = spec.selector.clone().unwrap_or_default();
        let selector = Selector::try_from(labels.clone()).ok();
        let selector = selector.filter(|selector| !selector.selects_all());
        Ok(Self {
            selector: selector.ok_or_else(|| ParseError::Selector { name: shown() })?,
            match_labels: labels.match_labels.unwrap_or_default(),
            uid: text(&metadata.uid),
            version: super::version(metadata.resource_version.as_deref()),
            generation: metadata.generation.unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            replicas: spec.replicas.unwrap_or(1),
            start: spec.ordinals.unwrap_or_default().start,
            management: management(spec.pod_management_policy.as_deref()),
            strategy: strategy(spec.update_strategy),
            min_ready: SignedDuration::from_secs(spec.min_ready_seconds.unwrap_or_default()),
            history_limit: spec.revision_history_limit.unwrap_or(10),
            retention: retention(
                &spec
                    .persistent_volume_claim_retention_policy
                    .unwrap_or_default(),
            ),
            claim_templates: spec.volume_claim_templates.unwrap_or_default(),
            service: spec.service_name.unwrap_or_default(),
            template: spec.template,
            status: status.unwrap_or_default(),
            namespace,
            name,
        })
    }

    /// Whether an ordinal is one that the set wants.
    pub fn wants(&self, ordinal: i64) -> bool {
        ordinal >= self.start && ordinal < self.start + self.replicas
    }

    /// Lowest index that a rolling update may touch.
    pub fn partition(&self) -> i64 {
        match &self.strategy {
            Strategy::RollingUpdate(Some(limits)) => limits.partition,
            _ => 0,
        }
    }

    /// How many pods a rolling update may take away at once: never none, or it could not go on.
    pub fn max_unavailable(&self) -> i64 {
        let share = match &self.strategy {
            Strategy::RollingUpdate(Some(limits)) => limits.max_unavailable,
            _ => None,
        };
        match share {
            Some(Share::Count(count)) => count.max(1),
            Some(Share::Percent(percent)) => (self.replicas * percent / 100).max(1),
            None => 1,
        }
    }
}

fn management(policy: Option<&str>) -> Management {
    match policy {
        Some("Parallel") => Management::Parallel,
        _ => Management::OrderedReady,
    }
}

fn strategy(written: Option<UpdateStrategy>) -> Strategy {
    let written = written.unwrap_or_default();
    match written.r#type.as_deref() {
        None | Some("" | "RollingUpdate") => {
            Strategy::RollingUpdate(written.rolling_update.map(|block| Limits {
                partition: block.partition.unwrap_or_default(),
                max_unavailable: block.max_unavailable.as_ref().and_then(share),
            }))
        }
        Some("OnDelete") => Strategy::OnDelete,
        Some(other) => Strategy::Unknown(other.to_owned()),
    }
}

fn share(value: &Value) -> Option<Share> {
    match value {
        Value::Number(number) => number.as_i64().map(Share::Count),
        Value::String(text) => Some(Share::Percent(text.strip_suffix('%')?.parse().ok()?)),
        _ => None,
    }
}

fn retention(policy: &Policy) -> ClaimRetention {
    let parse = |word: Option<&str>| match word {
        Some("Delete") => RetentionPolicy::Delete,
        _ => RetentionPolicy::Retain,
    };
    ClaimRetention {
        when_deleted: parse(policy.when_deleted.as_deref()),
        when_scaled: parse(policy.when_scaled.as_deref()),
    }
}
