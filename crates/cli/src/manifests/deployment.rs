//! The controller's Deployment.

use edgegrid_api::names;
use serde_json::{Value, json};

use super::labels;

/// Port of health and metrics in the pod.
const PORT: u16 = 8080;

/// Two replicas, of which one works and one stands by with warm caches.
pub(super) fn manifest(namespace: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": names::CONTROLLER, "namespace": namespace, "labels": labels() },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": labels() },
            "template": {
                "metadata": { "labels": labels() },
                "spec": pod(namespace, image),
            },
        },
    })
}

fn pod(namespace: &str, image: &str) -> Value {
    json!({
        "serviceAccountName": names::CONTROLLER,
        "securityContext": { "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" } },
        "topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": labels() },
        }],
        "containers": [container(namespace, image)],
    })
}

fn container(namespace: &str, image: &str) -> Value {
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "admin" } });
    json!({
        "name": "controller",
        "image": image,
        "args": [
            "controller",
            format!("--lease-namespace={namespace}"),
            format!("--bind-address=0.0.0.0:{PORT}"),
            "--log-format=json",
        ],
        "ports": [{ "name": "admin", "containerPort": PORT }],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": { "requests": { "cpu": "20m", "memory": "32Mi" }, "limits": { "memory": "512Mi" } },
        "securityContext": { "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] } },
    })
}
