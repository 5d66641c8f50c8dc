//! The names that are asked for, as objects of Kubernetes. Everything follows from a service's number: each tenth service is
//! headless, all have a few pods.

use std::net::Ipv4Addr;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

/// Where the agent runs.
pub(crate) const NODE: &str = "node-000";
const NAMESPACE: &str = "bench";
pub(crate) const DOMAIN: &str = "cluster.local";
/// Pods of each service.
pub(crate) const PODS: u32 = 10;
/// Requests that are under way at the same time.
const SIDE_BY_SIDE: usize = 8;
const FIRST_SERVICE: u32 = u32::from_be_bytes([10, 96, 64, 1]);
const FIRST_POD: u32 = u32::from_be_bytes([10, 128, 0, 1]);

pub(crate) fn is_headless(service: u32) -> bool {
    service.is_multiple_of(10)
}

fn name(service: u32) -> String {
    format!("svc-{service:05}")
}

/// The absolute name of a service.
pub(crate) fn full_name(service: u32) -> String {
    format!("{}.{NAMESPACE}.svc.{DOMAIN}.", name(service))
}

pub(crate) fn service_address(service: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST_SERVICE + service)
}

pub(crate) fn pod_address(service: u32, pod: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST_POD + service * PODS + pod)
}

/// The hostname of a pod behind a headless service.
pub(crate) fn host_name(pod: u32) -> String {
    format!("pod-{pod}")
}

/// Creates the namespace, its Services and their slices.
pub(crate) async fn populate(client: &Client, services: u32) -> Result<()> {
    let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
    let params = PostParams::default();
    Api::<Namespace>::all(client.clone())
        .create(&params, &namespace)
        .await?;
    let node = serde_json::from_value(json!({ "metadata": { "name": NODE } }))?;
    Api::<Node>::all(client.clone())
        .create(&params, &node)
        .await?;
    let (of_services, of_slices) = (
        Api::<Service>::namespaced(client.clone(), NAMESPACE),
        Api::<EndpointSlice>::namespaced(client.clone(), NAMESPACE),
    );
    let all = stream::iter(0..services).map(|service| {
        let (of_services, of_slices, params) = (&of_services, &of_slices, &params);
        async move {
            let object = serde_json::from_value(service_object(service))?;
            of_services.create(params, &object).await?;
            let object = serde_json::from_value(slice_object(service))?;
            of_slices.create(params, &object).await?;
            anyhow::Ok(())
        }
    });
    all.buffer_unordered(SIDE_BY_SIDE)
        .try_for_each(async |()| Ok(()))
        .await
}

fn service_object(service: u32) -> Value {
    let address = if is_headless(service) {
        "None".to_owned()
    } else {
        service_address(service).to_string()
    };
    json!({
        "metadata": { "name": name(service) },
        "spec": { "clusterIP": address, "ports": [{ "name": "http", "port": 80 }] },
    })
}

fn slice_object(service: u32) -> Value {
    let endpoint = |pod| {
        let mut endpoint = json!({
            "addresses": [pod_address(service, pod)],
            "conditions": { "ready": true },
        });
        if is_headless(service) {
            endpoint["hostname"] = host_name(pod).into();
        }
        endpoint
    };
    let endpoints: Vec<Value> = (0..PODS).map(endpoint).collect();
    json!({
        "metadata": { "name": format!("{}-s", name(service)), "labels": { "kubernetes.io/service-name": name(service) } },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": endpoints,
    })
}
