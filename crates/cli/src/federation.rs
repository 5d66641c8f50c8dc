//! What the commands about many clusters have in common: two clusters at a time, and what is written to them.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use edgegrid_api::names::{YES, annotation, label, manager};
use edgegrid_runtime::executor::{self, Executor, Limits, Target};
use edgegrid_runtime::{Fence, client};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, ListParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

// No doc comments: clap would show them instead of the command's own.
#[derive(clap::Args)]
pub(crate) struct Control {
    /// Path to a kubeconfig file of the control cluster.
    #[arg(long, value_name = "FILE")]
    pub(crate) parent_kubeconfig: PathBuf,
}

/// A cluster that a command writes to.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    executor: Executor,
}

impl Cluster {
    /// Reaches a cluster by a kubeconfig, or as kubectl would.
    pub(crate) async fn reach(kubeconfig: Option<&Path>) -> Result<Self> {
        let agent = concat!("edgegrid/", env!("CARGO_PKG_VERSION"));
        Ok(Self::over(client::connect(kubeconfig, agent).await?))
    }

    /// A cluster by its client.
    pub(crate) fn over(client: Client) -> Self {
        let counts = executor::Metrics::default();
        let executor = Executor::new(client.clone(), Fence::always(), Limits::default(), counts);
        Self { client, executor }
    }

    /// Makes an object, or what we want of it.
    pub(crate) async fn apply<K>(&self, at: (&str, &str), body: &Value) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
    {
        let target = target::<K>(at);
        self.executor
            .apply(&target, body, manager::EDGEGRID, None)
            .await?;
        Ok(())
    }

    /// Deletes the very object that was read; one that is gone already is no error.
    pub(crate) async fn delete<K>(&self, object: &K) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
    {
        let meta = object.meta();
        let at = (
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        );
        let uid = meta.uid.as_deref().unwrap_or_default();
        self.executor.delete(&target::<K>(at), uid).await?;
        Ok(())
    }

    /// The members that a control cluster knows, whoever registered them.
    pub(crate) async fn members(&self) -> Result<Vec<Namespace>> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let of_members = ListParams::default().labels(label::CLUSTER_ID);
        let found = namespaces.list(&of_members).await;
        Ok(found.context("list the namespaces of members")?.items)
    }

    /// All objects of a kind that a label selector chooses, wherever they are.
    pub(crate) async fn labelled<K>(&self, labels: &str) -> Result<Vec<K>>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let all: Api<K> = Api::all(self.client.clone());
        let found = all.list(&ListParams::default().labels(labels)).await;
        let found = found.with_context(|| format!("list {}", K::plural(&())))?;
        Ok(found.items)
    }
}

fn target<K: Resource<DynamicType = ()>>((namespace, name): (&str, &str)) -> Target {
    Target {
        api: ApiResource::erase::<K>(&()),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: name.to_owned(),
    }
}

/// Whether `edgegrid join` made an object.
pub(crate) fn is_joined<K: Resource>(object: &K) -> bool {
    let annotations = object.meta().annotations.as_ref();
    annotations
        .and_then(|all| all.get(annotation::JOINED))
        .is_some_and(|value| value == YES)
}

/// The member with this name, or with this namespace.
pub(crate) fn named(members: Vec<Namespace>, name: &str) -> Result<Namespace> {
    let is_called = |member: &Namespace| {
        member.name_any() == name
            || member
                .labels()
                .get(label::CLUSTER_NAME)
                .is_some_and(|own| own == name)
    };
    let mut found: Vec<Namespace> = members.into_iter().filter(is_called).collect();
    match (found.pop(), found.is_empty()) {
        (Some(member), true) => Ok(member),
        (Some(_), false) => bail!(
            "several members are called {name}: pass the namespace of the right one as --name"
        ),
        (None, _) => bail!("no member is called {name}: `edgegrid get clusters` lists them all"),
    }
}
