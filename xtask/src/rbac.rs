//! `cargo xtask rbac`: the controller's rights, from the list next to the code that needs them.

use anyhow::Result;

use crate::generated::{Generated, Mode};

/// Write the controller's rights and its Deployment to `deploy/rbac` and `deploy/controller`.
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
