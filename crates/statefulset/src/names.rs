//! Every name of Kubernetes' StatefulSet contract that this crate reads or writes, in one place.

/// The component of our events: what users and dashboards look for.
pub const COMPONENT: &str = "statefulset-controller";
/// Field manager of everything we write.
pub const FIELD_MANAGER: &str = "edgegrid-statefulset";

/// API version of the sets.
pub const SET_API_VERSION: &str = "apps/v1";
/// Kind of the sets.
pub const SET_KIND: &str = "StatefulSet";
/// API version of pods and claims.
pub const CORE_API_VERSION: &str = "v1";
/// Kind of the pods.
pub const POD_KIND: &str = "Pod";
/// Kind of the claims.
pub const CLAIM_KIND: &str = "PersistentVolumeClaim";
/// Kind of the revisions.
pub const REVISION_KIND: &str = "ControllerRevision";

/// Pod label: its own name, so that a Service can select one pod.
pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// Pod label: its ordinal.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// Pod label: name of the revision it was made from.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// Revision label: its hash.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// Reason of an event: two controllers act on one set.
pub const FOREIGN_CONTROLLER: &str = "ForeignController";
/// Reason of an event: a claim belongs to somebody else.
pub const CONFLICTING_CONTROLLER: &str = "ConflictingController";
/// Reason of an event: an update strategy we do not know.
pub const UNKNOWN_STRATEGY: &str = "UnknownStrategy";
