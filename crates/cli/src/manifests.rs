//! `edgegrid manifests`: what runs the controller in a cluster, with no more rights than it needs.

mod deployment;
mod rbac;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use edgegrid_api::names;
use serde::Serialize;
use serde_json::{Value, json};

use crate::output;
use rbac::Account;

/// Print the manifests that run the controller in a cluster: namespace, service account, RBAC,
/// Deployment.
///
/// Install with: edgegrid manifests | kubectl apply --server-side -f -
///
/// The custom resource definitions need not be installed before: the controller creates and upgrades them.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Namespace to run the controller in.
    #[arg(long, default_value = names::SYSTEM_NAMESPACE)]
    namespace: String,

    /// Container image of the controller.
    #[arg(long, default_value_t = default_image())]
    image: String,

    /// Print what `edgegrid statefulset` needs instead: namespace, service account, RBAC.
    #[arg(long, conflicts_with_all = ["output_dir", "image"])]
    statefulset: bool,

    /// Write files into this folder instead of printing: rbac/controller.yaml, rbac/statefulset.yaml and
    /// controller/deployment.yaml.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

fn default_image() -> String {
    format!("edgegrid:{}", env!("CARGO_PKG_VERSION"))
}

/// Prints or writes the manifests.
pub(crate) fn run(args: &Args) -> Result<()> {
    let rights = |account: Account| documents(&account.manifests(&args.namespace)?);
    let of_sets = rights(Account::of_sets())?;
    if args.statefulset {
        return output::print(&of_sets).context("print manifests");
    }
    let of_grids = rights(Account::of_grids())?;
    let controller = documents(&[deployment::manifest(&args.namespace, &args.image)])?;
    let Some(folder) = &args.output_dir else {
        return output::print(&(of_grids + &controller)).context("print manifests");
    };
    write(&folder.join("rbac"), "controller.yaml", &of_grids)?;
    write(&folder.join("rbac"), "statefulset.yaml", &of_sets)?;
    write(&folder.join("controller"), "deployment.yaml", &controller)
}

fn write(folder: &Path, file: &str, text: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let path = folder.join(file);
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

fn documents(manifests: &[Value]) -> Result<String> {
    let mut text = String::new();
    for manifest in manifests {
        let yaml = serde_saphyr::to_string(manifest).context("write a manifest as YAML")?;
        text.push_str("---\n");
        text.push_str(&yaml);
    }
    Ok(text)
}

/// A manifest; its content comes as fields besides its kind and name.
fn manifest(kind: (&str, &str), metadata: Value, content: impl Serialize) -> Result<Value> {
    let mut manifest = serde_json::to_value(content).context("write a manifest as JSON")?;
    manifest["apiVersion"] = json!(kind.0);
    manifest["kind"] = json!(kind.1);
    manifest["metadata"] = metadata;
    Ok(manifest)
}

/// Labels by which people find what belongs together.
fn labels(name: &str) -> Value {
    json!({ "app.kubernetes.io/name": name })
}
