//! Questions put to a wrapper, and a small cloud to ask about.

use crate::cloud::{Cloud, node, service, slice};
use crate::{Running, eventually};
use edgegrid_wrapper::ServedKind;
use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

pub(crate) const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
pub(crate) const STRICT: &str = "[\"unit\"]";

/// Nodes a-0 and a-1 in unit a, b-0 in unit b, and a service with a slice over all of them.
pub(crate) fn two_units() -> Cloud {
    let cloud = Cloud::default();
    for (name, unit) in [("a-0", "a"), ("a-1", "a"), ("b-0", "b")] {
        cloud.put(
            ServedKind::Nodes,
            &node(name, &[("unit", unit), ("kubernetes.io/hostname", name)]),
        );
    }
    cloud.put(
        ServedKind::Namespaces,
        &json!({ "metadata": { "name": "default" } }),
    );
    cloud.put(ServedKind::Services, &service("web", Some(STRICT)));
    cloud.put(
        ServedKind::Slices,
        &slice("web-x", "web", &["a-0", "a-1", "b-0"]),
    );
    cloud
}

pub(crate) async fn ask(
    client: &kube::Client,
    request: http::request::Builder,
    body: &str,
) -> (StatusCode, Value) {
    let request = request.body(Body::from(body.as_bytes().to_vec())).unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    let value = serde_json::from_slice(&bytes);
    (
        code,
        value.unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into()),
    )
}

pub(crate) async fn get(client: &kube::Client, path: &str) -> (StatusCode, Value) {
    ask(client, Request::get(path), "").await
}

/// Names of the nodes in the slices or Endpoints of an answer.
pub(crate) fn nodes(answer: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(answer, &mut found);
    found.sort();
    found
}

fn walk(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(node) if name == "nodeName" => found.push(node.to_owned()),
                    _ => walk(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
        _ => {}
    }
}

pub(crate) async fn ready(running: &Running) -> kube::Client {
    let client = running.client();
    eventually("the view is complete", async || {
        match get(&client, "/readyz").await {
            (StatusCode::OK, _) => Ok(()),
            (_, why) => Err(why.to_string()),
        }
    })
    .await;
    client
}

pub(crate) async fn sees(client: &kube::Client, path: &str, wanted: &[&str]) {
    eventually("the view is as it should be", async || {
        let (_, answer) = get(client, path).await;
        if nodes(&answer) == wanted {
            Ok(())
        } else {
            Err(format!("{answer:#}"))
        }
    })
    .await;
}

pub(crate) async fn view_of(cloud: &Cloud) -> (Running, kube::Client) {
    let running = Running::start("a-0", cloud.client(), None);
    let client = ready(&running).await;
    (running, client)
}
