//! `edgegrid leave`: undoes `edgegrid join`.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use edgegrid_api::names::{label, parent_secret};
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::federation::is_copy;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::federation::{Cluster, Control, is_joined, named};
use crate::{output, service};

/// End a cluster's membership: what runs in it stays, and is its own from then on.
///
/// Removes the Secret and the memory of the control cluster here, then the member's namespace in the control cluster with all copies
/// in it. With --force nothing is done here, for a cluster that never comes back.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    control: Control,

    /// What the member is called, as `edgegrid get clusters` lists it.
    #[arg(long)]
    name: String,

    /// How to reach the member. Default: $KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE", conflicts_with = "force")]
    kubeconfig: Option<PathBuf>,

    /// Also delete in the member the grids that came from the control cluster.
    #[arg(long, conflicts_with = "force")]
    purge: bool,

    /// The member is lost: only the control cluster forgets it.
    #[arg(long)]
    force: bool,
}

/// Ends the membership.
pub(crate) fn run(args: Args) -> Result<()> {
    service::block_on(leave(args))
}

async fn leave(args: Args) -> Result<()> {
    let control = Cluster::reach(Some(&args.control.parent_kubeconfig)).await?;
    let member = named(control.members().await?, &args.name)?;
    let namespace = member.name_any();
    ensure!(
        is_joined(&member),
        "namespace {namespace} was not made by `edgegrid join`: end the membership where it was begun"
    );
    if !args.force {
        let cluster = Cluster::reach(args.kubeconfig.as_deref()).await?;
        forget(&cluster, &namespace).await.with_context(|| {
            format!(
                "let {} forget the control cluster; --force if it never comes back",
                args.name
            )
        })?;
        let removed = clear::<DeploymentGrid>(&cluster, args.purge).await?
            + clear::<StatefulSetGrid>(&cluster, args.purge).await?
            + clear::<ServiceGrid>(&cluster, args.purge).await?;
        if args.purge {
            output::print(&format!("{removed} grids deleted in {}\n", args.name))
                .context("print the result")?;
        }
    }
    control.delete(&member).await?;
    output::print(&format!("{} is no longer a member\n", args.name)).context("print the result")
}

/// Deletes the Secret that makes the cluster a member, if it is about this membership.
async fn forget(cluster: &Cluster, namespace: &str) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), parent_secret::NAMESPACE);
    let Some(secret) = secrets.get_opt(parent_secret::NAME).await? else {
        return Ok(());
    };
    let data = secret
        .data
        .as_ref()
        .and_then(|data| data.get(parent_secret::MEMBER_NAMESPACE));
    let own = data
        .map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
        .unwrap_or_default();
    ensure!(
        own == namespace,
        "this cluster is a member by namespace {own}, not by {namespace}: name its kubeconfig"
    );
    cluster.delete(&secret).await
}

/// Deletes what the member remembers of the control cluster's grids, and with `purge` the grids that came from it; says
/// how many those were.
async fn clear<K>(cluster: &Cluster, purge: bool) -> Result<usize>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let mut removed = 0;
    for grid in cluster.labelled::<K>(label::ORIGIN).await? {
        let is_copy = is_copy(grid.meta());
        let is_mirror = is_copy && grid.namespace().as_deref() == Some(parent_secret::NAMESPACE);
        if is_mirror || (purge && !is_copy) {
            cluster.delete(&grid).await?;
            removed += usize::from(!is_mirror);
        }
    }
    Ok(removed)
}
