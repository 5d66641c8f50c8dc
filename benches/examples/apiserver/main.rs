//! `cargo xtask bench apiserver`: the embedded server beside kube-apiserver and etcd, in one run.
//!
//! ```text
//! this program ─┬─ itself again, `--side embedded`: server and load in one process ─┐
//!               └─ testkit's kube-apiserver + etcd (no fsync), loopback TLS         ─┴─► one table
//! ```
//!
//! Counted is the CPU time of the server, not the time on the wall: a busy machine changes the second
//! and hardly the first. Of upstream that is the CPU time of its two programs, and what we spend as
//! their client is not counted. Of the embedded server it is the whole process, the load included,
//! which is to its disadvantage; what the load alone costs is shown beside it.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool: standard output is its result"
)]

mod figures;
mod objects;
mod report;
mod server;
mod workload;

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};

use figures::Results;
use server::Server;
use workload::Size;

/// Compare the embedded API server with kube-apiserver and etcd.
#[derive(Parser)]
struct Args {
    /// A tenth of the objects, watchers and changes: a minute, for CI.
    #[arg(long)]
    quick: bool,
    /// Next to nothing of everything, to see that it works; the figures mean nothing.
    #[arg(long, conflicts_with_all = ["quick", "write"])]
    smoke: bool,
    /// Put the tables into `docs/figures.md` as well.
    #[arg(long)]
    write: bool,
    /// Measure one side and print it as JSON.
    #[arg(long, hide = true)]
    side: Option<Side>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Side {
    Embedded,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let size = match (args.quick, args.smoke) {
        (_, true) => Size::SMOKE,
        (true, false) => Size::QUICK,
        (false, false) => Size::FULL,
    };
    if args.side.is_some() {
        let results = workload::run(&Server::embedded(), &size).await?;
        println!("{}", serde_json::to_string(&results)?);
        return Ok(());
    }
    eprintln!("embedded server …");
    let embedded = in_child(&args)?;
    eprintln!("kube-apiserver and etcd …");
    let upstream = workload::run(&Server::upstream().await?, &size).await?;
    let tables = report::tables(&size, &embedded, &upstream);
    if args.smoke {
        println!("every operation works on both; figures of so little would mean nothing");
        return Ok(());
    }
    println!("{tables}");
    if args.write {
        edgegrid_benches::report::write("apiserver", &tables)?;
    }
    Ok(())
}

/// The embedded side in a process of its own, so that its memory and CPU time are nobody else's.
fn in_child(args: &Args) -> Result<Results> {
    let mut child = Command::new(std::env::current_exe()?);
    child.args(["--side", "embedded"]);
    for (flag, is_set) in [("--quick", args.quick), ("--smoke", args.smoke)] {
        if is_set {
            child.arg(flag);
        }
    }
    let output = child.stderr(Stdio::inherit()).output();
    let output = output.context("start the embedded side")?;
    ensure!(
        output.status.success(),
        "the embedded side ended with {}",
        output.status
    );
    serde_json::from_slice(&output.stdout).context("read the figures of the embedded side")
}
