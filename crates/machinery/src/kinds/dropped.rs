//! Fields of features that Kubernetes 1.37 has but does not switch on: it drops them silently.

use super::walk;
use crate::table::Shape;
use serde_json::{Map, Value};
use std::sync::OnceLock;

/// What a type loses.
struct Lost {
    fields: &'static [&'static str],
    code: Option<fn(&mut Map<String, Value>)>,
}

/// Takes away what belongs to features that are off.
pub(super) fn drop(object: &mut Value, shape: Shape<'_>) {
    static INDEX: OnceLock<walk::Index<Lost>> = OnceLock::new();
    let index = INDEX.get_or_init(|| walk::Index::new(LOST));
    walk::change(object, shape, &mut |map, shape| {
        let Some(lost) = index.get(shape) else { return };
        for field in lost.fields {
            map.remove(*field);
        }
        if let Some(code) = lost.code {
            code(map);
        }
    });
}

const fn fields(fields: &'static [&'static str]) -> Lost {
    Lost { fields, code: None }
}

const fn code(code: fn(&mut Map<String, Value>)) -> Lost {
    Lost {
        fields: &[],
        code: Some(code),
    }
}

/// A lifecycle that only said how to stop is none.
fn stop_signal(container: &mut Map<String, Value>) {
    let lifecycle = container
        .get_mut("lifecycle")
        .and_then(Value::as_object_mut);
    if lifecycle.is_some_and(|lifecycle| {
        lifecycle.remove("stopSignal").is_some() && lifecycle.values().all(Value::is_null)
    }) {
        container.remove("lifecycle");
    }
}

static LOST: &[(&str, Lost)] = &[
    (
        "api.core.v1.PodSpec",
        fields(&["schedulingGroup", "evictionResponders"]),
    ),
    (
        "api.core.v1.PodStatus",
        fields(&["nodeAllocatableResourceClaimStatuses", "volumeHealth"]),
    ),
    ("api.core.v1.Container", code(stop_signal)),
    ("api.core.v1.EphemeralContainer", code(stop_signal)),
    ("api.core.v1.HTTPGetAction", fields(&["protocol"])),
    ("api.core.v1.GRPCAction", fields(&["mode"])),
    ("api.core.v1.VolumeMount", fields(&["bindMountOptions"])),
    ("api.core.v1.VolumeMountStatus", fields(&["volumeStatus"])),
    ("api.core.v1.EmptyDirVolumeSource", fields(&["mode"])),
    ("api.core.v1.KeyToPath", fields(&["user"])),
    ("api.core.v1.DownwardAPIVolumeFile", fields(&["user"])),
    ("api.core.v1.SecretVolumeSource", fields(&["defaultUser"])),
    (
        "api.core.v1.ConfigMapVolumeSource",
        fields(&["defaultUser"]),
    ),
    (
        "api.core.v1.DownwardAPIVolumeSource",
        fields(&["defaultUser"]),
    ),
    (
        "api.core.v1.ProjectedVolumeSource",
        fields(&["defaultUser"]),
    ),
    (
        "api.core.v1.ServiceAccountTokenProjection",
        fields(&["user"]),
    ),
    (
        "api.core.v1.ClusterTrustBundleProjection",
        fields(&["user"]),
    ),
    ("api.core.v1.PodCertificateProjection", fields(&["user"])),
    (
        "api.coordination.v1.LeaseSpec",
        fields(&["strategy", "preferredHolder"]),
    ),
];
