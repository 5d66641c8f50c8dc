//! A picture of a namespace without what differs from run to run.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use crate::scenario::SET;

/// What there is, and the order in which it came to be.
#[derive(Debug, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) objects: BTreeMap<String, Value>,
    pub(crate) order: Vec<String>,
}

/// Reads the set and all that belongs to it.
pub(crate) async fn snapshot(
    client: &Client,
    namespace: &str,
    order: Vec<String>,
) -> Result<Snapshot> {
    let mut objects = BTreeMap::new();
    let set = get::<StatefulSet>(client, namespace).await?;
    let set = set
        .into_iter()
        .find(|set| set["metadata"]["name"] == SET)
        .context("the set")?;
    objects.insert("status".to_owned(), set["status"].clone());
    for pod in get::<Pod>(client, namespace).await? {
        objects.insert(format!("pod {}", name(&pod)), normal_pod(pod));
    }
    for claim in get::<PersistentVolumeClaim>(client, namespace).await? {
        let shown = json!({ "metadata": normal_metadata(&claim), "spec": claim["spec"] });
        objects.insert(format!("claim {}", name(&claim)), shown);
    }
    for revision in get::<ControllerRevision>(client, namespace).await? {
        let shown = json!({ "metadata": normal_metadata(&revision), "data": revision["data"], "revision": revision["revision"] });
        objects.insert(format!("revision {}", name(&revision)), shown);
    }
    Ok(Snapshot { objects, order })
}

impl Snapshot {
    /// What differs, in words; the order only where the rules fix it.
    pub(crate) fn differences(&self, other: &Self, is_ordered: bool) -> Vec<String> {
        let names: BTreeSet<&String> = self.objects.keys().chain(other.objects.keys()).collect();
        let mut found = Vec::new();
        for name in names {
            let (theirs, ours) = (self.objects.get(name), other.objects.get(name));
            if theirs != ours {
                found.extend(explain(
                    name,
                    theirs.unwrap_or(&Value::Null),
                    ours.unwrap_or(&Value::Null),
                ));
            }
        }
        let order = |snapshot: &Self, mark: char| {
            let mut order: Vec<String> = snapshot
                .order
                .iter()
                .filter(|entry| entry.starts_with(mark))
                .cloned()
                .collect();
            if !is_ordered {
                order.sort();
            }
            order
        };
        for mark in ['+', '-'] {
            let (theirs, ours) = (order(self, mark), order(other, mark));
            if theirs != ours {
                found.push(format!("order: theirs {theirs:?}, ours {ours:?}"));
            }
        }
        found
    }
}

/// The places at which two values differ.
fn explain(path: &str, theirs: &Value, ours: &Value) -> Vec<String> {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let at = |map: &serde_json::Map<String, Value>, key: &String| {
                map.get(key).cloned().unwrap_or(Value::Null)
            };
            keys.into_iter()
                .flat_map(|key| explain(&format!("{path} .{key}"), &at(a, key), &at(b, key)))
                .collect()
        }
        (a, b) if a == b => Vec::new(),
        (a, b) => vec![format!("{path}: theirs {a}, ours {b}")],
    }
}

async fn get<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
) -> Result<Vec<Value>> {
    let kind = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let list = api.list(&ListParams::default()).await?;
    let values: Result<Vec<Value>, _> = list.items.iter().map(serde_json::to_value).collect();
    Ok(values?)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn normal_metadata(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let owners = metadata["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let owner = |owner: Value| {
        json!([
            owner["kind"],
            owner["name"],
            owner["controller"],
            owner["blockOwnerDeletion"]
        ])
    };
    json!({
        "labels": metadata["labels"],
        "annotations": metadata["annotations"],
        "finalizers": metadata["finalizers"],
        "generateName": metadata["generateName"],
        "owners": owners.into_iter().map(owner).collect::<Vec<_>>(),
        "isLeaving": !metadata["deletionTimestamp"].is_null(),
    })
}

/// Without the volume of the service account, whose name is random, and without addresses and times.
fn normal_pod(mut pod: Value) -> Value {
    let is_token = |volume: &Value| {
        volume["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("kube-api-access-"))
    };
    if let Some(volumes) = pod["spec"]["volumes"].as_array_mut() {
        volumes.retain(|volume| !is_token(volume));
        // Kubernetes takes them from a map, in any order.
        volumes.sort_by_key(|volume| volume["name"].to_string());
    }
    for container in pod["spec"]["containers"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        if let Some(mounts) = container["volumeMounts"].as_array_mut() {
            mounts.retain(|mount| !is_token(mount));
        }
    }
    let conditions = pod["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let ready = conditions
        .into_iter()
        .find(|condition| condition["type"] == "Ready");
    json!({
        "metadata": normal_metadata(&pod),
        "spec": pod["spec"],
        "phase": pod["status"]["phase"],
        "ready": ready.map(|ready| ready["status"].clone()),
    })
}
