//! `edgegrid crds`: the definitions to apply before anything else.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::output;

/// Print the custom resource definitions of edgegrid's five kinds.
///
/// Install or upgrade them with: edgegrid crds | kubectl apply --server-side -f -
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write one file per definition into this folder instead of printing all.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

/// Prints or writes the definitions.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(folder) = &args.output_dir {
        return write_files(folder);
    }
    for crd in edgegrid_api::crds() {
        output::print(&format!("---\n{}", yaml(&crd)?)).context("print definitions")?;
    }
    Ok(())
}

fn write_files(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    for crd in edgegrid_api::crds() {
        let name = crd
            .metadata
            .name
            .as_deref()
            .context("definition has no name")?;
        let path = folder.join(format!("{name}.yaml"));
        fs::write(&path, yaml(&crd)?).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn yaml(crd: &CustomResourceDefinition) -> Result<String> {
    serde_saphyr::to_string(crd).context("write a definition as YAML")
}
