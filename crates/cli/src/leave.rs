//! `edgegrid leave`: undoes `edgegrid join`.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use edgegrid_api::names::parent_secret;
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::federation::{is_from_control, is_mirror};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use kube::core::ObjectMeta;
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
    let member = if args.force {
        None
    } else {
        Some(Cluster::reach(args.kubeconfig.as_deref()).await?)
    };
    let done = end(&control, member.as_ref(), &args).await?;
    output::print(&done).context("print the result")
}

/// Ends a membership in both clusters, or in the control cluster alone, and says what was done.
async fn end(control: &Cluster, member: Option<&Cluster>, args: &Args) -> Result<String> {
    let name = &args.name;
    let registered = named(control.members().await?, name)?;
    let namespace = registered.name_any();
    ensure!(
        is_joined(&registered),
        "namespace {namespace} was not made by `edgegrid join`: end the membership where it was begun"
    );
    let mut done = String::new();
    if let Some(member) = member {
        forget(member, &namespace).await.with_context(|| {
            format!("let {name} forget the control cluster; --force if it never comes back")
        })?;
        // What it heard goes before what it has: a controller that does not know yet would make that again.
        clear_all(member, is_mirror).await?;
        if args.purge {
            let removed = clear_all(member, is_from_control).await?;
            done = format!("{removed} grids deleted in {name}\n");
        }
    }
    control.delete(&registered).await?;
    Ok(done + &format!("{name} is no longer a member\n"))
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

/// Deletes the grids of all kinds that are chosen, and says how many those were.
async fn clear_all(cluster: &Cluster, is_chosen: fn(&ObjectMeta) -> bool) -> Result<usize> {
    Ok(clear::<DeploymentGrid>(cluster, is_chosen).await?
        + clear::<StatefulSetGrid>(cluster, is_chosen).await?
        + clear::<ServiceGrid>(cluster, is_chosen).await?)
}

async fn clear<K>(cluster: &Cluster, is_chosen: fn(&ObjectMeta) -> bool) -> Result<usize>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let mut removed = 0;
    // Not by label: one whose labels somebody took off is known all the same.
    for grid in cluster.labelled::<K>("").await? {
        if is_chosen(grid.meta()) {
            cluster.delete(&grid).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests;
