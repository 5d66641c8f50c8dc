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

/// End a cluster's membership: its workloads keep running, and are its own from then on.
///
/// Deletes the Secret and the mirrored grids in the member, then the member's namespace in the control cluster with all copies
/// in it. With --force the member is left as it is, for a cluster that never comes back.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    control: Control,

    /// Name of the member, as `edgegrid get clusters` lists it.
    #[arg(long)]
    name: String,

    /// Path to a kubeconfig file of the member. Default: $KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE", conflicts_with = "force")]
    kubeconfig: Option<PathBuf>,

    /// Also delete the member's grids that came from the control cluster.
    #[arg(long, conflicts_with = "force")]
    purge: bool,

    /// Only remove the member from the control cluster, without reaching the member.
    #[arg(long)]
    force: bool,
}

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
        "namespace {namespace} was not created by `edgegrid join`: end the membership with the tool that created it"
    );
    let mut done = String::new();
    if let Some(member) = member {
        delete_registration(member, &namespace)
            .await
            .with_context(|| {
                format!("remove the registration from {name} (pass --force if it never comes back)")
            })?;
        // Mirrors go before the grids made from them: a controller that is not stopped yet would make those again.
        clear_all(member, is_mirror).await?;
        if args.purge {
            let removed = clear_all(member, is_from_control).await?;
            done = format!("{removed} grids deleted in {name}\n");
        }
    }
    control.delete(&registered).await?;
    Ok(done + &format!("{name} is no longer a member\n"))
}

/// Deletes the Secret that registers the cluster, if it is about this membership.
async fn delete_registration(cluster: &Cluster, namespace: &str) -> Result<()> {
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
        "this cluster is registered with namespace {own}, not with {namespace}: pass the kubeconfig of the member"
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
