//! Reset fields: what an endpoint never lets its writers change, and therefore never lets them own.

use super::path::PathSet;

const STATUS: &[&str] = &["status"];
const SPEC: &[&str] = &["spec"];
const METADATA_AND_SPEC: &[&str] = &["metadata", "spec"];

/// Kinds whose object endpoint leaves `status` alone although no rule below names them.
const WITH_STATUS: &[&str] = &[
    "CronJob",
    "CSINode",
    "DaemonSet",
    "Deployment",
    "DeviceTaintRule",
    "FlowSchema",
    "HorizontalPodAutoscaler",
    "Ingress",
    "Job",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodCertificateRequest",
    "PodDisruptionBudget",
    "PodGroup",
    "PriorityLevelConfiguration",
    "ReplicaSet",
    "ReplicationController",
    "ResourceClaim",
    "ResourceQuota",
    "Service",
    "ServiceCIDR",
    "StatefulSet",
    "StorageVersion",
    "StorageVersionMigration",
    "ValidatingAdmissionPolicy",
    "VolumeAttachment",
];

/// The reset fields of a built-in kind's endpoint.
pub fn builtin_reset_fields(kind: &str, subresource: Option<&str>) -> PathSet {
    let fields: &[&str] = match (kind, subresource) {
        ("CertificateSigningRequest", None) => &["spec", "status"],
        ("CertificateSigningRequest", Some("status")) => &["spec", "status.conditions"],
        ("CertificateSigningRequest", Some("approval")) => &["spec", "status.certificate"],
        ("Namespace", Some("finalize")) => STATUS,
        ("Deployment", Some("status")) => &["spec", "metadata.labels"],
        ("Pod", Some("status")) => &[
            "spec",
            "metadata.deletionTimestamp",
            "metadata.ownerReferences",
        ],
        (
            "ValidatingAdmissionPolicy"
            | "StorageVersion"
            | "StorageVersionMigration"
            | "PodCertificateRequest"
            | "FlowSchema"
            | "PriorityLevelConfiguration"
            | "ServiceCIDR"
            | "DeviceTaintRule"
            | "ResourceClaim"
            | "PodGroup"
            | "CSINode"
            | "VolumeAttachment",
            Some("status"),
        ) => METADATA_AND_SPEC,
        (_, Some("status")) => SPEC,
        (kind, None) if WITH_STATUS.contains(&kind) => STATUS,
        _ => &[],
    };
    PathSet::of_fields(fields)
}

/// The reset fields of a custom resource's endpoint.
pub fn custom_reset_fields(has_status: bool, subresource: Option<&str>) -> PathSet {
    PathSet::of_fields(match subresource {
        None if has_status => STATUS,
        Some("status") => METADATA_AND_SPEC,
        _ => &[],
    })
}
