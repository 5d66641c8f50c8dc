//! A cluster as one site's node sees it: ten sites, pods of every service in each. Every other service is headless with
//! StatefulSets of a grid, so that its pods of the own site have short names. Everything follows from a service's number.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

/// The node that is looked at; it is in the first site.
pub(crate) const NODE: &str = "node-000";
/// Pods of each service.
pub(crate) const PODS: u32 = 50;
const NODES: u32 = 100;
const SITES: u32 = 10;
const PER_SITE: u32 = PODS / SITES;
const NAMESPACE: &str = "site";
const KEY: &str = "location";
/// Requests that are under way at the same time.
const SIDE_BY_SIDE: usize = 8;
const FIRST_POD: u32 = u32::from_be_bytes([10, 128, 0, 1]);
/// Where pods are that have changed.
const FIRST_CHANGED: u32 = u32::from_be_bytes([11, 0, 0, 1]);

pub(crate) fn is_headless(service: u32) -> bool {
    service.is_multiple_of(2)
}

/// The first pod of a headless service in the own site, as all sites call theirs.
pub(crate) fn short_name(service: u32) -> String {
    format!("grid-{service:05}-0.svc-{service:05}.{NAMESPACE}.svc.cluster.local.")
}

/// Where that pod is after a change.
pub(crate) fn changed_address(change: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST_CHANGED + change)
}

/// Makes nodes and the namespace.
pub(crate) async fn prepare(client: &Client) -> Result<()> {
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    send(client, "POST", "/api/v1/namespaces", &namespace).await?;
    for node in 0..NODES {
        let labels = json!({ KEY: site(node % SITES) });
        let object = json!({ "metadata": { "name": format!("node-{node:03}"), "labels": labels } });
        send(client, "POST", "/api/v1/nodes", &object).await?;
    }
    Ok(())
}

/// Makes services, their pods as slices, and the own site's sets: no other's are ever asked for.
pub(crate) async fn populate(client: &Client, services: std::ops::Range<u32>) -> Result<()> {
    let all = stream::iter(services).map(|service| async move {
        let within = |group: &str, kind: &str| format!("{group}/namespaces/{NAMESPACE}/{kind}");
        let services = within("/api/v1", "services");
        send(client, "POST", &services, &service_object(service)).await?;
        let slices = within("/apis/discovery.k8s.io/v1", "endpointslices");
        send(client, "POST", &slices, &slice(service, None)).await?;
        if is_headless(service) {
            let sets = within("/apis/apps/v1", "statefulsets");
            send(client, "POST", &sets, &set(service)).await?;
        }
        Ok(())
    });
    all.buffer_unordered(SIDE_BY_SIDE)
        .try_for_each(async |()| Ok(()))
        .await
}

/// Gives the first pod of a service in the own site another address.
pub(crate) async fn change(client: &Client, service: u32, change: u32) -> Result<()> {
    let object = slice(service, Some(changed_address(change)));
    send(client, "PUT", &slice_path(service), &object).await
}

/// Where a service's pods are written down.
pub(crate) fn slice_path(service: u32) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/svc-{service:05}-s")
}

fn site(number: u32) -> String {
    format!("site-{number}")
}

fn set_name(service: u32, site_number: u32) -> String {
    format!("grid-{service:05}-{}", site(site_number))
}

fn service_object(service: u32) -> Value {
    let mut spec = json!({ "ports": [{ "name": "http", "port": 80 }] });
    if is_headless(service) {
        spec["clusterIP"] = "None".into();
    }
    let notes = json!({ "topologyKeys": format!("[{KEY:?}]") });
    json!({ "metadata": { "name": format!("svc-{service:05}"), "annotations": notes }, "spec": spec })
}

/// Without pods of its own: they are in the slices already.
fn set(service: u32) -> Value {
    let grid = format!("grid-{service:05}");
    let note = json!({ "grid": grid, "unit": site(0) }).to_string();
    json!({
        "metadata": {
            "name": set_name(service, 0),
            "labels": { "edgegrid.io/unit": site(0), "superedge.io/grid-selector": grid, "superedge.io/grid-uniq-key": KEY },
            "annotations": { "edgegrid.io/grid": note },
        },
        "spec": {
            "serviceName": format!("svc-{service:05}"), "replicas": 0, "selector": { "matchLabels": { "app": grid } },
            "template": {
                "metadata": { "labels": { "app": grid } },
                "spec": { "nodeSelector": { KEY: site(0) }, "containers": [{ "name": "app", "image": "app" }] },
            },
        },
    })
}

fn slice(service: u32, changed: Option<Ipv4Addr>) -> Value {
    let endpoint = |at: u32| {
        let (site_number, ordinal) = (at / PER_SITE, at % PER_SITE);
        let number = service * PODS + at;
        let address = Ipv4Addr::from_bits(FIRST_POD + number);
        let node = site_number + SITES * (service % (NODES / SITES));
        let pod = format!("{}-{ordinal}", set_name(service, site_number));
        let mut endpoint = json!({
            "addresses": [changed.filter(|_| at == 0).unwrap_or(address)], "nodeName": format!("node-{node:03}"),
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "targetRef": {
                "kind": "Pod", "namespace": NAMESPACE, "name": pod,
                "uid": format!("{number:08x}-0000-4000-8000-{:012x}", number.wrapping_mul(0x9e37_79b9)),
            },
        });
        if is_headless(service) {
            endpoint["hostname"] = pod.into();
        }
        endpoint
    };
    let name = format!("svc-{service:05}");
    let mut labels = json!({ "kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "bench" });
    if is_headless(service) {
        labels["service.kubernetes.io/headless"] = "".into();
    }
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": { "name": format!("{name}-s"), "namespace": NAMESPACE, "labels": labels },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": (0..PODS).map(endpoint).collect::<Vec<_>>(),
    })
}

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Result<()> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    let request = request.body(serde_json::to_vec(body)?)?;
    let answer = client.request_text(request).await;
    answer.with_context(|| format!("{method} {path}")).map(drop)
}
