//! `cargo xtask fuzz`: random input, bounded in number, time and memory, and the same again for a seed.
//!
//! ```text
//! parent ─► per target a child with a memory limit ─► draw(seed, target, n) ─► feed ─► line of the table
//!    └─ reads from a file which input a child died of          └─ a watchdog ends what runs away
//! ```
//!
//! Inputs are valid ones (`corpus`) made odd (`mutate`), so that they come further than the first
//! check; some are nothing but noise. An input is wrong if it panics, takes too long or too much
//! memory, or makes the server answer what no client could read.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool: standard output is its result"
)]

mod corpus;
mod mutate;
mod random;
mod run;
mod targets;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Parser;

use run::{Outcome, Plan};

/// Feed random input to the parsers, the patches, the schemas, the API server and the DNS server.
#[derive(Parser)]
struct Args {
    /// How many inputs each target is given.
    #[arg(long, default_value_t = 20_000)]
    inputs: u64,
    /// Inputs follow from this number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after this time, all targets together.
    #[arg(long)]
    seconds: Option<u64>,
    /// The number of the first input.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Print the first input instead of feeding any.
    #[arg(long)]
    show: bool,
    /// Run one target in this process, and write down in this file how far it is.
    #[arg(long, hide = true)]
    trail: Option<PathBuf>,
    /// Targets to run; without any all of them.
    targets: Vec<String>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let plan = Plan {
        inputs: args.inputs,
        seed: args.seed,
        from: args.from,
        seconds: args.seconds,
        show: args.show,
    };
    if let Some(trail) = &args.trail {
        let [target] = &args.targets[..] else {
            bail!("one target with a trail");
        };
        let outcome = targets::run_one(target, &plan, trail)?;
        println!("{}", serde_json::to_string(&outcome)?);
        return Ok(());
    }
    let chosen = |name: &&str| args.targets.is_empty() || args.targets.iter().any(|t| t == name);
    let names: Vec<&str> = targets::NAMES.iter().copied().filter(chosen).collect();
    if names.len() < args.targets.len() {
        bail!("unknown target; there are {}", targets::NAMES.join(", "));
    }
    let share = |seconds: u64| seconds.div_ceil(names.len() as u64);
    let plan = Plan {
        seconds: args.seconds.map(share),
        ..plan
    };
    run_all(&names, &plan)
}

fn run_all(names: &[&str], plan: &Plan) -> Result<()> {
    println!("seed {}", plan.seed);
    println!("{}", Outcome::HEAD);
    let (mut total, mut failed) = (0, Vec::new());
    for name in names {
        match in_child(name, plan) {
            Ok(outcome) => {
                total += outcome.inputs;
                println!("{}", outcome.row(name));
                println!(
                    "      {}: {}",
                    if plan.show { "input" } else { "slowest" },
                    outcome.slowest_input
                );
            }
            Err(error) => {
                println!("{name:<12} FAILED: {error:#}");
                failed.push(*name);
            }
        }
    }
    println!("{total} inputs");
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// A target in a process of its own: what no `catch_unwind` catches ends only that.
fn in_child(name: &str, plan: &Plan) -> Result<Outcome> {
    let trail = std::env::temp_dir().join(format!("edgegrid-fuzz-{}", std::process::id()));
    let result = child(name, plan, &trail);
    // It may never have been made.
    let _ = std::fs::remove_file(&trail);
    result
}

fn child(name: &str, plan: &Plan, trail: &Path) -> Result<Outcome> {
    let mut command = Command::new(std::env::current_exe()?);
    for (flag, number) in [
        ("--inputs", plan.inputs),
        ("--seed", plan.seed),
        ("--from", plan.from),
    ] {
        command.arg(flag).arg(number.to_string());
    }
    if let Some(seconds) = plan.seconds {
        command.arg("--seconds").arg(seconds.to_string());
    }
    if plan.show {
        command.arg("--show");
    }
    command.arg("--trail").arg(trail).arg(name);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.context("start a target")?;
    if output.status.success() {
        return serde_json::from_slice(&output.stdout).context("read what a target reports");
    }
    let mut last = [0; 8];
    std::fs::File::open(trail)?.read_exact_at(&mut last, 0)?;
    let last = u64::from_le_bytes(last);
    bail!(
        "{} at input {last}; see it with `--seed {} --from {last} --show {name}`; again with `--inputs 1`, or from a multiple of {} \
         where the state before it counts",
        output.status,
        plan.seed,
        targets::STATE_FOR,
    )
}
