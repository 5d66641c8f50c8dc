//! What the monitor reads of sets and pods.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::fixtures::SET;

/// What a user asks for in the spec of the set.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "fields of a set's spec")]
pub(super) struct WantedSet {
    pub(super) start: i64,
    pub(super) replicas: i64,
    pub(super) is_ordered: bool,
    pub(super) min_ready: i64,
    pub(super) partition: i64,
    pub(super) max_unavailable: i64,
    pub(super) image: String,
    pub(super) limit: i64,
    /// Whether claims outlive scaling down, and the set.
    pub(super) keeps_scaled: bool,
    pub(super) keeps_deleted: bool,
    pub(super) has_claims: bool,
}

/// A pod as it was last observed.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "any of them may be true")]
pub(super) struct ObservedPod {
    pub(super) name: String,
    pub(super) ordinal: i64,
    pub(super) is_ours: bool,
    pub(super) image: String,
    pub(super) revision: String,
    pub(super) is_ready: bool,
    pub(super) ready_since: Option<Timestamp>,
    pub(super) is_leaving: bool,
    pub(super) is_finished: bool,
    /// Since when it has not been ready or has been leaving.
    pub(super) unfit_since: Option<Timestamp>,
    pub(super) finished_since: Option<Timestamp>,
}

pub(super) fn wanted_set(set: &StatefulSet) -> WantedSet {
    let spec = &set.spec;
    let rolling = spec
        .update_strategy
        .as_ref()
        .and_then(|s| s.rolling_update.clone())
        .unwrap_or_default();
    let retention = spec
        .persistent_volume_claim_retention_policy
        .clone()
        .unwrap_or_default();
    let keeps = |policy: Option<String>| policy.as_deref() != Some("Delete");
    let containers = spec
        .template
        .spec
        .as_ref()
        .map(|spec| spec.containers.clone())
        .unwrap_or_default();
    WantedSet {
        start: spec
            .ordinals
            .as_ref()
            .and_then(|o| o.start)
            .unwrap_or(0)
            .into(),
        replicas: spec.replicas.unwrap_or(1).into(),
        is_ordered: spec.pod_management_policy.as_deref() != Some("Parallel"),
        min_ready: spec.min_ready_seconds.unwrap_or(0).into(),
        partition: rolling.partition.unwrap_or(0).into(),
        max_unavailable: match rolling.max_unavailable {
            Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(count)) => {
                count.into()
            }
            _ => 1,
        },
        image: containers
            .first()
            .and_then(|c| c.image.clone())
            .unwrap_or_default(),
        limit: spec.revision_history_limit.unwrap_or(10).into(),
        keeps_scaled: keeps(retention.when_scaled),
        keeps_deleted: keeps(retention.when_deleted),
        has_claims: spec.volume_claim_templates.is_some(),
    }
}

pub(super) fn observed_pod(
    pod: &Pod,
    known: Option<&ObservedPod>,
    now: Timestamp,
) -> Option<ObservedPod> {
    let name = pod.name_any();
    let ordinal = name.strip_prefix(&format!("{SET}-"))?.parse().ok()?;
    let status = pod.status.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let ready = conditions
        .iter()
        .find(|c| c.type_ == "Ready" && c.status == "True");
    let is_ready = ready.is_some() && phase == "Running";
    let is_leaving = pod.metadata.deletion_timestamp.is_some();
    let is_finished = phase == "Failed" || phase == "Succeeded";
    let is_unfit = !is_ready || is_leaving;
    let since = |is: bool, before: Option<Timestamp>| is.then(|| before.unwrap_or(now));
    Some(ObservedPod {
        ordinal,
        is_ours: pod
            .owner_references()
            .iter()
            .any(|owner| owner.kind == "StatefulSet"),
        image: pod.spec.as_ref()?.containers.first()?.image.clone()?,
        revision: pod
            .labels()
            .get("controller-revision-hash")
            .cloned()
            .unwrap_or_default(),
        is_ready,
        ready_since: ready
            .and_then(|c| c.last_transition_time.as_ref())
            .map(|time| time.0),
        is_leaving,
        is_finished,
        unfit_since: since(is_unfit, known.and_then(|known| known.unfit_since)),
        finished_since: since(is_finished, known.and_then(|known| known.finished_since)),
        name,
    })
}
