//! What the tests of grids have in common: objects as JSON, a way to look, and time that passes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_api::names::label;
use edgegrid_testkit::{Cluster, eventually, node};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// Where everything happens.
pub(crate) const NAMESPACE: &str = "default";

/// A kind by its group, version and name.
#[derive(Clone, Copy)]
pub(crate) struct Gvk(
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) bool,
);

pub(crate) const DEPLOYMENT: Gvk = Gvk("apps", "v1", "Deployment", true);
pub(crate) const STATEFUL_SET: Gvk = Gvk("apps", "v1", "StatefulSet", true);
pub(crate) const SERVICE: Gvk = Gvk("", "v1", "Service", true);
pub(crate) const NODE: Gvk = Gvk("", "v1", "Node", false);
pub(crate) const EVENT: Gvk = Gvk("events.k8s.io", "v1", "Event", true);
pub(crate) const DEPLOYMENT_GRID: Gvk = Gvk("superedge.io", "v1", "DeploymentGrid", true);
pub(crate) const STATEFUL_SET_GRID: Gvk = Gvk("superedge.io", "v1", "StatefulSetGrid", true);
pub(crate) const SERVICE_GRID: Gvk = Gvk("superedge.io", "v1", "ServiceGrid", true);

/// A cluster as the tests see it.
pub(crate) struct Stage<'a>(pub(crate) &'a Cluster);

impl Stage<'_> {
    pub(crate) fn api(&self, kind: Gvk) -> Api<DynamicObject> {
        let Gvk(group, version, name, is_namespaced) = kind;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, name));
        if is_namespaced {
            Api::namespaced_with(self.0.client(), NAMESPACE, &resource)
        } else {
            Api::all_with(self.0.client(), &resource)
        }
    }

    /// An object as stored, if it is there.
    pub(crate) async fn find(&self, kind: Gvk, name: &str) -> Result<Option<Value>> {
        let found = self.api(kind).get_opt(name).await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    /// An object as stored.
    pub(crate) async fn read(&self, kind: Gvk, name: &str) -> Result<Value> {
        let found = self.find(kind, name).await?;
        found.with_context(|| format!("{} {name} is not there", kind.2))
    }

    /// The names of all objects of a kind.
    pub(crate) async fn names(&self, kind: Gvk) -> Result<Vec<String>> {
        let list = self.api(kind).list(&ListParams::default()).await?;
        Ok(list
            .items
            .into_iter()
            .filter_map(|item| item.metadata.name)
            .collect())
    }

    /// Creates an object as kubectl create does.
    pub(crate) async fn create(&self, kind: Gvk, name: &str, rest: &Value) -> Result<Value> {
        let Gvk(group, version, kind_name, _) = kind;
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        let mut object = rest.clone();
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind_name);
        object["metadata"]["name"] = json!(name);
        let object: DynamicObject = serde_json::from_value(object)?;
        let params = PostParams {
            field_manager: Some("kubectl-create".into()),
            ..PostParams::default()
        };
        Ok(serde_json::to_value(
            self.api(kind).create(&params, &object).await?,
        )?)
    }

    /// A merge patch by kubectl.
    pub(crate) async fn edit(&self, kind: Gvk, name: &str, change: &Value) -> Result<Value> {
        self.edit_as("kubectl-edit", kind, name, change).await
    }

    /// A merge patch by anybody.
    pub(crate) async fn edit_as(
        &self,
        manager: &str,
        kind: Gvk,
        name: &str,
        change: &Value,
    ) -> Result<Value> {
        let params = PatchParams {
            field_manager: Some(manager.into()),
            ..PatchParams::default()
        };
        let stored = self
            .api(kind)
            .patch(name, &params, &Patch::Merge(change))
            .await?;
        Ok(serde_json::to_value(stored)?)
    }

    /// Sets a child's status, as its controller would.
    pub(crate) async fn set_status(&self, kind: Gvk, name: &str, status: &Value) -> Result<()> {
        let params = PatchParams {
            field_manager: Some("kube-controller-manager".into()),
            ..PatchParams::default()
        };
        let change = json!({ "status": status });
        self.api(kind)
            .patch_status(name, &params, &Patch::Merge(&change))
            .await?;
        Ok(())
    }

    /// Makes a workload report that all it wants runs and is Available.
    pub(crate) async fn make_available(&self, kind: Gvk, name: &str) -> Result<()> {
        let child = self.read(kind, name).await?;
        let replicas = child["spec"]["replicas"].as_i64().unwrap_or(1);
        let mut status = json!({
            "observedGeneration": child["metadata"]["generation"],
            "replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas,
        });
        if kind.2 == DEPLOYMENT.2 {
            let now = self.0.now().to_string();
            status["conditions"] = json!([
                { "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "", "lastTransitionTime": now, "lastUpdateTime": now },
            ]);
        }
        self.set_status(kind, name, &status).await
    }

    pub(crate) async fn delete(&self, kind: Gvk, name: &str) -> Result<()> {
        self.api(kind)
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Adds nodes, each given as `name label=value label=value`.
    pub(crate) async fn add_nodes(&self, nodes: &[&str]) -> Result<()> {
        let nodes = nodes.iter().map(|text| {
            let mut words = text.split(' ');
            let name = words.next().unwrap_or_default();
            words
                .filter_map(|word| word.split_once('='))
                .fold(node(name), |node, (key, value)| node.label(key, value))
        });
        self.0.add_nodes(nodes).await
    }

    /// Labels a node as kubectl does; `None` takes the label off.
    pub(crate) async fn label_node(
        &self,
        node: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<()> {
        let change = json!({ "metadata": { "labels": { key: value } } });
        self.edit(NODE, node, &change).await.map(drop)
    }

    /// Waits until exactly these children of a grid are there.
    pub(crate) async fn children(&self, kind: Gvk, wanted: &[&str]) -> Result<()> {
        let what = format!("every {} is one of {wanted:?}", kind.2);
        eventually(&what, async || {
            let mut names = self.names(kind).await?;
            names.sort();
            let mut wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            wanted.sort();
            ensure!(names == wanted, "{names:?}");
            Ok(())
        })
        .await
    }

    /// Waits until an object satisfies `check`, which says what it looks at.
    pub(crate) async fn until<T: PartialEq + std::fmt::Debug>(
        &self,
        (kind, name): (Gvk, &str),
        wanted: T,
        look: impl Fn(&Value) -> T,
    ) -> Result<Value> {
        eventually(&format!("{} {name} shows {wanted:?}", kind.2), async || {
            let object = self.read(kind, name).await?;
            let seen = look(&object);
            ensure!(seen == wanted, "{seen:?} in {object:#}");
            Ok(object)
        })
        .await
    }

    /// Waits until a condition of a grid has a status.
    pub(crate) async fn condition(
        &self,
        kind: Gvk,
        name: &str,
        type_: &str,
        status: &str,
    ) -> Result<Value> {
        let object = self
            .until((kind, name), Some(status.to_owned()), |grid| {
                condition_of(grid, type_)
                    .and_then(|found| found["status"].as_str().map(str::to_owned))
            })
            .await?;
        condition_of(&object, type_).context("the condition is gone")
    }

    /// Notes of the events about an object with this reason.
    pub(crate) async fn events(&self, about: &str, reason: &str) -> Result<Vec<String>> {
        let list = self.api(EVENT).list(&ListParams::default()).await?;
        Ok(list
            .items
            .into_iter()
            .filter(|event| {
                event.data["regarding"]["name"] == about && event.data["reason"] == reason
            })
            .map(|event| event.data["note"].as_str().unwrap_or_default().to_owned())
            .collect())
    }
}

/// A condition in an object's status.
pub(crate) fn condition_of(object: &Value, type_: &str) -> Option<Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == type_)
        .cloned()
}

/// Lets virtual time pass, with everything that happens in it.
pub(crate) async fn pass_time(time: Duration) {
    tokio::time::sleep(time).await;
}

/// A moment in which every controller that has something to do does it.
pub(crate) async fn a_while() {
    pass_time(Duration::from_secs(5)).await;
}

/// The spec of a Deployment with one container.
pub(crate) fn deployment_spec(image: &str, replicas: Option<i64>) -> Value {
    let mut spec = json!({
        "selector": { "matchLabels": { "appGrid": "echo" } },
        "template": {
            "metadata": { "creationTimestamp": null, "labels": { "appGrid": "echo" } },
            "spec": { "containers": [{
                "name": "echo",
                "image": image,
                "ports": [{ "containerPort": 8080, "protocol": "TCP" }],
                "env": [{ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
                "resources": {},
            }] },
        },
    });
    if let Some(replicas) = replicas {
        spec["replicas"] = json!(replicas);
    }
    spec
}

/// The spec of a StatefulSet with one container.
pub(crate) fn stateful_set_spec(image: &str, replicas: Option<i64>) -> Value {
    let mut spec = deployment_spec(image, replicas);
    spec["serviceName"] = json!("servicegrid-demo-svc");
    spec
}

/// A grid's spec with one template.
pub(crate) fn grid(key: &str, template: &Value) -> Value {
    json!({ "spec": { "gridUniqKey": key, "template": template } })
}

/// The image that a workload runs.
pub(crate) fn image(workload: &Value) -> String {
    let image = workload.pointer("/spec/template/spec/containers/0/image");
    image.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A pod template without what no pod sees.
pub(crate) fn pod_template(workload: &Value) -> Value {
    workload["spec"]["template"].clone()
}

/// An object without what every write changes.
pub(crate) fn label_of(object: &Value, key: &str) -> Option<String> {
    object["metadata"]["labels"][key]
        .as_str()
        .map(str::to_owned)
}

/// Whether an object carries our two labels for a grid.
pub(crate) fn is_labelled(object: &Value, grid: &str, key: &str) -> bool {
    label_of(object, label::GRID_SELECTOR).as_deref() == Some(grid)
        && label_of(object, label::GRID_UNIQ_KEY).as_deref() == Some(key)
}
