//! `cargo xtask bench dns`: our DNS server beside CoreDNS, on the same names in the same run.
//!
//! ```text
//! kube-apiserver ─► CoreDNS ◄──────┬── questions (this program): the same to both, in turns
//! names ─► this program, as server ◄┘
//! ```
//!
//! Before anything is measured both must give the same answers. CPU time and memory are those the
//! kernel counts for each server's process. Ours holds the names as the agent would, without the
//! wrapper that would fill them in. What names cost a node beside the wrapper is measured first, with the
//! program itself ([`agent`]).
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

use std::net::SocketAddr;
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
    /// Be the server that is measured, with this many services.
    #[arg(long, hide = true, num_args = 2, value_names = ["ADDRESS", "SERVICES"])]
    serve: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    if let [address, services] = &args.serve[..] {
        let address: SocketAddr = address.parse()?;
        return contender::serve(address, services.parse()?).await;
    }
    let of_agent = report::agent(&agent::measure(&args.edgegrid, args.quick).await?);
    println!("{of_agent}");
    let of_server = report::tables(&cases::measure(args.quick).await?);
    println!("{of_server}");
    if args.write {
        edgegrid_benches::report::write("dns", &format!("{of_server}\n{of_agent}"))?;
    }
    Ok(())
}
