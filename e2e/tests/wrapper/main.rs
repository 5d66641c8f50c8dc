//! `edgegrid wrapper` as a process on a real API server: its rights, who may read, and what a
//! crowd of clients costs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod credentials;
mod gone;
mod history;
mod informer;
mod proxies;
mod rights;
mod tls;
mod watchers;

use edgegrid_testkit::Cluster;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

/// Nodes a-0 in unit a and b-0 in unit b, and a service that is closed by unit.
async fn two_units(cluster: &Cluster) {
    for (name, unit) in [("a-0", "a"), ("b-0", "b")] {
        let node = json!({ "metadata": { "name": name, "labels": { "unit": unit } } });
        cluster.apply::<Node>(object::<Node>(&node)).await.unwrap();
    }
    let service = json!({
        "metadata": {
            "name": "web", "namespace": "default",
            "annotations": { "topologyKeys": "[\"unit\"]" },
        },
        "spec": { "ports": [{ "port": 80 }] },
    });
    let service = object::<Service>(&service);
    cluster.apply::<Service>(service).await.unwrap();
}

/// A slice of the service with an endpoint in each unit.
fn slice(name: &str, number: usize) -> EndpointSlice {
    let endpoint = |unit: &str, net: usize| {
        let address = format!("10.{net}.{}.{}", number / 250, number % 250 + 1);
        json!({ "addresses": [address], "nodeName": format!("{unit}-0") })
    };
    object(&json!({
        "metadata": {
            "name": name, "namespace": "default",
            "labels": { "kubernetes.io/service-name": "web" },
        },
        "addressType": "IPv4",
        "endpoints": [endpoint("a", 1), endpoint("b", 2)],
        "ports": [{ "port": 80 }],
    }))
}

fn object<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}
