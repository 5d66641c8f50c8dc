//! `cargo xtask rbac`: the controllers' rights, from the lists next to the code that needs them.

use anyhow::Result;

use crate::generated::{Generated, Mode};

/// Write the rights of the controllers and the Deployment to `deploy/rbac` and `deploy/controller`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    mode: Mode,
}

pub(crate) const RBAC: Generated = Generated {
    command: "manifests",
    folders: &[("rbac", "deploy/rbac"), ("controller", "deploy/controller")],
    remedy: "cargo xtask rbac",
};

pub(crate) fn run(args: &Args) -> Result<()> {
    RBAC.run(&args.mode)
}
