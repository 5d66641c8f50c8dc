//! `cargo xtask bench`: how much the parts need for their work, beside what they stand in for.

use anyhow::Result;

use crate::{demo, process, upstream};

/// Measure a part of edgegrid beside what it stands in for, or beside the least such work can cost.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    subject: Subject,

    /// Less of everything: a minute, for CI.
    #[arg(long)]
    quick: bool,

    /// Put the result into `docs/figures.md` as well.
    #[arg(long)]
    write: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Subject {
    /// The embedded API server beside kube-apiserver and etcd.
    Apiserver,
    /// `edgegrid controller` on kube-apiserver, beside a plain loop of creates.
    Controller,
    /// Our StatefulSet controller beside that of kube-controller-manager.
    Statefulset,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    upstream::ensure(&demo::programs())?;
    let mut bench = match args.subject {
        Subject::Apiserver => process::example("apiserver"),
        Subject::Statefulset => process::example("statefulset"),
        Subject::Controller => {
            let mut bench = process::example("controller");
            bench
                .arg("--edgegrid")
                .arg(process::edgegrid(&["--release"])?);
            bench
        }
    };
    if args.quick {
        bench.arg("--quick");
    }
    if args.write {
        bench.arg("--write");
    }
    process::run(&mut bench)
}
