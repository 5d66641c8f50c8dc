//! What a plan asks the executor to do, one write per step.
//!
//! Every step is safe to repeat and safe to lose: it names the object it saw (by uid or by
//! resourceVersion), so that one that comes late hurts nobody.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::notice::Notice;
use crate::packed::Packed;

/// How often something is checked again that no watch shows: a name that somebody else has, a namespace.
pub const RECHECK_INTERVAL: Duration = Duration::from_mins(1);

/// What should be done now, decided from one look at the world.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Steps by scope: those of one scope run in order and stop at its first failure; scopes run
    /// side by side and never stop each other.
    pub steps: BTreeMap<Scope, Vec<Step>>,
    /// What is worth an Event. The caller publishes each only once per change.
    pub notices: Vec<Notice>,
    /// When to look again though nothing changed.
    pub recheck: Option<Duration>,
}

/// What a step or a failure is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The grid as a whole; in plans that know no units, the one object they are about.
    Grid,
    /// One unit of a grid. For the copies of a federated grid, the namespace of one member.
    Unit(String),
}

impl Scope {
    /// The unit, unless it is the grid as a whole.
    pub fn unit(&self) -> Option<&str> {
        match self {
            Self::Grid => None,
            Self::Unit(unit) => Some(unit),
        }
    }
}

impl From<&str> for Scope {
    fn from(unit: &str) -> Self {
        Self::Unit(unit.to_owned())
    }
}

impl Plan {
    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.steps.values().all(Vec::is_empty)
    }

    /// Adds a step that belongs to no unit.
    pub fn push(&mut self, step: Step) {
        self.steps.entry(Scope::Grid).or_default().push(step);
    }

    /// Adds a step to a unit's.
    pub fn push_for(&mut self, unit: impl Into<String>, step: Step) {
        let scope = Scope::Unit(unit.into());
        self.steps.entry(scope).or_default().push(step);
    }

    /// All steps one after the other, those of the whole grid first.
    pub fn into_steps(self) -> Vec<Step> {
        self.steps.into_values().flatten().collect()
    }

    /// Looks again no later than after `wait`.
    pub fn recheck_after(&mut self, wait: Duration) {
        self.recheck = Some(self.recheck.map_or(wait, |earlier| earlier.min(wait)));
    }

    /// Looks again no later than at a moment.
    pub fn recheck_at(&mut self, moment: Timestamp, now: Timestamp) {
        let left = now.duration_until(moment).try_into().unwrap_or_default();
        self.recheck_after(left);
    }
}

/// One write to one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Server-side apply of a manager's whole intent for one object.
    Apply(Apply),
    /// JSON patch that takes effect only while the object is at `resource_version`.
    Patch {
        /// The object to patch.
        id: ObjectId,
        /// The revision it was looked at; the executor puts the `test` in front.
        resource_version: String,
        /// Operations as in RFC 6902.
        operations: Vec<Value>,
    },
    /// A POST, for objects that must not exist yet.
    Create {
        /// The object to create.
        id: ObjectId,
        /// The whole of it.
        body: Value,
    },
    /// Deletion of the very object that was seen.
    Delete {
        /// The object to delete.
        id: ObjectId,
        /// Precondition: another object of the same name is left alone.
        uid: String,
    },
}

impl Step {
    /// Takes one of our finalizers off an object, and no other's; `None` if it is not there.
    pub(crate) fn remove_finalizer(
        id: ObjectId,
        metadata: &ObjectMeta,
        finalizer: &str,
    ) -> Option<Self> {
        let mut finalizers = metadata.finalizers.iter().flatten();
        let index = finalizers.position(|one| one == finalizer)?;
        Some(Self::Patch {
            id,
            resource_version: metadata.resource_version.clone()?,
            operations: vec![
                json!({ "op": "remove", "path": format!("/metadata/finalizers/{index}") }),
            ],
        })
    }

    /// The object that the step writes.
    pub fn id(&self) -> &ObjectId {
        match self {
            Self::Apply(apply) => &apply.id,
            Self::Patch { id, .. } | Self::Create { id, .. } | Self::Delete { id, .. } => id,
        }
    }
}

/// A server-side apply of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The object to apply to.
    pub id: ObjectId,
    /// The fields wanted; `apiVersion`, `kind` and the name are filled in by the executor.
    pub body: Packed,
    /// What is known about the object of that name.
    pub claim: Claim,
    /// The field manager that owns the fields from then on.
    pub manager: Manager,
}

/// What is known about the object that an apply names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// No object has the name: applied without force, so that one that came meanwhile wins.
    Free,
    /// The object is ours to write: applied with force and, so that no later namesake is hit, its uid.
    Ours {
        /// The uid of the object that was seen.
        uid: String,
    },
}

/// Field managers we apply under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manager {
    /// Everything edgegrid wants of an object.
    Edgegrid,
    /// Only owns `replicas` while it is handed over to whoever scales from now on.
    Replicas,
    /// Only owns the mark of a workload whose unit lost its nodes.
    Grace,
    /// Copies of federated grids.
    Federation,
    /// A member cluster's grids, and what it reports to the control cluster.
    Member,
}

impl Manager {
    /// The name in `managedFields`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Edgegrid => edgegrid_api::names::manager::EDGEGRID,
            Self::Replicas => edgegrid_api::names::manager::REPLICAS,
            Self::Grace => edgegrid_api::names::manager::GRACE,
            Self::Federation => edgegrid_api::names::manager::FEDERATION,
            Self::Member => edgegrid_api::names::manager::MEMBER,
        }
    }
}

/// One object of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Its namespace, `None` for kinds that have none.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
}

impl ObjectId {
    /// An object in a namespace.
    pub fn namespaced(kind: ObjectKind, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// An object of a kind without namespaces.
    pub fn cluster(kind: ObjectKind, name: &str) -> Self {
        Self {
            kind,
            namespace: None,
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{name}", self.kind.name()),
            None => write!(f, "{} {name}", self.kind.name()),
        }
    }
}

/// Kinds that plans write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are Kubernetes' own")]
pub enum ObjectKind {
    Node,
    NodeUnit,
    NodeGroup,
    DeploymentGrid,
    StatefulSetGrid,
    ServiceGrid,
    Deployment,
    StatefulSet,
    Service,
    Namespace,
    Lease,
    CustomResourceDefinition,
}

/// Where the API server serves a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceNames {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Version of the group.
    pub version: &'static str,
    /// The kind as manifests write it.
    pub kind: &'static str,
    /// The kind as paths write it.
    pub plural: &'static str,
}

impl ObjectKind {
    /// The kind as manifests write it.
    pub const fn name(self) -> &'static str {
        self.resource().kind
    }

    /// Where the kind is served.
    pub const fn resource(self) -> ResourceNames {
        use edgegrid_api::names::{GRID_GROUP, GRID_VERSION, SITE_GROUP, SITE_VERSION};
        let (group, version, kind, plural) = match self {
            Self::Node => ("", "v1", "Node", "nodes"),
            Self::NodeUnit => (SITE_GROUP, SITE_VERSION, "NodeUnit", "nodeunits"),
            Self::NodeGroup => (SITE_GROUP, SITE_VERSION, "NodeGroup", "nodegroups"),
            Self::DeploymentGrid => (
                GRID_GROUP,
                GRID_VERSION,
                "DeploymentGrid",
                "deploymentgrids",
            ),
            Self::StatefulSetGrid => (
                GRID_GROUP,
                GRID_VERSION,
                "StatefulSetGrid",
                "statefulsetgrids",
            ),
            Self::ServiceGrid => (GRID_GROUP, GRID_VERSION, "ServiceGrid", "servicegrids"),
            Self::Deployment => ("apps", "v1", "Deployment", "deployments"),
            Self::StatefulSet => ("apps", "v1", "StatefulSet", "statefulsets"),
            Self::Service => ("", "v1", "Service", "services"),
            Self::Namespace => ("", "v1", "Namespace", "namespaces"),
            Self::Lease => ("coordination.k8s.io", "v1", "Lease", "leases"),
            Self::CustomResourceDefinition => (
                "apiextensions.k8s.io",
                "v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
            ),
        };
        ResourceNames {
            group,
            version,
            kind,
            plural,
        }
    }
}
