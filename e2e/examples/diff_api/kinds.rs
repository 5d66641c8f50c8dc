//! The kinds under test, each with the smallest object that is accepted.

use anyhow::{Context, Result};
use edgegrid_machinery::table::{Shape, Shapes, table};
use serde_json::Value;

/// What is known of a kind before its fields are asked for.
#[derive(Debug)]
pub(crate) struct TestedKind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) status: bool,
    pub(crate) scale: bool,
    /// An object without its type and name.
    pub(crate) base: &'static str,
}

/// A kind with the shape of its objects.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) kind: &'static TestedKind,
    /// Custom resources bring their own.
    shapes: Option<Shapes>,
}

/// Where everything of a namespaced kind lives.
pub(crate) const NAMESPACE: &str = "diff";

pub(crate) const KINDS: &[TestedKind] = &[
    builtin(
        "",
        "v1",
        "configmaps",
        "ConfigMap",
        r#"{"data":{"first":"1"}}"#,
    ),
    builtin(
        "",
        "v1",
        "secrets",
        "Secret",
        r#"{"data":{"first":"MQ=="}}"#,
    ),
    builtin("", "v1", "serviceaccounts", "ServiceAccount", "{}"),
    builtin(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        r#"{"spec":{"holderIdentity":"a"}}"#,
    ),
    builtin(
        "apps",
        "v1",
        "controllerrevisions",
        "ControllerRevision",
        r#"{"revision":1,"data":{"spec":{"a":1}}}"#,
    ),
    builtin(
        "",
        "v1",
        "events",
        "Event",
        r#"{"involvedObject":{"kind":"Pod","name":"web","namespace":"diff"},"reason":"Started","type":"Normal"}"#,
    ),
    builtin(
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        "EndpointSlice",
        r#"{"addressType":"IPv4","endpoints":[{"addresses":["10.1.0.1"]}],"ports":[{"name":"http","port":80}]}"#,
    ),
    TestedKind {
        status: true,
        ..builtin(
            "",
            "v1",
            "services",
            "Service",
            r#"{"spec":{"selector":{"app":"web"},"ports":[{"name":"http","port":80}]}}"#,
        )
    },
    TestedKind {
        status: true,
        ..builtin(
            "",
            "v1",
            "persistentvolumeclaims",
            "PersistentVolumeClaim",
            r#"{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#,
        )
    },
    TestedKind {
        status: true,
        ..builtin(
            "",
            "v1",
            "pods",
            "Pod",
            r#"{"spec":{"containers":[{"name":"main","image":"example/app:1"}]}}"#,
        )
    },
    TestedKind {
        status: true,
        scale: true,
        ..builtin("apps", "v1", "deployments", "Deployment", TEMPLATED)
    },
    TestedKind {
        status: true,
        scale: true,
        ..builtin("apps", "v1", "replicasets", "ReplicaSet", TEMPLATED)
    },
    TestedKind {
        status: true,
        scale: true,
        ..builtin("apps", "v1", "statefulsets", "StatefulSet", TEMPLATED)
    },
    TestedKind {
        status: true,
        namespaced: false,
        ..builtin("", "v1", "nodes", "Node", "{}")
    },
    TestedKind {
        status: true,
        namespaced: false,
        ..builtin("", "v1", "namespaces", "Namespace", "{}")
    },
    TestedKind {
        status: true,
        ..builtin(
            "superedge.io",
            "v1",
            "deploymentgrids",
            "DeploymentGrid",
            r#"{"spec":{"gridUniqKey":"location","template":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},
        "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"example/app:1"}]}}}}}"#,
        )
    },
    TestedKind {
        status: true,
        namespaced: false,
        ..builtin(
            "site.superedge.io",
            "v1alpha2",
            "nodeunits",
            "NodeUnit",
            r#"{"spec":{"type":"edge"}}"#,
        )
    },
];

const TEMPLATED: &str = r#"{"spec":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},
"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"example/app:1"}]}}}}"#;

const fn builtin(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    base: &'static str,
) -> TestedKind {
    TestedKind {
        group,
        version,
        plural,
        kind,
        namespaced: true,
        status: false,
        scale: false,
        base,
    }
}

impl TestedKind {
    pub(crate) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Where the collection is served.
    pub(crate) fn path(&self) -> String {
        let root = if self.group.is_empty() {
            "/api"
        } else {
            "/apis"
        };
        let place = if self.namespaced {
            format!("/namespaces/{NAMESPACE}")
        } else {
            String::new()
        };
        format!("{root}/{}{place}/{}", self.api_version(), self.plural)
    }

    /// The smallest accepted object.
    pub(crate) fn base(&self) -> Result<Value> {
        let mut object: Value =
            serde_json::from_str(self.base).with_context(|| format!("base of {}", self.kind))?;
        object["apiVersion"] = self.api_version().into();
        object["kind"] = self.kind.into();
        Ok(object)
    }
}

impl Subject {
    /// The kind with its shape, from the type table or from its definition.
    pub(crate) fn new(kind: &'static TestedKind) -> Result<Self> {
        if table().shape(kind.group, kind.version, kind.kind).is_some() {
            return Ok(Self { kind, shapes: None });
        }
        let crds = edgegrid_api::crds();
        let crd = crds
            .into_iter()
            .find(|crd| crd.spec.names.kind == kind.kind);
        let crd = crd.with_context(|| format!("no definition of {}", kind.kind))?;
        let version = crd
            .spec
            .versions
            .into_iter()
            .find(|version| version.name == kind.version);
        let schema = version
            .and_then(|version| version.schema)
            .and_then(|schema| schema.open_api_v3_schema);
        let schema =
            schema.with_context(|| format!("{} {} has no schema", kind.kind, kind.version))?;
        Ok(Self {
            kind,
            shapes: Some(Shapes::structural(&serde_json::to_value(schema)?)),
        })
    }

    pub(crate) fn shape(&self) -> Shape<'_> {
        match &self.shapes {
            Some(shapes) => shapes.root(),
            None => table()
                .shape(self.kind.group, self.kind.version, self.kind.kind)
                .expect("invariant: asked when it was made"),
        }
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.shapes.is_some()
    }
}
