//! `cargo xtask fuzz`: a bounded run of random input, the same again for the same seed.

use anyhow::Result;

use crate::process;

/// Feed random input to the parsers, the patches, the schemas and the API server.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many inputs each target is given.
    #[arg(long, value_name = "N")]
    inputs: Option<u64>,

    /// Inputs follow from this number.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Only these targets.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut fuzz = process::example("fuzz");
    if let Some(inputs) = args.inputs {
        fuzz.arg("--inputs").arg(inputs.to_string());
    }
    if let Some(seed) = args.seed {
        fuzz.arg("--seed").arg(seed.to_string());
    }
    process::run(fuzz.args(&args.targets))
}
