//! `cargo xtask edges`: holds the architecture. Who may use whom is a table, and a crate that is to stay
//! pure is looked at more closely than a manifest can show.
//!
//! ```text
//! cargo metadata  ─► edges between our crates ─► table::violations
//! cargo tree      ─► all that a pure crate reaches ┐
//! its clippy.toml ─► what its code may not call    ┴► purity::violations
//! every source file ─► modules that use each other ─► rings::violations
//! ```

mod purity;
mod rings;
mod table;

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

use crate::process;
use table::{Crate, Edge, EdgeKind};

/// Check which crate uses which, that pure crates are pure, and that no modules use each other in a ring.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    check()
}

/// Fails with every violation, one per line.
pub(crate) fn check() -> Result<()> {
    let metadata = metadata()?;
    let crates = crates(&metadata);
    let mut violations = table::violations(&crates);
    for name in table::PURE
        .iter()
        .filter(|pure| crates.iter().any(|c| c.folder == **pure))
    {
        let package = package_of(&metadata, name).context("find a pure crate's package")?;
        violations.extend(purity::check(package)?);
    }
    let packages = metadata.workspace_packages();
    for target in packages.iter().flat_map(|package| &package.targets) {
        violations.extend(rings::check(target.src_path.as_std_path())?);
    }
    if violations.is_empty() {
        return Ok(());
    }
    bail!("the architecture is not kept:\n{}", violations.join("\n"));
}

fn metadata() -> Result<Metadata> {
    MetadataCommand::new()
        .current_dir(process::root())
        .no_deps()
        .exec()
        .context("read the workspace's manifests")
}

fn crates(metadata: &Metadata) -> Vec<Crate> {
    metadata
        .workspace_packages()
        .into_iter()
        .map(|package| crate_of(metadata, package))
        .collect()
}

fn crate_of(metadata: &Metadata, package: &Package) -> Crate {
    let is_ours = |name: &str| {
        metadata
            .workspace_packages()
            .iter()
            .any(|p| p.name.as_str() == name)
    };
    let edges = package
        .dependencies
        .iter()
        .filter(|dependency| is_ours(&dependency.name))
        .map(|dependency| Edge {
            to: table::folder_of(&dependency.name),
            kind: match dependency.kind {
                DependencyKind::Development => EdgeKind::Dev,
                _ => EdgeKind::Normal,
            },
        })
        .collect();
    Crate {
        folder: table::folder_of(&package.name),
        edges,
    }
}

fn package_of<'a>(metadata: &'a Metadata, folder: &str) -> Option<&'a Package> {
    metadata
        .workspace_packages()
        .into_iter()
        .find(|package| table::folder_of(&package.name) == folder)
}
