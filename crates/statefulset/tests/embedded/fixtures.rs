//! The set that every scenario is about, and how its manifest and its times are written.

use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) const NS: &str = "default";
pub(crate) const SET: &str = "web";

/// A set of two pods, as the tutorial has it.
pub(crate) fn web(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": SET, "namespace": NS },
        "spec": {
            "serviceName": "nginx", "replicas": replicas,
            "selector": { "matchLabels": { "app": "nginx" } },
            "template": {
                "metadata": { "labels": { "app": "nginx" } },
                "spec": { "containers": [{ "name": "nginx", "image": "nginx:1.9.1" }] },
            },
        },
    })
}

/// [`web`] with a claim for each pod.
pub(crate) fn web_with_claims(replicas: i64) -> Value {
    let mut set = web(replicas);
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    set
}

/// The change of a spec that gives it another template.
pub(crate) fn image(tag: u8) -> Value {
    json!({ "template": { "spec": { "containers": [{ "name": "nginx", "image": format!("nginx:{tag}") }] } } })
}

/// A time as objects show it.
pub(crate) fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
