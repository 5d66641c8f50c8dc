//! The four resources that are watched, as the caches keep them.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod as CorePod};
use kube::api::ApiResource;
use kube::core::{Object, PartialObjectMeta};

use crate::cache::Entry;
use crate::rules::{Claim, Pod, PodSpec, PodStatus, Revision, Set, version};

/// A pod off the wire: only the fields that are read are ever decoded.
pub(crate) type WirePod = Object<PodSpec, PodStatus>;
/// A claim off the wire: its metadata is enough.
pub(crate) type WireClaim = PartialObjectMeta<PersistentVolumeClaim>;

/// The StatefulSets of the API.
pub(crate) fn sets() -> ApiResource {
    ApiResource::erase::<StatefulSet>(&())
}

/// The pods of the API.
pub(crate) fn pods() -> ApiResource {
    ApiResource::erase::<CorePod>(&())
}

/// The claims of the API.
pub(crate) fn claims() -> ApiResource {
    ApiResource::erase::<PersistentVolumeClaim>(&())
}

/// The revisions of the API.
pub(crate) fn revisions() -> ApiResource {
    ApiResource::erase::<ControllerRevision>(&())
}

/// Reduces a pod to what the rules read.
pub(crate) fn pod(wire: WirePod) -> Pod {
    Pod::new(wire.metadata, wire.spec, &wire.status.unwrap_or_default())
}

impl Entry for Set {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn owner(&self) -> Option<&str> {
        None
    }

    fn version(&self) -> u64 {
        self.version
    }
}

impl Entry for Pod {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn owner(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| owner.uid.as_str())
    }

    fn version(&self) -> u64 {
        self.version
    }
}

impl Entry for Claim {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn owner(&self) -> Option<&str> {
        None
    }

    fn version(&self) -> u64 {
        version(Some(&self.resource_version))
    }
}

impl Entry for Revision {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn owner(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| owner.uid.as_str())
    }

    fn version(&self) -> u64 {
        version(Some(&self.resource_version))
    }
}
