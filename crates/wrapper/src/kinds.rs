//! The kinds that are read and served, as a table.

use crate::document::Source;
use edgegrid_listwatch::Resource;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, LazyLock};

/// A kind that the wrapper reads once for all its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ServedKind {
    /// Services, whole.
    Services,
    /// EndpointSlices, edited.
    Slices,
    /// Endpoints, edited; read from upstream once a client asks for them.
    Endpoints,
    /// Namespaces, whole: a CoreDNS without them fails every query.
    Namespaces,
    /// Service address ranges, whole.
    ServiceCidrs,
    /// The own Node, whole; others' are not kept.
    Nodes,
}

impl ServedKind {
    /// All of them.
    pub const ALL: [ServedKind; 6] = [
        ServedKind::Services,
        ServedKind::Slices,
        ServedKind::Endpoints,
        ServedKind::Namespaces,
        ServedKind::ServiceCidrs,
        ServedKind::Nodes,
    ];

    /// How it is served.
    pub fn resource(self) -> &'static Arc<Resource> {
        &RESOURCES[self as usize]
    }

    /// The kind of a path's group, version and plural.
    pub fn from_path(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| {
            let resource = kind.resource();
            (&*resource.group, &*resource.version, &*resource.plural) == (group, version, plural)
        })
    }

    /// Path of the collection on every API server.
    pub fn path(self) -> String {
        let resource = self.resource();
        match &*resource.group {
            "" => format!("/api/{}/{}", resource.version, resource.plural),
            group => format!("/apis/{group}/{}/{}", resource.version, resource.plural),
        }
    }

    /// Which of the edited kinds this is, if one.
    pub fn source(self) -> Option<Source> {
        match self {
            ServedKind::Slices => Some(Source::Slices),
            ServedKind::Endpoints => Some(Source::Endpoints),
            _ => None,
        }
    }

    /// Whether what is served of it depends on the node.
    pub fn is_edited(self) -> bool {
        self.source().is_some()
    }
}

impl From<Source> for ServedKind {
    fn from(source: Source) -> Self {
        match source {
            Source::Slices => ServedKind::Slices,
            Source::Endpoints => ServedKind::Endpoints,
        }
    }
}

static RESOURCES: LazyLock<[Arc<Resource>; 6]> = LazyLock::new(|| {
    let core = |kind, plural| Resource::new("", "v1", kind, plural);
    [
        core("Service", "services")
            .namespaced()
            .selectable("spec.clusterIP", "")
            .selectable("spec.type", ""),
        Resource::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices").namespaced(),
        Resource {
            list_kind: "EndpointsList".into(),
            ..core("Endpoints", "endpoints").namespaced()
        },
        core("Namespace", "namespaces").selectable("status.phase", ""),
        Resource::new("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs"),
        core("Node", "nodes").selectable("spec.unschedulable", "false"),
    ]
    .map(Resource::shared)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_under_its_own_path_and_no_other() {
        for kind in ServedKind::ALL {
            let resource = kind.resource();
            let found = ServedKind::from_path(&resource.group, &resource.version, &resource.plural);
            assert_eq!(found, Some(kind));
        }
        assert_eq!(
            ServedKind::Slices.path(),
            "/apis/discovery.k8s.io/v1/endpointslices"
        );
        assert_eq!(ServedKind::Nodes.path(), "/api/v1/nodes");
        assert_eq!(
            ServedKind::from_path("discovery.k8s.io", "v1beta1", "endpointslices"),
            None
        );
    }
}
