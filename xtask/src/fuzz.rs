//! `cargo xtask fuzz`: a bounded run of random input, the same again for the same seed.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::process;
use crate::program::{Build, measuring};

/// What the step of `cargo xtask test` may take.
const SMOKE_SECONDS: u64 = 20;

/// Feed random input to the parsers, the patches, the schemas, the API server and the DNS server.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many inputs each target is given.
    #[arg(long, value_name = "N")]
    inputs: Option<u64>,

    /// Inputs follow from this number.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Stop after this time, all targets together.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,

    /// Targets to run; without any all of them.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    feed(args, Build::Release)
}

/// A little of every target, with a seed of its own each time: the run prints it.
pub(crate) fn smoke() -> Result<()> {
    let args = Args {
        inputs: None,
        seed: Some(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()),
        seconds: Some(SMOKE_SECONDS),
        targets: Vec::new(),
    };
    feed(&args, Build::WithTests)
}

fn feed(args: &Args, build: Build) -> Result<()> {
    let mut fuzz = measuring("fuzz").built(build)?;
    for (flag, number) in [
        ("--inputs", args.inputs),
        ("--seed", args.seed),
        ("--seconds", args.seconds),
    ] {
        if let Some(number) = number {
            fuzz.arg(flag).arg(number.to_string());
        }
    }
    process::run(fuzz.args(&args.targets))
}
