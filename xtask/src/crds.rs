//! `cargo xtask crds`: the definitions.

use anyhow::Result;

use crate::generated::{Generated, Mode};

/// Write the custom resource definitions to `deploy/crds`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    mode: Mode,
}

pub(crate) const CRDS: Generated = Generated {
    command: "crds",
    folders: &[("", "deploy/crds")],
    remedy: "cargo xtask crds",
};

pub(crate) fn run(args: &Args) -> Result<()> {
    CRDS.run(&args.mode)
}
