//! `cargo xtask bench controller`: what stamping grids costs on kube-apiserver, beside a plain loop
//! that creates as many Deployments.
//!
//! ```text
//! kube-apiserver + etcd ─┬─ create loop (this program): the most that this API server does
//!                        └─ edgegrid controller (its own process): grids ─► Deployments
//! ```
//!
//! The same controller once more under `benches/load`, the program that measured SuperEdge's, if given.
//!
//! No other controller runs, so every request for a watched resource is ours or the load's, and the
//! load's are known. Calls are those that kube-apiserver counted, CPU time and memory those that
//! the kernel counted for the controller's process.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool: standard output is its result"
)]

mod beside_superedge;
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
    /// How often each case is measured; the run with the middle share of the creates' rate is shown.
    #[arg(long, default_value_t = 3, value_name = "N")]
    runs: usize,
    /// Only this case, as `GRIDSxUNITS`; may be repeated.
    #[arg(long, value_name = "GRIDSxUNITS")]
    case: Vec<cases::Case>,
    /// Put the tables into `docs/figures.md` as well.
    #[arg(long)]
    write: bool,
    /// The program to measure.
    #[arg(long, value_name = "FILE")]
    edgegrid: PathBuf,
    /// The program that measured SuperEdge, to measure every case of one grid with it as well.
    #[arg(long, value_name = "FILE")]
    seload: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let mut results = Vec::new();
    let cases = if args.case.is_empty() {
        cases::all(args.quick)
    } else {
        args.case
    };
    for &case in &cases {
        eprintln!("{case} …");
        results.push(cases::measure(&args.edgegrid, case, args.runs).await?);
    }
    let mut beside = Vec::new();
    if let Some(seload) = &args.seload {
        for units in cases.iter().filter_map(|case| case.units_of_one_grid()) {
            eprintln!("{units} units, beside SuperEdge …");
            beside.push(beside_superedge::measure(seload, &args.edgegrid, units).await?);
        }
    }
    let tables = report::tables(&results, &beside);
    println!("{tables}");
    if args.write {
        edgegrid_benches::report::write("controller", &tables)?;
    }
    Ok(())
}
