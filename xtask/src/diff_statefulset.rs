//! `cargo xtask diff-statefulset`: our StatefulSet controller beside that of kube-controller-manager.

use anyhow::Result;

use crate::program::{Build, EDGEGRID, comparing};
use crate::{demo, process, upstream};

/// Scenarios of the step of `cargo xtask test`: about a minute.
const SMOKE_SCENARIOS: usize = 16;

/// Live the same random scenarios under both StatefulSet controllers on kube-apiserver, and compare.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of scenarios.
    #[arg(long, default_value_t = 200)]
    scenarios: usize,
    /// The same seed gives the same scenarios.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this one of them.
    #[arg(long)]
    only: Option<usize>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    compare(args, Build::Alone)
}

/// A few scenarios, the same each time: a seed that nobody has tried is no test of a change.
pub(crate) fn smoke() -> Result<()> {
    let args = Args {
        scenarios: SMOKE_SCENARIOS,
        seed: 1,
        only: None,
    };
    compare(&args, Build::WithTests)
}

fn compare(args: &Args, build: Build) -> Result<()> {
    upstream::ensure(&demo::programs())?;
    let edgegrid = EDGEGRID.built(build)?;
    let mut compare = comparing("diff_statefulset").built(build)?;
    compare.env("EDGEGRID_BINARY", edgegrid.get_program());
    process::run(compare.args(options(args)))
}

fn options(args: &Args) -> Vec<String> {
    let mut options = vec![
        format!("--scenarios={}", args.scenarios),
        format!("--seed={}", args.seed),
    ];
    options.extend(args.only.map(|only| format!("--only={only}")));
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_handed_on() {
        let args = Args {
            scenarios: 5,
            seed: 7,
            only: Some(3),
        };
        assert_eq!(options(&args), ["--scenarios=5", "--seed=7", "--only=3"]);
    }
}
