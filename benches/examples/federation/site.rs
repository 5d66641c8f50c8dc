//! Clusters with their controllers, and the links of members to the control cluster.

use std::fmt::Debug;
use std::sync::Arc;

use anyhow::{Result, ensure};
use edgegrid_api::DeploymentGrid;
use edgegrid_api::names::{label, parent_secret};
use edgegrid_controllers::process::{self, Process};
use edgegrid_controllers::registration::{Connector, Registration, by_token};
use edgegrid_controllers::{Config, Metrics, Setup};
use edgegrid_runtime::executor::{self, Executor, Limits};
use edgegrid_runtime::shutdown::{self, Trigger};
use edgegrid_runtime::{Fence, Readiness};
use edgegrid_testkit::faults::{Faults, Recorded};
use edgegrid_testkit::{Cluster, eventually, node};
use futures::FutureExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The label of nodes by which grids are stamped.
const KEY: &str = "zone";

/// A cluster with controllers.
pub(crate) struct Site {
    cluster: Cluster,
    /// What its controllers wrote there, but for Leases.
    pub(crate) writes: Recorded,
    /// Nobody ends them in order: they go with the process.
    _trigger: Trigger,
    _controllers: JoinSet<()>,
}

/// A member and its link to the control cluster.
pub(crate) struct Member {
    pub(crate) site: Site,
    /// The only unit it has.
    pub(crate) unit: String,
    /// The link, which can be cut.
    pub(crate) link: Faults,
    /// What it asked the control cluster.
    pub(crate) calls: Recorded,
    /// What watches of the control cluster brought.
    pub(crate) events: Recorded,
}

impl Site {
    pub(crate) async fn control() -> Result<Self> {
        Self::new(by_token("bench")).await
    }

    async fn new(connector: Connector) -> Result<Self> {
        let cluster = Cluster::embedded().await?;
        cluster.install(edgegrid_api::crds()).await?;
        let (client, link) = cluster.link()?;
        let writes = link.record(|method, path| method != "GET" && !path.contains("/leases"));
        let setup = setup(client, &cluster, connector);
        let (trigger, shutdown) = shutdown::channel();
        let readiness = Readiness::default();
        let process = Process {
            elector: None,
            manages_definitions: false,
            readiness: readiness.clone(),
            shutdown,
        };
        let mut controllers = JoinSet::new();
        controllers.spawn(process::run(setup, process));
        eventually("the caches have synced", async || {
            ensure!(readiness.is_ready(), "something is missing");
            Ok(())
        })
        .await?;
        Ok(Self {
            cluster,
            writes,
            _trigger: trigger,
            _controllers: controllers,
        })
    }

    /// Objects of a kind in `default`.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), "default")
    }

    /// Creates a federated grid that runs this image.
    pub(crate) async fn create_grid(&self, name: &str, image: &str) -> Result<()> {
        let labels = json!({ label::FEDERATE: "yes" });
        let spec = json!({ "gridUniqKey": KEY, "template": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": containers(image) },
        } });
        let grid = json!({ "metadata": { "name": name, "labels": labels }, "spec": spec });
        create(&self.api::<DeploymentGrid>(), grid).await
    }

    /// Changes the image that a grid runs.
    pub(crate) async fn change_grid(&self, name: &str, image: &str) -> Result<()> {
        let change =
            json!({ "spec": { "template": { "template": { "spec": containers(image) } } } });
        let api = self.api::<DeploymentGrid>();
        api.patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await?;
        Ok(())
    }
}

impl Member {
    /// A member with one node, which clusternet registered.
    pub(crate) async fn join(control: &Site, name: &str) -> Result<Self> {
        let (client, link) = control.cluster.link()?;
        let calls = link.record(|_, _| true);
        let events = link.record_events(|_| true);
        let connector: Connector = Arc::new(move |_: Registration| {
            let client = client.clone();
            async move { Ok(client) }.boxed()
        });
        let site = Site::new(connector).await?;
        let unit = format!("{KEY}-{name}");
        let only = node(&format!("{name}-1")).label(KEY, &unit);
        site.cluster.add_nodes([only]).await?;
        let namespace = format!("clusternet-{name}");
        let labels =
            json!({ label::CLUSTER_ID: format!("id-of-{name}"), label::CLUSTER_NAME: name });
        let there = json!({ "metadata": { "name": namespace, "labels": labels } });
        create::<Namespace>(&Api::all(control.cluster.client()), there).await?;
        let here = json!({ "metadata": { "name": parent_secret::NAMESPACE } });
        create::<Namespace>(&Api::all(site.cluster.client()), here).await?;
        let secrets = Api::namespaced(site.cluster.client(), parent_secret::NAMESPACE);
        create::<Secret>(&secrets, secret(&namespace)).await?;
        Ok(Self {
            site,
            unit,
            link,
            calls,
            events,
        })
    }
}

fn setup(client: Client, cluster: &Cluster, connector: Connector) -> Setup {
    let (limits, counts) = (Limits::default(), executor::Metrics::default());
    Setup {
        executor: Executor::new(client.clone(), Fence::always(), limits, counts),
        client,
        config: Config::default(),
        metrics: Metrics::register(&mut Registry::default()),
        clock: cluster.clock(),
        connector,
    }
}

fn containers(image: &str) -> Value {
    json!({ "containers": [{ "name": "echo", "image": image }] })
}

/// What makes a cluster a member.
fn secret(namespace: &str) -> Value {
    json!({ "metadata": { "name": parent_secret::NAME }, "stringData": {
        parent_secret::URL: "https://control.example",
        parent_secret::TOKEN: "bench",
        parent_secret::CA: "",
        parent_secret::MEMBER_NAMESPACE: namespace,
    } })
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}
