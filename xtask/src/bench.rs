//! `cargo xtask bench`: how much the parts need for their work, beside what they stand in for.

use anyhow::Result;

use crate::program::{Build, measuring};
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
    let mut bench = measuring("apiserver").built(Build::Release)?;
    if args.quick {
        bench.arg("--quick");
    }
    if args.write {
        bench.arg("--write");
    }
    process::run(&mut bench)
}

/// Every measurement once, with next to nothing to measure: it shows that the program still works.
pub(crate) fn smoke() -> Result<()> {
    upstream::ensure(&demo::programs())?;
    let mut bench = measuring("apiserver").built(Build::WithTests)?;
    process::run(bench.arg("--smoke"))
}
