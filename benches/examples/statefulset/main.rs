//! `cargo xtask bench statefulset`: our StatefulSet controller beside that of kube-controller-manager, on one
//! kube-apiserver, doing the same work one after the other.
//!
//! ```text
//! kube-apiserver + etcd + kube-controller-manager without its StatefulSet controller + simulated node
//!    ├─ kube-controller-manager with nothing but that controller (a process of its own), then
//!    └─ `edgegrid statefulset --take-over` (a process of its own)
//! ```
//!
//! Pods are bound by their template, so that no scheduler is measured. Calls are those that kube-apiserver
//! counted and that only such a controller makes; CPU time and memory are the kernel's for each process.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool: standard output is its result"
)]

mod calls;
mod cases;
mod contender;
mod report;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use edgegrid_testkit::{Cluster, node};

use contender::Contender;

/// Measure our StatefulSet controller beside kube-controller-manager's.
#[derive(Parser)]
struct Args {
    /// A tenth of everything: a minute, for CI.
    #[arg(long)]
    quick: bool,
    /// Put the tables into `docs/figures.md` as well.
    #[arg(long)]
    write: bool,
    /// A handful of pods: it shows that the measurement still works.
    #[arg(long, conflicts_with_all = ["quick", "write"])]
    smoke: bool,
    /// The program to measure.
    #[arg(long, value_name = "FILE")]
    edgegrid: PathBuf,
}

impl Args {
    /// Which part of everything is enough.
    fn part(&self) -> usize {
        match (self.smoke, self.quick) {
            (true, _) => 100,
            (_, true) => 10,
            _ => 1,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let cluster = Cluster::upstream()
        .with_controllers_but(["statefulset-controller"])
        .await?;
    cluster.add_nodes([node("n1")]).await?;
    let mut columns = Vec::new();
    for name in [contender::THEIRS, contender::OURS] {
        let contender = Contender::start(name, &cluster, &args.edgegrid)?;
        let mut results = Vec::new();
        for case in cases::all(args.part()) {
            eprintln!("{name}: {case} …");
            let measured = cases::measure(&cluster, &contender, &case).await;
            results.push(measured.with_context(|| format!("{name}: {case}"))?);
        }
        columns.push(results);
    }
    let tables = report::tables(&columns[0], &columns[1]);
    println!("{tables}");
    if args.write {
        edgegrid_benches::report::write("statefulset", &tables)?;
    }
    Ok(())
}
