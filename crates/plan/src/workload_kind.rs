//! The two kinds of workloads that grids stamp, and what Kubernetes makes of their names.

use crate::step::ObjectKind;

/// What a grid stamps into its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are Kubernetes' own")]
pub enum WorkloadKind {
    Deployment,
    StatefulSet,
}

impl WorkloadKind {
    /// Kind of the objects that a grid makes.
    pub const fn kind(self) -> ObjectKind {
        match self {
            Self::Deployment => ObjectKind::Deployment,
            Self::StatefulSet => ObjectKind::StatefulSet,
        }
    }

    /// Kind of the grid that makes them.
    pub const fn grid_kind(self) -> ObjectKind {
        match self {
            Self::Deployment => ObjectKind::DeploymentGrid,
            Self::StatefulSet => ObjectKind::StatefulSetGrid,
        }
    }

    /// Longest name with which pods can be made: what is put behind it must fit a name, for a
    /// StatefulSet a label value too (`controller-revision-hash`).
    pub(crate) const fn name_max(self) -> usize {
        match self {
            Self::Deployment => 253 - 11,
            Self::StatefulSet => 63 - 11,
        }
    }

    /// A StatefulSet's name becomes part of DNS names, so it is a single label.
    pub(crate) const fn may_have_dots(self) -> bool {
        matches!(self, Self::Deployment)
    }
}
