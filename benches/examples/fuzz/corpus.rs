//! Input that is valid, for others to make it odd.

use serde_json::{Value, json};

/// Words that mean something to a parser: fields, directives, keywords, rules, and what breaks them.
pub(crate) const WORDS: &[&str] = &[
    "",
    "a",
    "b",
    "x",
    "-",
    "/",
    "~0",
    "~1",
    "~",
    "..",
    "%2F",
    "%ff",
    "default",
    "kube-system",
    "metadata",
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "deletionTimestamp",
    "creationTimestamp",
    "spec",
    "status",
    "data",
    "kind",
    "apiVersion",
    "v1",
    "apps/v1",
    "containers",
    "initContainers",
    "volumes",
    "ports",
    "containerPort",
    "protocol",
    "env",
    "value",
    "valueFrom",
    "image",
    "resources",
    "limits",
    "requests",
    "cpu",
    "100m",
    "1e3",
    "64Mi",
    "replicas",
    "selector",
    "matchLabels",
    "template",
    "conditions",
    "type",
    "$patch",
    "delete",
    "replace",
    "merge",
    "$retainKeys",
    "$setElementOrder/containers",
    "$setElementOrder/ports",
    "$deleteFromPrimitiveList/finalizers",
    "op",
    "path",
    "from",
    "add",
    "remove",
    "test",
    "copy",
    "move",
    "f:spec",
    "k:{\"name\":\"app\"}",
    "v:\"x\"",
    "i:0",
    ".",
    "f:",
    "k:{",
    "properties",
    "items",
    "object",
    "string",
    "integer",
    "number",
    "boolean",
    "array",
    "format",
    "date-time",
    "int32",
    "byte",
    "pattern",
    "^a+$",
    "(a+)+$",
    "[",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "enum",
    "required",
    "nullable",
    "default",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "map",
    "set",
    "atomic",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "rule",
    "message",
    "messageExpression",
    "optionalOldSelf",
    "self",
    "oldSelf",
    "self.all(x, x != '')",
    "self.size() < 10",
    "self.exists(x, self.exists(y, x == y))",
    "quantity('1Gi')",
    " in ",
    " notin ",
    "!",
    "==",
    "!=",
    "=",
    ",",
    "(",
    ")",
    "&&",
    "||",
    "9223372036854775807",
    "-1",
    "0",
    "1e400",
    "true",
    "null",
    "2026-01-01T00:00:00Z",
    "None",
    "ClusterIP",
    "10.96.0.10",
    "clusterIP",
    "continue",
    "limit",
    "watch",
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "status.phase",
    "\u{0}",
    "é",
    "\u{1F600}",
];

/// Objects of built-in kinds, the path of their collection first.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn objects() -> Vec<(&'static str, Value)> {
    let template = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [container("app"), container("side")], "volumes": [{"name": "v", "emptyDir": {}}]},
    });
    let object = |api_version: &str, kind: &str, rest: Value| {
        let mut object = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": "a", "labels": {"app": "a"}, "annotations": {"x": "y"}, "finalizers": ["x/y"]},
        });
        for (key, value) in rest.as_object().cloned().unwrap_or_default() {
            object[key] = value;
        }
        object
    };
    vec![
        (
            "/api/v1/namespaces/default/pods",
            object("v1", "Pod", json!({"spec": template["spec"]})),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            object(
                "apps/v1",
                "Deployment",
                json!({"spec": {
                    "replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template,
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
                }}),
            ),
        ),
        (
            "/api/v1/namespaces/default/services",
            object(
                "v1",
                "Service",
                json!({"spec": {
                    "selector": {"app": "a"}, "clusterIP": "10.96.0.9",
                    "ports": [{"name": "http", "port": 80, "targetPort": "http"}, {"name": "u", "port": 53, "protocol": "UDP"}],
                }}),
            ),
        ),
        (
            "/api/v1/namespaces/default/configmaps",
            object(
                "v1",
                "ConfigMap",
                json!({"data": {"a": "b"}, "binaryData": {"c": "AAAA"}}),
            ),
        ),
        (
            "/api/v1/nodes",
            object(
                "v1",
                "Node",
                json!({
                    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
                    "status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "conditions": [{"type": "Ready", "status": "True"}]},
                }),
            ),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            object(
                "coordination.k8s.io/v1",
                "Lease",
                json!({"spec": {
                    "holderIdentity": "a", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z",
                }}),
            ),
        ),
        ("/api/v1/namespaces", object("v1", "Namespace", json!({}))),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition(),
        ),
        (
            "/apis/example.com/v1/namespaces/default/things",
            object("example.com/v1", "Thing", json!({"spec": thing()})),
        ),
    ]
}

fn container(name: &str) -> Value {
    json!({
        "name": name, "image": "example.com/app:1", "args": ["--a", "--b"],
        "ports": [{"name": "http", "containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}},
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    })
}

/// A definition whose schema has something of everything.
pub(crate) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count",
                }},
                "selectableFields": [{"jsonPath": ".spec.mode"}],
                "schema": {"openAPIV3Schema": schema()},
            }],
        },
    })
}

/// A schema with something of everything, rules included.
pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "x-kubernetes-validations": [
                    {"rule": "self.count <= self.most", "messageExpression": "'at most ' + string(self.most)"},
                    {"rule": "!has(oldSelf.mode) || oldSelf.mode == self.mode", "reason": "FieldValueForbidden"},
                    {"rule": "oldSelf.hasValue() || self.count > 0", "optionalOldSelf": true},
                ],
                "properties": {
                    "count": {"type": "integer", "minimum": 0, "maximum": 100, "default": 1},
                    "most": {"type": "integer", "format": "int32", "default": 50},
                    "mode": {"type": "string", "enum": ["a", "b"], "default": "a", "pattern": "^[a-z]+$"},
                    "when": {"type": "string", "format": "date-time", "nullable": true},
                    "size": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "tags": {
                        "type": "array", "x-kubernetes-list-type": "set", "maxItems": 10,
                        "items": {"type": "string", "maxLength": 20},
                    },
                    "ports": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "maxItems": 8,
                        "items": {
                            "type": "object", "required": ["name"],
                            "properties": {
                                "name": {"type": "string", "maxLength": 10},
                                "port": {"type": "number", "multipleOf": 0.5, "exclusiveMinimum": true, "minimum": 0},
                            },
                            "x-kubernetes-validations": [{"rule": "self.port > 0.5", "fieldPath": ".port"}],
                        },
                    },
                    "more": {
                        "type": "object", "maxProperties": 5,
                        "additionalProperties": {"type": "array", "items": {"type": "boolean"}},
                    },
                    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "template": {
                        "type": "object", "x-kubernetes-embedded-resource": true,
                        "x-kubernetes-preserve-unknown-fields": true,
                    },
                },
                "not": {"required": ["forbidden"]},
                "oneOf": [{"required": ["count"]}, {"required": ["tags"], "not": {"required": ["count"]}}],
            },
            "status": {"type": "object", "properties": {"count": {"type": "integer"}}},
        },
    })
}

/// What fits the schema.
pub(crate) fn thing() -> Value {
    json!({
        "count": 3, "most": 9, "mode": "a", "when": "2026-01-01T00:00:00Z", "size": "10%",
        "tags": ["x", "y"], "ports": [{"name": "a", "port": 1.5}, {"name": "b", "port": 2}],
        "more": {"k": [true, false]}, "raw": {"any": [1, {"thing": null}]},
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}},
    })
}

pub(crate) fn json_patches() -> Vec<Value> {
    vec![
        json!([
            {"op": "test", "path": "/metadata/name", "value": "a"},
            {"op": "add", "path": "/metadata/labels/x~1y", "value": "z"},
        ]),
        json!([
            {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations/x"},
            {"op": "move", "from": "/metadata/labels", "path": "/metadata/annotations"},
        ]),
        json!([{"op": "replace", "path": "/kind", "value": {"x": []}}]),
        json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "z/z"}, {"op": "remove", "path": "/metadata/finalizers/0"}]),
        json!([{"op": "copy", "from": "/spec", "path": "/spec/template"}, {"op": "copy", "from": "/spec", "path": "/spec/x"}]),
        json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "b"}, {"op": "remove", "path": "/spec/containers/1"}]),
        json!([{"op": "add", "path": "", "value": {"metadata": {"name": "a"}}}]),
    ]
}

/// Merge and strategic merge patches.
pub(crate) fn patches() -> Vec<Value> {
    vec![
        json!({"metadata": {"labels": {"app": null, "new": "x"}}, "spec": {"replicas": 3}, "data": {"a": null}}),
        json!({"spec": {
            "$setElementOrder/containers": [{"name": "side"}, {"name": "app"}],
            "containers": [
                {"name": "app", "image": "b", "$setElementOrder/ports": [{"containerPort": 53}, {"containerPort": 80}],
                    "ports": [{"containerPort": 80, "$patch": "delete"}]},
                {"name": "side", "$patch": "delete"},
            ],
        }}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/y"], "finalizers": ["z/z"]}}),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}, "template": {"$patch": "replace"}}}),
        json!({"spec": {"ports": [{"$patch": "replace"}, {"port": 1}], "selector": {"$patch": "delete"}}}),
    ]
}

/// Label selectors and field selectors.
pub(crate) const SELECTORS: &[&str] = &[
    "a=b,c!=d,e in (f,g),h notin (i),j,!k",
    "app.kubernetes.io/name==web",
    "x>5,y<3",
    "a in (,b)",
    "metadata.name=a,metadata.namespace!=b",
    "spec.nodeName==n\\,1,status.phase!=Running",
    "involvedObject.kind=Pod",
];

pub(crate) const QUERIES: &[&str] = &[
    "",
    "limit=2&continue=abc",
    "watch=true&timeoutSeconds=1&allowWatchBookmarks=true",
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "resourceVersion=0&resourceVersionMatch=Exact",
    "labelSelector=app%20in%20(a,b)&fieldSelector=metadata.name%3Da",
    "fieldManager=fuzz&force=true",
    "fieldManager=other&dryRun=All",
    "fieldValidation=Strict",
    "propagationPolicy=Foreground&gracePeriodSeconds=0",
    "pretty=true",
];
