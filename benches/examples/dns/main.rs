//! `cargo xtask bench dns`: our DNS server beside CoreDNS, on the same names in the same run.
//!
//! ```text
//! kube-apiserver ─► CoreDNS ◄──────┬── questions (this program): the same to both, in turns
//! names ─► this program, as server ◄┘
//! ```
//!
//! Before anything is measured both must give the same answers. CPU time and memory are those the
//! kernel counts for each server's process. Ours holds the names as the agent would, without the
//! wrapper that would fill them in.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool: standard output is its result"
)]

mod cases;
mod contender;
mod load;
mod names;
mod report;

use std::net::SocketAddr;

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
    let figures = cases::measure(args.quick).await?;
    let tables = report::tables(&figures);
    println!("{tables}");
    if args.write {
        edgegrid_benches::report::write("dns", &tables)?;
    }
    Ok(())
}
