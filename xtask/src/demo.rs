//! `cargo xtask demo`: the walk-through of the README on real Kubernetes, from nothing.

use anyhow::Result;
use edgegrid_upstream::{Program, defaults};

use crate::program::{self, Build, EDGEGRID, comparing};
use crate::{debian, process, upstream};

/// Show edgegrid at work on a real control plane with simulated nodes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// End after the last step instead of leaving the cluster up to play with.
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    show(args, Build::Alone)
}

/// The README's first command, to its end, on the programs that the tests were built with.
pub(crate) fn once() -> Result<()> {
    show(&Args { once: true }, Build::WithTests)
}

fn show(args: &Args, how: Build) -> Result<()> {
    upstream::ensure(&programs())?;
    let walk_through = comparing("demo");
    let built = program::build(&[EDGEGRID, walk_through], how)?;
    let mut demo = built.command(walk_through)?;
    demo.env("EDGEGRID_BINARY", built.command(EDGEGRID)?.get_program());
    if args.once {
        demo.arg("--once");
    }
    if let Err(why) = debian::ensure() {
        demo.arg(format!("--without-packets={why:#}"));
    }
    process::run(&mut demo)
}

/// The control plane and kubectl of the newest Kubernetes: the older ones would only cost minutes.
pub(crate) fn programs() -> Vec<Program> {
    defaults()
        .filter(|program| ["etcd", "kubernetes-1.37"].contains(&program.set().name()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_builds_one_control_plane_and_nothing_else() {
        let names: Vec<&str> = programs().iter().map(Program::name).collect();
        assert!(
            ["etcd", "kube-apiserver", "kubectl"]
                .iter()
                .all(|name| names.contains(name)),
            "{names:?}"
        );
        assert!(!names.contains(&"coredns"));
    }
}
