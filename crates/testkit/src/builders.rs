//! Objects in as few words as a test needs.
//!
//! ```
//! use edgegrid_api::DeploymentGrid;
//! use edgegrid_testkit::grid;
//!
//! let web: DeploymentGrid = grid("web").by("location").replicas(2).into();
//! assert_eq!(web.spec.grid_uniq_key.as_deref(), Some("location"));
//! ```

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use edgegrid_api::{DeploymentGrid, NodeGroup, NodeUnit, ServiceGrid, StatefulSetGrid};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Service};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Label by which the pods of a workload `name` are found: `app=<name>`.
const APP: &str = "app";
/// Where all namespaced objects of the builders live.
const NAMESPACE: &str = "default";

/// A Node that the simulated kubelet will register, as it is described so far.
#[derive(Clone, Debug)]
pub struct NodeBuilder {
    name: String,
    labels: BTreeMap<String, String>,
    address: Ipv4Addr,
    pod_cidr: Option<String>,
}

/// A workload, a grid of workloads or a Service; becomes whatever kind it is turned [`Into`].
#[derive(Clone, Debug)]
pub struct Builder {
    name: String,
    key: Option<String>,
    replicas: Option<i32>,
    service: Option<String>,
    ports: Vec<Value>,
    headless: bool,
    app: String,
    node_selector: BTreeMap<String, String>,
}

/// A ready node with room for pods, without labels of its own.
pub fn node(name: &str) -> NodeBuilder {
    NodeBuilder {
        name: name.into(),
        labels: BTreeMap::from([
            ("kubernetes.io/hostname".into(), name.into()),
            ("kubernetes.io/os".into(), "linux".into()),
        ]),
        // An address nobody dials; nodes of a lab have one of their own.
        address: Ipv4Addr::new(192, 0, 2, 1),
        pod_cidr: None,
    }
}

/// A grid of Deployments or StatefulSets whose pods carry `app=<name>`.
pub fn grid(name: &str) -> Builder {
    workload(name)
}

/// A Deployment or StatefulSet whose pods carry `app=<name>`.
pub fn workload(name: &str) -> Builder {
    Builder {
        name: name.into(),
        key: None,
        replicas: None,
        service: None,
        ports: Vec::new(),
        headless: false,
        app: name.into(),
        node_selector: BTreeMap::new(),
    }
}

/// A Service or ServiceGrid for the pods with `app=<app>`.
pub fn service(name: &str, app: &str) -> Builder {
    Builder {
        app: app.into(),
        ..workload(name)
    }
}

/// A site with these nodes.
pub fn unit(name: &str, nodes: &[&str]) -> NodeUnit {
    parse(&json!({ "metadata": { "name": name }, "spec": { "type": "edge", "nodes": nodes } }))
}

/// A group of these sites.
pub fn group(name: &str, units: &[&str]) -> NodeGroup {
    parse(&json!({ "metadata": { "name": name }, "spec": { "nodeUnits": units } }))
}

impl NodeBuilder {
    /// Adds a label, or replaces the one with that key.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Where the node is reached.
    #[must_use]
    pub fn address(mut self, address: Ipv4Addr) -> Self {
        self.address = address;
        self
    }

    /// Range of its pods' addresses, written into its spec.
    #[must_use]
    pub fn pod_cidr(mut self, cidr: &str) -> Self {
        self.pod_cidr = Some(cidr.into());
        self
    }
}

impl Builder {
    /// The node label key that names the units.
    #[must_use]
    pub fn by(mut self, key: &str) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Pods, per unit for a grid.
    #[must_use]
    pub fn replicas(mut self, replicas: i32) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// The Service that names the pods of a StatefulSet.
    #[must_use]
    pub fn named_by(mut self, service: &str) -> Self {
        self.service = Some(service.into());
        self
    }

    /// Adds a port of a Service.
    #[must_use]
    pub fn port(mut self, port: u16, target: u16) -> Self {
        self.ports
            .push(json!({ "port": port, "targetPort": target, "protocol": "TCP" }));
        self
    }

    /// Makes a Service headless.
    #[must_use]
    pub fn headless(mut self) -> Self {
        self.headless = true;
        self
    }

    /// Labels the pods `app=<app>` instead of by the workload's own name.
    #[must_use]
    pub fn labelled(mut self, app: &str) -> Self {
        self.app = app.into();
        self
    }

    /// Binds the pods to nodes with this label.
    #[must_use]
    pub fn on_nodes(mut self, key: &str, value: &str) -> Self {
        self.node_selector.insert(key.into(), value.into());
        self
    }

    fn metadata(&self) -> Value {
        json!({ "name": self.name, "namespace": NAMESPACE })
    }

    fn workload_spec(&self) -> Value {
        let labels = json!({ APP: self.app });
        let mut spec = json!({
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "containers": [{ "name": "main", "image": "superedge/echoserver:2.2" }],
                    "nodeSelector": self.node_selector,
                    "terminationGracePeriodSeconds": 1,
                },
            },
        });
        if let Some(replicas) = self.replicas {
            spec["replicas"] = replicas.into();
        }
        spec
    }

    fn stateful_spec(&self) -> Value {
        let mut spec = self.workload_spec();
        spec["serviceName"] = json!(self.service);
        spec
    }

    fn service_spec(&self) -> Value {
        let mut spec = json!({ "selector": { APP: self.app }, "ports": self.ports });
        if self.headless {
            spec["clusterIP"] = "None".into();
        }
        spec
    }

    fn grid<K: DeserializeOwned>(&self, template: &Value) -> K {
        parse(&json!({
            "metadata": self.metadata(),
            "spec": { "gridUniqKey": self.key, "template": template },
        }))
    }

    fn object<K: DeserializeOwned>(&self, spec: &Value) -> K {
        parse(&json!({ "metadata": self.metadata(), "spec": spec }))
    }
}

impl From<NodeBuilder> for Node {
    fn from(node: NodeBuilder) -> Node {
        parse(&json!({
            "metadata": { "name": node.name, "labels": node.labels },
            "spec": { "podCIDR": node.pod_cidr },
            "status": {
                "addresses": [
                    { "type": "InternalIP", "address": node.address },
                    { "type": "Hostname", "address": node.name },
                ],
                "capacity": { "cpu": "64", "memory": "256Gi", "pods": "250" },
                "allocatable": { "cpu": "64", "memory": "256Gi", "pods": "250" },
                "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
                "nodeInfo": {
                    "kubeletVersion": "v1.37.1", "operatingSystem": "linux", "architecture": "amd64",
                    "osImage": "", "kernelVersion": "", "containerRuntimeVersion": "",
                    "kubeProxyVersion": "", "machineID": "", "systemUUID": "", "bootID": "",
                },
            },
        }))
    }
}

impl From<Builder> for Deployment {
    fn from(builder: Builder) -> Self {
        builder.object(&builder.workload_spec())
    }
}

impl From<Builder> for StatefulSet {
    fn from(builder: Builder) -> Self {
        builder.object(&builder.stateful_spec())
    }
}

impl From<Builder> for Service {
    fn from(builder: Builder) -> Self {
        builder.object(&builder.service_spec())
    }
}

impl From<Builder> for DeploymentGrid {
    fn from(builder: Builder) -> Self {
        builder.grid(&builder.workload_spec())
    }
}

impl From<Builder> for StatefulSetGrid {
    fn from(builder: Builder) -> Self {
        builder.grid(&builder.stateful_spec())
    }
}

impl From<Builder> for ServiceGrid {
    fn from(builder: Builder) -> Self {
        builder.grid(&builder.service_spec())
    }
}

fn parse<K: DeserializeOwned>(value: &Value) -> K {
    K::deserialize(value)
        .expect("invariant: a builder writes objects of the kind it is turned into")
}
