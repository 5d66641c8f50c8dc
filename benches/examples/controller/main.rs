//! `cargo xtask bench controller`: what stamping grids costs on kube-apiserver, beside a plain loop
//! that creates as many Deployments.
//!
//! ```text
//! kube-apiserver + etcd ─┬─ create loop (this program): the most that this API server does
//!                        └─ edgegrid controller (its own process): grids ─► Deployments
//! ```
//!
//! No other controller runs, so every request for a watched resource is ours or the load's, and the
//! load's are known. Calls are those that kube-apiserver counted, CPU time and memory those that
//! the kernel counted for the controller's process.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool: standard output is its result"
)]

mod calls;
mod cases;
mod load;
mod process;
mod report;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

/// Measure `edgegrid controller` on kube-apiserver.
#[derive(Parser)]
struct Args {
    /// Only the two smallest cases: a minute, for CI.
    #[arg(long)]
    quick: bool,
    /// Put the tables into `docs/figures.md` as well.
    #[arg(long)]
    write: bool,
    /// The program to measure.
    #[arg(long, value_name = "FILE")]
    edgegrid: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let mut results = Vec::new();
    for case in cases::all(args.quick) {
        eprintln!("{case} …");
        results.push(cases::measure(&args.edgegrid, case).await?);
    }
    let tables = report::tables(&results);
    println!("{tables}");
    if args.write {
        edgegrid_benches::report::write("controller", &tables)?;
    }
    Ok(())
}
