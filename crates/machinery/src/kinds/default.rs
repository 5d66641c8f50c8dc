//! Defaults, as a table of types; the few that depend on other fields are code.

use super::{
    apps_default, batch, claim, config, definition, node, pod_default, service_prepare, walk,
};
use crate::table::{Shape, is_zero};
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

/// What a field becomes when it was left open.
#[derive(Debug)]
enum DefaultValue {
    Text(&'static str),
    Number(i64),
    No,
    Empty,
}

/// The defaults of one type: fields, then code for the rest.
struct Rules {
    fields: &'static [(&'static str, DefaultValue)],
    code: Option<fn(&mut Map<String, Value>)>,
}

/// Completes an object and everything in it, parents before children.
pub(super) fn apply(object: &mut Value, shape: Shape<'_>) {
    static INDEX: OnceLock<walk::Index<Rules>> = OnceLock::new();
    let index = INDEX.get_or_init(|| walk::Index::new(RULES));
    walk::change(object, shape, &mut |map, shape| {
        declared(map, shape);
        let Some(rules) = index.get(shape) else {
            return;
        };
        for (name, default) in rules.fields {
            if is_open(map, shape, name) {
                map.insert((*name).to_owned(), default.value());
            }
        }
        if let Some(code) = rules.code {
            code(map);
        }
    });
}

/// Sets a field that was left open.
pub(super) fn fill(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if map
        .get(name)
        .is_none_or(|value| value.is_null() || value == "")
    {
        map.insert(name.to_owned(), value.into());
    }
}

/// Sets a field that is not there; an empty text is.
pub(super) fn complete(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if map.get(name).is_none_or(Value::is_null) {
        map.insert(name.to_owned(), value.into());
    }
}

/// A member as a map, created if it is none.
pub(super) fn inner<'a>(map: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = json!({});
    }
    value
        .as_object_mut()
        .expect("invariant: made an object just above")
}

/// Defaults that the table itself declares: a zero is none, because it is what absence means.
fn declared(map: &mut Map<String, Value>, shape: Shape<'_>) {
    for (name, field) in shape.fields() {
        if let Some(default) = field
            .default
            .as_ref()
            .filter(|default| field.pointer || !is_zero(default))
            && is_open(map, shape, name)
        {
            map.insert(name.to_owned(), default.clone());
        }
    }
}

/// Whether nothing was said: pointers can say zero, other fields cannot.
fn is_open(map: &Map<String, Value>, shape: Shape<'_>, name: &str) -> bool {
    let pointer = shape.field(name).is_some_and(|field| field.pointer);
    map.get(name)
        .is_none_or(|value| value.is_null() || (!pointer && is_zero(value)))
}

impl DefaultValue {
    fn value(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(*text),
            Self::Number(number) => Value::from(*number),
            Self::No => Value::Bool(false),
            Self::Empty => json!({}),
        }
    }
}

const fn fields(fields: &'static [(&'static str, DefaultValue)]) -> Rules {
    Rules { fields, code: None }
}

const fn code(code: fn(&mut Map<String, Value>)) -> Rules {
    Rules {
        fields: &[],
        code: Some(code),
    }
}

const fn both(
    fields: &'static [(&'static str, DefaultValue)],
    code: fn(&mut Map<String, Value>),
) -> Rules {
    Rules {
        fields,
        code: Some(code),
    }
}

/// Files that come from objects can be read by all.
const READABLE: &[(&str, DefaultValue)] = &[("defaultMode", DefaultValue::Number(0o644))];
const CONTAINER: &[(&str, DefaultValue)] = &[
    (
        "terminationMessagePath",
        DefaultValue::Text("/dev/termination-log"),
    ),
    ("terminationMessagePolicy", DefaultValue::Text("File")),
];

static RULES: &[(&str, Rules)] = &[
    ("api.core.v1.Pod", code(pod_default::pod)),
    (
        "api.core.v1.PodSpec",
        both(
            &[
                ("dnsPolicy", DefaultValue::Text("ClusterFirst")),
                ("restartPolicy", DefaultValue::Text("Always")),
                ("schedulerName", DefaultValue::Text("default-scheduler")),
                ("securityContext", DefaultValue::Empty),
                ("terminationGracePeriodSeconds", DefaultValue::Number(30)),
            ],
            pod_default::spec,
        ),
    ),
    ("api.core.v1.PodStatus", code(pod_default::status)),
    (
        "api.core.v1.Container",
        both(CONTAINER, pod_default::container),
    ),
    (
        "api.core.v1.EphemeralContainer",
        both(CONTAINER, pod_default::container),
    ),
    (
        "api.core.v1.Probe",
        fields(&[
            ("timeoutSeconds", DefaultValue::Number(1)),
            ("periodSeconds", DefaultValue::Number(10)),
            ("successThreshold", DefaultValue::Number(1)),
            ("failureThreshold", DefaultValue::Number(3)),
        ]),
    ),
    (
        "api.core.v1.HTTPGetAction",
        fields(&[
            ("path", DefaultValue::Text("/")),
            ("scheme", DefaultValue::Text("HTTP")),
        ]),
    ),
    ("api.core.v1.Volume", code(pod_default::volume)),
    ("api.core.v1.SecretVolumeSource", fields(READABLE)),
    ("api.core.v1.ConfigMapVolumeSource", fields(READABLE)),
    ("api.core.v1.DownwardAPIVolumeSource", fields(READABLE)),
    ("api.core.v1.ProjectedVolumeSource", fields(READABLE)),
    (
        "api.core.v1.ServiceAccountTokenProjection",
        fields(&[("expirationSeconds", DefaultValue::Number(3600))]),
    ),
    (
        "api.core.v1.HostPathVolumeSource",
        fields(&[("type", DefaultValue::Text(""))]),
    ),
    (
        "api.core.v1.ObjectFieldSelector",
        fields(&[("apiVersion", DefaultValue::Text("v1"))]),
    ),
    (
        "api.core.v1.ResourceFieldSelector",
        fields(&[("divisor", DefaultValue::Text("0"))]),
    ),
    ("api.core.v1.Secret", code(config::default_secret)),
    ("api.core.v1.Service", code(service_prepare::default)),
    (
        "api.core.v1.EndpointPort",
        fields(&[("protocol", DefaultValue::Text("TCP"))]),
    ),
    (
        "api.discovery.v1.EndpointPort",
        fields(&[
            ("name", DefaultValue::Text("")),
            ("protocol", DefaultValue::Text("TCP")),
        ]),
    ),
    ("api.core.v1.Namespace", code(config::default_namespace)),
    (
        "api.core.v1.NamespaceStatus",
        fields(&[("phase", DefaultValue::Text("Active"))]),
    ),
    ("api.core.v1.NodeSpec", code(node::default_spec)),
    ("api.core.v1.NodeStatus", code(node::default_status)),
    ("api.core.v1.PersistentVolumeClaim", code(claim::default)),
    (
        "api.core.v1.PersistentVolumeClaimSpec",
        fields(&[("volumeMode", DefaultValue::Text("Filesystem"))]),
    ),
    (
        "api.core.v1.PersistentVolumeSpec",
        fields(&[
            (
                "persistentVolumeReclaimPolicy",
                DefaultValue::Text("Retain"),
            ),
            ("volumeMode", DefaultValue::Text("Filesystem")),
        ]),
    ),
    (
        "api.core.v1.PersistentVolumeStatus",
        fields(&[("phase", DefaultValue::Text("Pending"))]),
    ),
    (
        "api.core.v1.ReplicationController",
        code(apps_default::default_replication_controller),
    ),
    (
        "api.apps.v1.DeploymentSpec",
        both(
            &[
                ("replicas", DefaultValue::Number(1)),
                ("revisionHistoryLimit", DefaultValue::Number(10)),
                ("progressDeadlineSeconds", DefaultValue::Number(600)),
            ],
            apps_default::default_deployment,
        ),
    ),
    (
        "api.apps.v1.ReplicaSetSpec",
        fields(&[("replicas", DefaultValue::Number(1))]),
    ),
    (
        "api.apps.v1.StatefulSetSpec",
        both(
            &[
                ("podManagementPolicy", DefaultValue::Text("OrderedReady")),
                ("replicas", DefaultValue::Number(1)),
                ("revisionHistoryLimit", DefaultValue::Number(10)),
                ("persistentVolumeClaimRetentionPolicy", DefaultValue::Empty),
            ],
            apps_default::default_stateful_set,
        ),
    ),
    (
        "api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
        fields(&[
            ("whenDeleted", DefaultValue::Text("Retain")),
            ("whenScaled", DefaultValue::Text("Retain")),
        ]),
    ),
    (
        "api.apps.v1.DaemonSetSpec",
        both(
            &[("revisionHistoryLimit", DefaultValue::Number(10))],
            apps_default::default_daemon_set,
        ),
    ),
    ("api.batch.v1.Job", code(batch::default)),
    (
        "api.batch.v1.PodFailurePolicyOnPodConditionsPattern",
        fields(&[("status", DefaultValue::Text("True"))]),
    ),
    (
        "api.batch.v1.CronJobSpec",
        fields(&[
            ("concurrencyPolicy", DefaultValue::Text("Allow")),
            ("suspend", DefaultValue::No),
            ("successfulJobsHistoryLimit", DefaultValue::Number(3)),
            ("failedJobsHistoryLimit", DefaultValue::Number(1)),
        ]),
    ),
    (
        "api.storage.v1.StorageClass",
        fields(&[
            ("reclaimPolicy", DefaultValue::Text("Delete")),
            ("volumeBindingMode", DefaultValue::Text("Immediate")),
        ]),
    ),
    (
        "api.networking.v1.NetworkPolicyPort",
        fields(&[("protocol", DefaultValue::Text("TCP"))]),
    ),
    (
        "api.rbac.v1.RoleRef",
        fields(&[("apiGroup", DefaultValue::Text("rbac.authorization.k8s.io"))]),
    ),
    ("api.rbac.v1.Subject", code(config::default_subject)),
    (
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec",
        code(definition::default),
    ),
];
