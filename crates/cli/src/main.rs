//! `edgegrid`: runs an application in every edge site of a Kubernetes cluster and keeps
//! each site's traffic at home. This is the command line; one file per subcommand.

use std::backtrace::BacktraceStatus;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use edgegrid_runtime::logging::chain;

mod agent;
mod clusters;
mod controller;
mod crds;
mod federation;
mod join;
mod leave;
mod manifests;
mod output;
mod service;
mod statefulset;
mod wrapper;

/// Runs an application in every edge site of a Kubernetes cluster and keeps each site's
/// traffic at home.
#[derive(Parser)]
#[command(name = "edgegrid", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Agent(Box<agent::Args>),
    Controller(Box<controller::Args>),
    Crds(crds::Args),
    Get(clusters::Args),
    Join(join::Args),
    Leave(leave::Args),
    Manifests(manifests::Args),
    Statefulset(statefulset::Args),
    Wrapper(Box<wrapper::Args>),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Agent(args) => agent::run(&args),
        Command::Controller(args) => controller::run(*args),
        Command::Crds(args) => crds::run(&args),
        Command::Get(args) => clusters::run(args),
        Command::Join(args) => join::run(args),
        Command::Leave(args) => leave::run(args),
        Command::Manifests(args) => manifests::run(&args),
        Command::Statefulset(args) => statefulset::run(args),
        Command::Wrapper(args) => wrapper::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error as one sentence, and where it came from if `RUST_BACKTRACE` asks for it.
fn print_error(error: &anyhow::Error) {
    eprintln!("error: {}", chain(&**error));
    let backtrace = error.backtrace();
    if backtrace.status() == BacktraceStatus::Captured {
        eprintln!("\n{backtrace}");
    }
}
