//! A pod as the rules read it: a few fields out of many, so that a cache of thousands stays small.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use serde::Deserialize;

use crate::names;

/// The fields of a pod that decide what is done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Namespace that it shares with its set.
    pub namespace: String,
    /// Name: that of the set and the ordinal.
    pub name: String,
    /// Identity: a pod made anew under the same name has another one.
    pub uid: String,
    /// Revision of the object that was read, as a number.
    pub version: u64,
    /// All labels: the selector and the revision are among them.
    pub labels: BTreeMap<String, String>,
    /// The object that controls it, if there is one.
    pub owner: Option<Owner>,
    /// Somebody deleted it and it has not gone yet.
    pub is_terminating: bool,
    /// How far it has come.
    pub phase: Phase,
    /// Whether it can serve.
    pub readiness: Readiness,
    /// Volumes that are claims: name of the volume, name of the claim.
    pub claims: BTreeMap<String, String>,
}

/// The controller of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Kind of the controlling object.
    pub kind: String,
    /// Name of the controlling object.
    pub name: String,
    /// Identity of the controlling object.
    pub uid: String,
}

/// How far a pod has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum Phase {
    /// The status names no phase yet.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// Waiting for a node or its containers.
    Pending,
    /// Bound to a node, and at least one of its containers runs.
    Running,
    /// All its containers ended with success.
    Succeeded,
    /// All its containers ended, at least one of them with a failure.
    Failed,
    /// Its node is out of reach, or a word of a later Kubernetes.
    #[serde(other)]
    Unknown,
}

/// Whether a pod can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The condition `Ready` is not true.
    NotReady,
    /// The condition `Ready` is true.
    Ready {
        /// Since when, where that is known.
        since: Option<Timestamp>,
    },
}

/// The parts of a pod's spec that are read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    volumes: Vec<Volume>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    name: String,
    persistent_volume_claim: Option<ClaimSource>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    claim_name: String,
}

/// The parts of a pod's status that are read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    phase: Phase,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    r#type: String,
    status: String,
    last_transition_time: Option<Timestamp>,
}

impl Pod {
    /// Keeps what the rules read of a pod.
    pub fn new(metadata: ObjectMeta, spec: Spec, status: &Status) -> Self {
        let claim = |volume: Volume| {
            let source = volume.persistent_volume_claim?;
            Some((volume.name, source.claim_name))
        };
        Self {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            version: super::version(metadata.resource_version.as_deref()),
            owner: controller(metadata.owner_references.as_deref().unwrap_or_default()),
            labels: metadata.labels.unwrap_or_default(),
            is_terminating: metadata.deletion_timestamp.is_some(),
            phase: status.phase,
            readiness: readiness(&status.conditions),
            claims: spec.volumes.into_iter().filter_map(claim).collect(),
        }
    }

    /// The same in everything that the rules look at.
    pub fn is_like(&self, other: &Self) -> bool {
        let Self { version, .. } = other;
        let same = Self {
            version: *version,
            ..self.clone()
        };
        same == *other
    }

    /// Name of the revision that it was made from.
    pub fn revision(&self) -> &str {
        self.labels
            .get(names::REVISION_LABEL)
            .map_or("", String::as_str)
    }

    /// The API server knows it.
    pub fn is_created(&self) -> bool {
        self.phase != Phase::Unset
    }

    /// It will not run again.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Its containers run and can serve.
    pub fn is_running_and_ready(&self) -> bool {
        self.phase == Phase::Running && self.readiness != Readiness::NotReady
    }

    /// It has been ready for long enough. Its phase does not matter here, as in Kubernetes.
    pub fn is_available(&self, min_ready: SignedDuration, now: Timestamp) -> bool {
        match self.readiness {
            Readiness::Ready { .. } if min_ready.is_zero() => true,
            Readiness::NotReady | Readiness::Ready { since: None } => false,
            Readiness::Ready { since: Some(since) } => now.duration_since(since) >= min_ready,
        }
    }

    /// It is not there for those who use it: not available, on its way out, or at its end, whatever its
    /// conditions still say.
    pub fn is_unavailable(&self, min_ready: SignedDuration, now: Timestamp) -> bool {
        self.is_terminating || self.is_finished() || !self.is_available(min_ready, now)
    }
}

/// The one owner that controls an object.
pub(crate) fn controller(owners: &[OwnerReference]) -> Option<Owner> {
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some(Owner {
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    })
}

fn readiness(conditions: &[Condition]) -> Readiness {
    let ready = conditions
        .iter()
        .find(|condition| condition.r#type == "Ready");
    match ready {
        Some(condition) if condition.status == "True" => Readiness::Ready {
            since: condition.last_transition_time,
        },
        _ => Readiness::NotReady,
    }
}
