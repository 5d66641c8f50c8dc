//! `cargo xtask bench wrapper`: what a node's view costs on kube-apiserver, with a direct watch
//! beside it in the same run.
//!
//! ```text
//! kube-apiserver + etcd ─┬────────────────────► direct watch (this program)
//!          ▲             └─► edgegrid wrapper ─► watch (this program): the same events, cut to a unit
//!          └── load (this program): slices that change, nodes that move and beat
//! ```
//!
//! A change is recognised by its content (the changed endpoint carries a number as its host name), as
//! the wrapper's revisions are its own. CPU time and memory are those the kernel counts for the
//! wrapper's process.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool: standard output is its result"
)]

mod cases;
mod cluster;
mod process;
mod report;
mod watch;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

/// Measure `edgegrid wrapper` on kube-apiserver.
#[derive(Parser)]
struct Args {
    /// A tenth of everything: minutes, for CI.
    #[arg(long)]
    quick: bool,
    /// Put the tables into `docs/performance.md` as well.
    #[arg(long)]
    write: bool,
    /// The program to measure.
    #[arg(long, value_name = "FILE")]
    edgegrid: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let figures = cases::measure(&args.edgegrid, args.quick).await?;
    let tables = report::tables(&figures);
    println!("{tables}");
    if args.write {
        edgegrid_benches::report::write_to(report::FILE, "wrapper", &tables)?;
    }
    Ok(())
}
