//! `cargo xtask bench`: how much the parts need for their work, beside what they stand in for.

use anyhow::Result;

use crate::{demo, process, upstream};

/// Measure the embedded API server beside kube-apiserver and etcd.
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
    Apiserver,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let Subject::Apiserver = args.subject;
    upstream::ensure(&demo::programs())?;
    let mut bench = process::example("apiserver");
    if args.quick {
        bench.arg("--quick");
    }
    if args.write {
        bench.arg("--write");
    }
    process::run(&mut bench)
}
