//! What a plan asks the executor to do, one write per step.
//!
//! Every step is safe to repeat and safe to lose: it names the object it saw (by uid or by
//! resourceVersion), so that one that comes late hurts nobody.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::notice::Notice;
use crate::packed::Packed;

/// What should be done now, decided from one look at the world.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Steps by unit: those of one unit run in order and stop at its first failure; units run
    /// side by side and never stop each other. Plans without units use [`Plan::WHOLE`].
    pub units: BTreeMap<String, Vec<Step>>,
    /// What people should hear about. The caller says each only once per change.
    pub notices: Vec<Notice>,
    /// When to look again though nothing changed.
    pub recheck: Option<Duration>,
}

impl Plan {
    /// Key of the steps that belong to no unit. No label value is empty in a unit, so it is free.
    pub const WHOLE: &str = "";

    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.units.values().all(Vec::is_empty)
    }

    /// Adds a step to a unit's.
    pub fn push(&mut self, unit: impl Into<String>, step: Step) {
        self.units.entry(unit.into()).or_default().push(step);
    }

    /// Looks again no later than after `wait`.
    pub fn recheck_after(&mut self, wait: Duration) {
        self.recheck = Some(self.recheck.map_or(wait, |earlier| earlier.min(wait)));
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Server-side apply of a manager's whole intent for one object.
    Apply(Apply),
    /// JSON patch that takes effect only while the object is at `resource_version`.
    Patch {
        /// The object.
        id: ObjectId,
        /// The revision it was judged at; the executor puts the `test` in front.
        resource_version: String,
        /// RFC 6902 operations.
        operations: Vec<Value>,
    },
    /// A POST, for objects that must not exist yet.
    Create {
        /// The object.
        id: ObjectId,
        /// The whole of it.
        body: Value,
    },
    /// Deletion of the very object that was seen.
    Delete {
        /// The object.
        id: ObjectId,
        /// Precondition.
        uid: String,
    },
}

impl Step {
    /// The object that the step writes.
    pub fn id(&self) -> &ObjectId {
        match self {
            Self::Apply(apply) => &apply.id,
            Self::Patch { id, .. } | Self::Create { id, .. } | Self::Delete { id, .. } => id,
        }
    }
}

/// A server-side apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The object.
    pub id: ObjectId,
    /// The fields wanted; `apiVersion`, `kind` and the name are filled in by the executor.
    pub body: Packed,
    /// What is known about the object of that name.
    pub claim: Claim,
    /// In whose name.
    pub manager: Manager,
}

/// What is known about the object that an apply names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// No object has the name: applied without force, so that one that came meanwhile wins.
    Free,
    /// The object is ours to write: applied with force and, so that no later namesake is hit, its uid.
    Ours {
        /// Its uid.
        uid: String,
    },
}

/// Field managers we apply under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manager {
    /// Everything edgegrid wants of an object.
    Edgegrid,
    /// Only holds `replicas` while it is handed over to whoever scales from now on.
    Replicas,
    /// Only holds the mark of a workload whose unit lost its nodes.
    Grace,
    /// Copies of federated grids.
    Federation,
    /// A member cluster's grids, and what it tells the control cluster.
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
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, `None` for kinds that have none.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectId {
    /// An object in a namespace.
    pub fn namespaced(kind: Kind, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// An object of a kind without namespaces.
    pub fn cluster(kind: Kind, name: &str) -> Self {
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
pub enum Kind {
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

impl Kind {
    /// The kind as manifests write it.
    pub const fn name(self) -> &'static str {
        self.facts().2
    }

    /// `(group, version, kind, plural)`.
    pub const fn facts(self) -> (&'static str, &'static str, &'static str, &'static str) {
        use edgegrid_api::names::{GRID_GROUP, GRID_VERSION, SITE_GROUP, SITE_VERSION};
        match self {
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
        }
    }
}
