//! What is created and changed.

use serde_json::{Value, json};

pub(crate) fn config_map_name(n: usize) -> String {
    format!("config-{n}")
}

pub(crate) fn config_map(n: usize, version: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": config_map_name(n), "labels": {"app": "bench", "shard": (n % 16).to_string()}},
        "data": {"version": version.to_string(), "content": "0123456789abcdef".repeat(64)},
    })
}

/// A pod as a Deployment makes it: labels, an owner, probes, resources, a volume.
pub(crate) fn pod(n: usize) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8080}, "periodSeconds": 5});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("pod-{n}"),
            "labels": {"app": "bench", "pod-template-hash": "5d4f8c7b9d", "shard": (n % 16).to_string()},
            "annotations": {"example.com/checksum": "0123456789abcdef".repeat(4)},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bench-5d4f8c7b9d",
                "uid": "8d3f7a52-4a0e-4a62-9c55-0b1b9bb0b6c1", "controller": true,
            }],
        },
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "app",
                "image": "example.com/app:1.2.3",
                "ports": [{"name": "http", "containerPort": 8080}],
                "env": [
                    {"name": "LEVEL", "value": "info"},
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                "livenessProbe": probe("/livez"),
                "readinessProbe": probe("/readyz"),
                "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
            }],
            "volumes": [{"name": "config", "configMap": {"name": "config-0"}}],
        },
    })
}
