//! `cargo xtask bench dns`: our DNS server beside CoreDNS, on the same names in the same run.
//!
//! ```text
//! kube-apiserver ─┬─► CoreDNS ◄────────┬── questions (this program): the same to both, in turns
//!                 └─► edgegrid agent ◄─┘
//! ```
//!
//! Before anything is measured both must give the same answers. CPU time and memory are those the
//! kernel counts for each server's process, and ours is the agent with all it does besides. What names cost a node beside the
//! wrapper is measured first ([`agent`]).
#![expect(
    clippy::print_stdout,
    reason = "a command line tool: standard output is its result"
)]

mod agent;
mod cases;
mod contender;
mod load;
mod names;
mod report;
mod site;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

/// Measure our DNS server beside CoreDNS.
#[derive(Parser)]
struct Args {
    /// A tenth of everything: a minute, for CI.
    #[arg(long)]
    quick: bool,
    /// Put the tables into `docs/figures.md` as well.
    #[arg(long)]
    write: bool,
    /// The program whose agent is measured.
    #[arg(long, value_name = "FILE", default_value = "edgegrid")]
    edgegrid: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let of_agent = report::agent(&agent::measure(&args.edgegrid, args.quick).await?);
    println!("{of_agent}");
    let of_server = report::tables(&cases::measure(&args.edgegrid, args.quick).await?);
    println!("{of_server}");
    if args.write {
        edgegrid_benches::report::write("dns", &format!("{of_server}\n{of_agent}"))?;
    }
    Ok(())
}
