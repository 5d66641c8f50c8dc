//! Developer commands: everything that a contributor or CI runs is one `cargo xtask` away.
//!
//! One file per subcommand; the rest of the files are what several of them share.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool: standard output is its result"
)]

mod bench;
mod crds;
mod debian;
mod demo;
mod diff_api;
mod diff_statefulset;
mod edges;
mod fuzz;
mod generated;
mod lock;
mod process;
mod program;
mod rbac;
mod stopwatch;
mod tables;
mod test;
mod tools;
mod upstream;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of edgegrid.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Test(test::Args),
    Demo(demo::Args),
    DiffApi(diff_api::Args),
    DiffStatefulset(diff_statefulset::Args),
    Upstream(upstream::Args),
    Crds(crds::Args),
    Rbac(rbac::Args),
    Edges(edges::Args),
    Words(words::Args),
    Tables(tables::Args),
    Bench(bench::Args),
    Fuzz(fuzz::Args),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Test(args) => test::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::DiffApi(args) => diff_api::run(&args),
        Command::DiffStatefulset(args) => diff_statefulset::run(&args),
        Command::Upstream(args) => upstream::run(&args),
        Command::Crds(args) => crds::run(&args),
        Command::Rbac(args) => rbac::run(&args),
        Command::Edges(args) => edges::run(&args),
        Command::Words(args) => words::run(&args),
        Command::Tables(args) => tables::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
