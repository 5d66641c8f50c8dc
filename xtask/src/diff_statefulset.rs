//! `cargo xtask diff-statefulset`: our StatefulSet controller beside that of kube-controller-manager.

use anyhow::Result;

use crate::{demo, process, upstream};

/// Live the same random scenarios under both StatefulSet controllers on kube-apiserver, and compare.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Scenarios to live.
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
    upstream::ensure(&demo::programs())?;
    let mut compare = process::cargo();
    compare.args(["run", "--quiet", "--package", "edgegrid-e2e"]);
    compare.args(["--example", "diff_statefulset", "--"]);
    compare.args(options(args));
    process::run(&mut compare)
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
