//! `cargo xtask bench`: how much the parts need for their work, beside what they stand in for.

use std::process::Command;

use anyhow::Result;
use edgegrid_upstream::{Program, defaults};

use crate::program::{Build, EDGEGRID, measuring};
use crate::{demo, process, upstream};

/// Measure a part of edgegrid beside what it stands in for, or beside the least such work can cost.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The part to measure.
    subject: Subject,

    /// Less of everything: a minute, for CI.
    #[arg(long)]
    quick: bool,

    /// Put the result into `docs/figures.md` as well, the wrapper's into `docs/performance.md`, the federation's into
    /// `docs/scale.md`.
    #[arg(long)]
    write: bool,

    /// Number of member clusters (only `federation`).
    #[arg(long)]
    members: Option<usize>,

    /// Number of grids (only `federation`).
    #[arg(long)]
    grids: Option<usize>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Subject {
    /// The embedded API server beside kube-apiserver and etcd.
    Apiserver,
    /// `edgegrid controller` on kube-apiserver, beside a plain loop of creates and beside SuperEdge's.
    Controller,
    /// Our DNS server beside CoreDNS, and the agent beside the wrapper alone.
    Dns,
    /// A control cluster and many members, in one process and in virtual time.
    Federation,
    /// Our StatefulSet controller beside that of kube-controller-manager.
    Statefulset,
    /// `edgegrid wrapper` on kube-apiserver, beside a direct watch.
    Wrapper,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    upstream::ensure(&needed(args.subject))?;
    let mut bench = match args.subject {
        Subject::Apiserver => measuring("apiserver").built(Build::Release)?,
        Subject::Controller => measuring_controller(args.quick)?,
        Subject::Dns => measuring_edgegrid("dns", Build::Release)?,
        Subject::Federation => measuring("federation").built(Build::Release)?,
        Subject::Statefulset => measuring_edgegrid("statefulset", Build::Release)?,
        Subject::Wrapper => measuring_edgegrid("wrapper", Build::Release)?,
    };
    if args.quick {
        bench.arg("--quick");
    }
    if args.write {
        bench.arg("--write");
    }
    for (flag, number) in [("--members", args.members), ("--grids", args.grids)] {
        if let Some(number) = number {
            bench.arg(flag).arg(number.to_string());
        }
    }
    process::run(&mut bench)
}

/// The programs of others that a measurement runs.
fn needed(subject: Subject) -> Vec<Program> {
    if let Subject::Federation = subject {
        return Vec::new();
    }
    let mut programs = demo::programs();
    if let Subject::Dns = subject {
        programs.extend(defaults().filter(|program| program.name() == "coredns"));
    }
    programs
}

/// Every measurement once, with next to nothing to measure: it shows that the program still works.
pub(crate) fn smoke() -> Result<()> {
    upstream::ensure(&demo::programs())?;
    let mut apiserver = measuring("apiserver").built(Build::WithTests)?;
    process::run(apiserver.arg("--smoke"))?;
    let mut statefulset = measuring_edgegrid("statefulset", Build::WithTests)?;
    process::run(statefulset.arg("--smoke"))
}

/// The controller, and unless it must be quick also with the program that measured SuperEdge.
fn measuring_controller(quick: bool) -> Result<Command> {
    let mut bench = measuring_edgegrid("controller", Build::Release)?;
    if !quick {
        bench.arg("--seload").arg(upstream::load()?);
    }
    Ok(bench)
}

/// A measurement of the program itself, as a process of its own.
fn measuring_edgegrid(name: &'static str, build: Build) -> Result<Command> {
    let as_measured = match build {
        Build::Release => Build::Shipped,
        other => other,
    };
    let edgegrid = EDGEGRID.built(as_measured)?;
    let mut bench = measuring(name).built(build)?;
    bench.arg("--edgegrid").arg(edgegrid.get_program());
    Ok(bench)
}
