//! `cargo xtask bench federation`: what many clusters cost, all of them in this process and in virtual time.
//!
//! ```text
//! control cluster: embedded API server, controllers
//!    ▲ a link per member: calls and events counted, can be cut
//! members: each an embedded API server, controllers and one node with the key, so one Deployment per grid
//! ```
//!
//! Time passes only while nobody has anything to do, so the times are waits of ours and no computing; what computing
//! costs is the CPU time of the process, all servers in it included.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool: standard output is its result"
)]

mod cases;
mod counts;
mod report;
mod site;
mod steps;

use anyhow::Result;
use clap::Parser;

use steps::{Size, measure};

/// Measure a control cluster with many members.
#[derive(Parser)]
struct Args {
    /// Number of member clusters.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(2..))]
    members: u16,
    /// Number of grids, each of which reaches every member.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    grids: u16,
    /// 5 members and 3 grids: it shows that the measurement still works.
    #[arg(long, conflicts_with_all = ["members", "grids"])]
    quick: bool,
    /// Put the table into `docs/scale.md` as well.
    #[arg(long)]
    write: bool,
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<()> {
    let args = Args::parse();
    let (members, grids) = if args.quick {
        (5, 3)
    } else {
        (args.members, args.grids)
    };
    let size = Size {
        members: members.into(),
        grids: grids.into(),
    };
    let tables = report::tables(size, &measure(size).await?);
    println!("{tables}");
    if args.write {
        edgegrid_benches::report::write_to(report::FILE, "federation", &tables)?;
    }
    Ok(())
}
