//! What the tests have in common: clusters that know each other, and a way to look.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use edgegrid_api::names::{MEMBER_LEASE, label, parent_secret};
use edgegrid_controllers::registration::{Connector, Registration};
use edgegrid_testkit::faults::{Fault, Faults};
use edgegrid_testkit::{Cluster, eventually, node};
use futures::FutureExt;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::harness::{self, Running, Start};

/// Group, version and kind.
pub(crate) type Gvk = (&'static str, &'static str, &'static str);

pub(crate) const DEPLOYMENT_GRID: Gvk = ("superedge.io", "v1", "DeploymentGrid");
pub(crate) const STATEFUL_SET_GRID: Gvk = ("superedge.io", "v1", "StatefulSetGrid");
pub(crate) const SERVICE_GRID: Gvk = ("superedge.io", "v1", "ServiceGrid");
pub(crate) const GRIDS: [Gvk; 3] = [DEPLOYMENT_GRID, STATEFUL_SET_GRID, SERVICE_GRID];
pub(crate) const DEPLOYMENT: Gvk = ("apps", "v1", "Deployment");
pub(crate) const STATEFUL_SET: Gvk = ("apps", "v1", "StatefulSet");
pub(crate) const SERVICE: Gvk = ("", "v1", "Service");
pub(crate) const NAMESPACE: Gvk = ("", "v1", "Namespace");
pub(crate) const SECRET: Gvk = ("", "v1", "Secret");
pub(crate) const LEASE: Gvk = ("coordination.k8s.io", "v1", "Lease");
pub(crate) const NODE: Gvk = ("", "v1", "Node");
pub(crate) const EVENT: Gvk = ("events.k8s.io", "v1", "Event");

/// The token that a control cluster accepts at first.
pub(crate) const TOKEN: &str = "first";

/// A cluster with controllers.
pub(crate) struct Site {
    pub(crate) cluster: Cluster,
    pub(crate) running: Option<Running>,
    connector: Option<Connector>,
}

/// A member and its link to the control cluster.
pub(crate) struct Member {
    pub(crate) site: Site,
    /// Its namespace in the control cluster.
    pub(crate) namespace: String,
    /// Faults of its link to the control cluster.
    pub(crate) link: Faults,
    /// The token that the control cluster accepts from it.
    pub(crate) token: Arc<Mutex<String>>,
}

impl Site {
    async fn new(connector: Option<Connector>) -> Result<Self> {
        let cluster = harness::cluster().await?;
        let mut site = Self {
            cluster,
            running: None,
            connector,
        };
        site.start().await?;
        Ok(site)
    }

    /// A control cluster.
    pub(crate) async fn control() -> Result<Self> {
        Self::new(None).await
    }

    /// Starts the controllers; those that run are stopped as by a crash.
    pub(crate) async fn start(&mut self) -> Result<()> {
        self.running = None;
        let start = Start {
            connector: self.connector.clone(),
            ..Start::default()
        };
        self.running = Some(harness::start_with(&self.cluster, start).await?);
        Ok(())
    }

    pub(crate) fn api(&self, kind: Gvk, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.0, kind.1, kind.2));
        if namespace.is_empty() {
            Api::all_with(self.cluster.client(), &resource)
        } else {
            Api::namespaced_with(self.cluster.client(), namespace, &resource)
        }
    }

    pub(crate) async fn find(&self, kind: Gvk, at: (&str, &str)) -> Result<Option<Value>> {
        let found = self.api(kind, at.0).get_opt(at.1).await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    pub(crate) async fn read(&self, kind: Gvk, at: (&str, &str)) -> Result<Value> {
        let found = self.find(kind, at).await?;
        found.with_context(|| format!("{} {at:?} is not there", kind.2))
    }

    /// All objects of a kind in all namespaces, as `namespace/name`.
    pub(crate) async fn all(&self, kind: Gvk) -> Result<Vec<String>> {
        let list = self.api(kind, "").list(&ListParams::default()).await?;
        let name = |item: &DynamicObject| {
            format!(
                "{}/{}",
                item.namespace().unwrap_or_default(),
                item.name_any()
            )
        };
        Ok(list.items.iter().map(name).collect())
    }

    /// Creates an object as kubectl create does.
    pub(crate) async fn create(&self, kind: Gvk, at: (&str, &str), rest: &Value) -> Result<()> {
        let (group, version, name) = kind;
        let mut object = rest.clone();
        let in_group = format!("{group}/{version}");
        object["apiVersion"] = json!(in_group.trim_start_matches('/'));
        object["kind"] = json!(name);
        object["metadata"]["name"] = json!(at.1);
        let object: DynamicObject = serde_json::from_value(object)?;
        let params = PostParams {
            field_manager: Some("kubectl-create".into()),
            ..PostParams::default()
        };
        self.api(kind, at.0).create(&params, &object).await?;
        Ok(())
    }

    /// A merge patch by kubectl.
    pub(crate) async fn edit(&self, kind: Gvk, at: (&str, &str), change: &Value) -> Result<()> {
        let params = PatchParams {
            field_manager: Some("kubectl-edit".into()),
            ..PatchParams::default()
        };
        let api = self.api(kind, at.0);
        api.patch(at.1, &params, &Patch::Merge(change)).await?;
        Ok(())
    }

    pub(crate) async fn delete(&self, kind: Gvk, at: (&str, &str)) -> Result<()> {
        let api = self.api(kind, at.0);
        api.delete(at.1, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Adds nodes, each given as `name label=value`.
    pub(crate) async fn add_nodes(&self, nodes: &[&str]) -> Result<()> {
        let nodes = nodes.iter().map(|text| {
            let mut words = text.split(' ');
            let name = words.next().unwrap_or_default();
            words
                .filter_map(|word| word.split_once('='))
                .fold(node(name), |node, (key, value)| node.label(key, value))
        });
        self.cluster.add_nodes(nodes).await
    }

    pub(crate) async fn label_node(
        &self,
        node: &str,
        label: &str,
        value: Option<&str>,
    ) -> Result<()> {
        let change = json!({ "metadata": { "labels": { label: value } } });
        self.edit(NODE, ("", node), &change).await
    }

    /// Waits until an object shows something.
    pub(crate) async fn until<T: PartialEq + std::fmt::Debug>(
        &self,
        (kind, at): (Gvk, (&str, &str)),
        wanted: T,
        look: impl Fn(&Value) -> T,
    ) -> Result<Value> {
        eventually(&format!("{} {at:?} shows {wanted:?}", kind.2), async || {
            let object = self.read(kind, at).await?;
            let seen = look(&object);
            ensure!(seen == wanted, "{seen:?} in {object:#}");
            Ok(object)
        })
        .await
    }

    /// Waits until an object is there, or is not.
    pub(crate) async fn exists(&self, kind: Gvk, at: (&str, &str), wanted: bool) -> Result<()> {
        let word = if wanted { "there" } else { "gone" };
        eventually(&format!("{} {at:?} is {word}", kind.2), async || {
            let found = self.find(kind, at).await?;
            ensure!(found.is_some() == wanted, "{found:#?}");
            Ok(())
        })
        .await
    }

    /// Waits until a condition of a grid has a status.
    pub(crate) async fn condition(
        &self,
        kind: Gvk,
        at: (&str, &str),
        (type_, status): (&str, &str),
    ) -> Result<Value> {
        let found = self
            .until((kind, at), Some(status.to_owned()), |grid| {
                condition_of(grid, type_)?["status"]
                    .as_str()
                    .map(str::to_owned)
            })
            .await?;
        condition_of(&found, type_).context("the condition is gone")
    }

    /// Reasons of the events about objects of this name.
    pub(crate) async fn events(&self, about: &str) -> Result<Vec<String>> {
        let list = self.api(EVENT, "").list(&ListParams::default()).await?;
        let concerned = list
            .items
            .iter()
            .filter(|event| event.data["regarding"]["name"] == about);
        Ok(concerned
            .map(|event| event.data["reason"].as_str().unwrap_or_default().to_owned())
            .collect())
    }

    /// Makes every workload of `default` report that all it wants runs, and lets garbage go.
    pub(crate) async fn roll_out(&self) -> Result<()> {
        harness::world::roll_out(&self.cluster).await?;
        harness::world::collect_garbage(&self.cluster).await
    }

    /// Does what Kubernetes' namespace controller does: empties namespaces that are to go, and lets them go when they
    /// are empty.
    pub(crate) async fn empty_namespaces(&self) -> Result<()> {
        for namespace in self.api(NAMESPACE, "").list(&ListParams::default()).await? {
            if namespace.metadata.deletion_timestamp.is_none() {
                continue;
            }
            let name = namespace.name_any();
            let mut is_empty = true;
            for kind in GRIDS.into_iter().chain([LEASE]) {
                let api = self.api(kind, &name);
                for object in api.list(&ListParams::default()).await? {
                    let deleted = api
                        .delete(&object.name_any(), &DeleteParams::default())
                        .await;
                    drop(deleted);
                    is_empty &= api.get_opt(&object.name_any()).await?.is_none();
                }
            }
            if is_empty {
                finalize(&self.cluster.client(), &name).await?;
            }
        }
        Ok(())
    }
}

async fn finalize(client: &Client, name: &str) -> Result<()> {
    let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name }, "spec": { "finalizers": [] } });
    let request = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"))
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())?;
    client.request::<Value>(request).await?;
    Ok(())
}

impl Member {
    /// A member, not yet registered anywhere.
    pub(crate) async fn unregistered(control: &Site, name: &str) -> Result<Self> {
        let (client, link) = control.cluster.link()?;
        let (refusing, refusal) = control.cluster.link()?;
        refusal.break_off(Fault::Refuse(401));
        let token = Arc::new(Mutex::new(TOKEN.to_owned()));
        let accepted = token.clone();
        let connector: Connector = Arc::new(move |registration: Registration| {
            let is_accepted = *accepted.lock().unwrap() == registration.access.token;
            let client = if is_accepted {
                client.clone()
            } else {
                refusing.clone()
            };
            async move { Ok(client) }.boxed()
        });
        Ok(Self {
            site: Site::new(Some(connector)).await?,
            namespace: format!("clusternet-{name}"),
            link,
            token,
        })
    }

    /// A member that clusternet registered.
    pub(crate) async fn registered(control: &Site, name: &str) -> Result<Self> {
        let member = Self::unregistered(control, name).await?;
        member.register(control, name).await?;
        Ok(member)
    }

    /// Makes what clusternet leaves in both clusters.
    pub(crate) async fn register(&self, control: &Site, name: &str) -> Result<()> {
        let labels =
            json!({ label::CLUSTER_ID: format!("id-of-{name}"), label::CLUSTER_NAME: name });
        let namespace = json!({ "metadata": { "labels": labels } });
        control
            .create(NAMESPACE, ("", &self.namespace), &namespace)
            .await?;
        self.site
            .create(NAMESPACE, ("", parent_secret::NAMESPACE), &json!({}))
            .await?;
        let secret = self.secret(TOKEN);
        let at = (parent_secret::NAMESPACE, parent_secret::NAME);
        self.site.create(SECRET, at, &secret).await
    }

    /// The Secret with a token.
    pub(crate) fn secret(&self, token: &str) -> Value {
        json!({ "stringData": {
            parent_secret::URL: "https://control.example",
            parent_secret::TOKEN: token,
            parent_secret::CA: "",
            parent_secret::MEMBER_NAMESPACE: self.namespace,
        } })
    }

    /// Cuts the link to the control cluster.
    pub(crate) fn cut(&self) {
        self.link.break_off(Fault::LoseRequest);
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

/// The names of the units that a grid's status shows.
pub(crate) fn units(grid: &Value) -> Vec<String> {
    let states = grid["status"]["states"].as_object();
    states
        .map(|states| states.keys().cloned().collect())
        .unwrap_or_default()
}

/// A spec of any of the three kinds with one template.
pub(crate) fn spec(kind: Gvk, replicas: i64) -> Value {
    let template = match kind.2 {
        "ServiceGrid" => {
            json!({ "selector": { "appGrid": "echo" }, "ports": [{ "port": replicas, "protocol": "TCP" }] })
        }
        other => {
            let mut template = json!({
                "replicas": replicas,
                "selector": { "matchLabels": { "appGrid": "echo" } },
                "template": {
                    "metadata": { "labels": { "appGrid": "echo" } },
                    "spec": { "containers": [{ "name": "echo", "image": "superedge/echoserver:2.2" }] },
                },
            });
            if other == "StatefulSetGrid" {
                template["serviceName"] = json!("echo-svc");
            }
            template
        }
    };
    json!({ "gridUniqKey": "zone", "template": template })
}

/// A federated grid.
pub(crate) fn federated(kind: Gvk, replicas: i64) -> Value {
    json!({ "metadata": { "labels": { label::FEDERATE: "yes" } }, "spec": spec(kind, replicas) })
}

/// A moment in which every controller that has something to do does it.
pub(crate) async fn a_while() {
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
}

/// When a member was last heard of.
pub(crate) async fn renewed(control: &Site, member: &Member) -> Result<Option<String>> {
    let lease = control
        .find(LEASE, (&member.namespace, MEMBER_LEASE))
        .await?;
    Ok(lease.and_then(|lease| lease["spec"]["renewTime"].as_str().map(str::to_owned)))
}
