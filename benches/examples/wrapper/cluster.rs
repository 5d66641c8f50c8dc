//! The cluster that is looked at, and what changes in it. Everything follows from [`Shape`].

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

/// The label whose values are the units.
pub(crate) const KEY: &str = "location";
const NAMESPACE: &str = "bench";
/// Requests that are under way at the same time.
pub(crate) const SIDE_BY_SIDE: usize = 8;
/// Endpoints of one service on one node.
const PER_NODE: usize = 5;

/// How large everything is. Node `n` is in unit `n mod units`; every service has endpoints in every
/// unit, on one node each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) nodes: usize,
    pub(crate) units: usize,
    pub(crate) services: usize,
    pub(crate) endpoints: usize,
}

pub(crate) fn node_name(node: usize) -> String {
    format!("node-{node:05}")
}

impl Shape {
    fn node_of(&self, service: usize, endpoint: usize) -> usize {
        let unit = (endpoint / PER_NODE) % self.units;
        let of_unit = (self.nodes - unit).div_ceil(self.units);
        unit + self.units * (service % of_unit)
    }

    /// An endpoint of a service in the unit of the first node, or in another one.
    pub(crate) fn endpoint(&self, own: bool, n: usize) -> usize {
        let spread = n % PER_NODE;
        if own {
            spread
        } else {
            PER_NODE + (n % (self.endpoints - PER_NODE))
        }
    }

    fn slice(&self, service: usize, changed: Option<(usize, usize)>) -> Value {
        let endpoint = |at: usize| {
            let number = service * self.endpoints + at;
            let address = format!(
                "10.{}.{}.{}",
                128 + (number >> 16),
                (number >> 8) & 255,
                number & 255
            );
            let mut endpoint = json!({
                "addresses": [address], "nodeName": node_name(self.node_of(service, at)),
                "conditions": { "ready": true, "serving": true, "terminating": false },
                "targetRef": {
                    "kind": "Pod", "namespace": NAMESPACE, "name": format!("svc-{service:05}-{at}"),
                    "uid": format!("{number:08x}-0000-4000-8000-{:012x}", number.wrapping_mul(0x9e37_79b9)),
                },
            });
            if let Some((_, sequence)) = changed.filter(|(changed, _)| *changed == at) {
                endpoint["hostname"] = format!("s-{sequence}").into();
            }
            endpoint
        };
        let name = format!("svc-{service:05}");
        json!({
            "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
            "metadata": { "name": format!("{name}-s"), "namespace": NAMESPACE,
                "labels": { "kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "bench" } },
            "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
            "endpoints": (0..self.endpoints).map(endpoint).collect::<Vec<_>>(),
        })
    }
}

/// Makes everything there is.
pub(crate) async fn populate(client: &Client, shape: Shape) -> Result<()> {
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    send(client, "POST", "/api/v1/namespaces", &namespace).await?;
    add_nodes(client, shape, 0..shape.nodes).await?;
    let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices");
    let all = stream::iter(0..shape.services).map(|service| {
        let (services, slices) = (&services, &slices);
        async move {
            let object = json!({
                "metadata": { "name": format!("svc-{service:05}"), "annotations": { "topologyKeys": format!("[{KEY:?}]") } },
                "spec": { "ports": [{ "name": "http", "port": 80 }] },
            });
            send(client, "POST", services, &object).await?;
            send(client, "POST", slices, &shape.slice(service, None)).await
        }
    });
    all.buffer_unordered(SIDE_BY_SIDE)
        .try_for_each(async |()| Ok(()))
        .await
}

/// Adds nodes as large as a small edge node's.
pub(crate) async fn add_nodes(
    client: &Client,
    shape: Shape,
    nodes: std::ops::Range<usize>,
) -> Result<()> {
    let all = stream::iter(nodes).map(|node| async move {
        let name = node_name(node);
        let object = json!({
            "metadata": { "name": name, "labels": {
                KEY: format!("unit-{}", node % shape.units), "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64", "node-role.kubernetes.io/edge": "",
            } },
            "status": { "addresses": [{ "type": "InternalIP", "address": format!("172.16.{}.{}", node >> 8, node & 255) }] },
        });
        send(client, "POST", "/api/v1/nodes", &object).await
    });
    all.buffer_unordered(SIDE_BY_SIDE)
        .try_for_each(async |()| Ok(()))
        .await
}

/// Changes one endpoint of a service; `sequence` can be found in it.
pub(crate) async fn touch(
    client: &Client,
    shape: Shape,
    service: usize,
    changed: (usize, usize),
) -> Result<()> {
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/svc-{service:05}-s"
    );
    send(client, "PUT", &path, &shape.slice(service, Some(changed))).await
}

/// Moves a node to another unit.
pub(crate) async fn relabel(client: &Client, node: usize, unit: &str) -> Result<()> {
    let patch = json!({ "metadata": { "labels": { KEY: unit } } });
    send(
        client,
        "PATCH",
        &format!("/api/v1/nodes/{}", node_name(node)),
        &patch,
    )
    .await
}

/// Writes a Node's status as a kubelet does that has nothing new to say.
pub(crate) async fn heartbeat(client: &Client, node: usize, n: usize) -> Result<()> {
    let time = format!("2026-01-01T00:{:02}:{:02}Z", n / 60 % 60, n % 60);
    let condition = json!({ "type": "Ready", "status": "True", "lastHeartbeatTime": time });
    let patch = json!({ "status": { "conditions": [condition] } });
    send(
        client,
        "PATCH",
        &format!("/api/v1/nodes/{}/status", node_name(node)),
        &patch,
    )
    .await
}

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Result<()> {
    let media = if method == "PATCH" {
        "application/strategic-merge-patch+json"
    } else {
        "application/json"
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media);
    let request = request.body(serde_json::to_vec(body)?)?;
    client
        .request_text(request)
        .await
        .with_context(|| format!("{method} {path}"))
        .map(drop)
}
