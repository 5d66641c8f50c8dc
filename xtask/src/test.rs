//! `cargo xtask test`: everything that must hold before a change goes in, cheapest first.
//!
//! ```text
//! select (arguments) ─► plan (what this machine can do) ─► run, stop at the first failure ─► summary
//! ```
//!
//! On a machine without Go or root it runs what can run and says plainly what it left out. On CI
//! anything left out is a failure, found before the long work and not after it.

mod plan;
mod steps;

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::stopwatch::{Stopwatch, human};
use crate::{debian, process, tools, upstream};
use plan::{LeftOut, Planned};
use steps::{Need, Run, Step};

/// Run every check and test.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only the quick checks, for the inner loop.
    #[arg(long, conflicts_with_all = ["all_versions", "only"])]
    fast: bool,

    /// The API tests against the oldest supported Kubernetes as well.
    #[arg(long)]
    all_versions: bool,

    /// Run only this step.
    #[arg(long, value_name = "STEP", value_parser = clap::builder::PossibleValuesParser::new(steps::names()))]
    only: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let selected = plan::select(args.fast, args.all_versions, args.only.as_deref());
    let machine = Machine::examine(&selected);
    let (planned, left_out) = plan::plan(&selected, |need| machine.unmet(need));
    if is_ci() && !left_out.is_empty() {
        bail!("on CI nothing may be left out:\n{}", listed(&left_out));
    }
    run_all(&planned)?;
    if !left_out.is_empty() {
        println!("\nleft out on this machine:\n{}", listed(&left_out));
    }
    Ok(())
}

fn run_all(planned: &[Planned]) -> Result<()> {
    let whole = Stopwatch::start();
    let mut times = Vec::new();
    for (n, step) in planned.iter().enumerate() {
        println!("\n[{}/{}] {}", n + 1, planned.len(), step.step.name);
        let watch = Stopwatch::start();
        let outcome = run_one(step, planned);
        times.push((step.step.name, watch.elapsed()));
        if let Err(error) = outcome {
            println!("{}", summary(&times, "failed", whole.elapsed()));
            return Err(error.context(failure(step.step.name)));
        }
        println!("{} took {}", step.step.name, human(watch.elapsed()));
    }
    println!("{}", summary(&times, "passed", whole.elapsed()));
    Ok(())
}

fn failure(step: &str) -> String {
    format!("step `{step}` failed; run it alone with `cargo xtask test --only {step}`")
}

fn run_one(planned: &Planned, all: &[Planned]) -> Result<()> {
    let step = planned.step;
    let mut command = match &step.run {
        Run::Own(run) => return run(),
        Run::InstallTools => return tools::ensure_all(&plan::tools_of(all)),
        Run::Cargo(arguments) => {
            let mut cargo = process::cargo();
            cargo.args(*arguments);
            cargo
        }
        Run::Tool(tool, arguments) => {
            let mut command = process::command(tools::ensure(tool)?);
            command.args(tool.subcommand).args(*arguments);
            command
        }
        Run::Tests { profile, .. } => {
            let mut nextest = process::command(tools::ensure(&tools::NEXTEST)?);
            nextest.args(tools::NEXTEST.subcommand);
            // Always the whole workspace, narrowed by the filter: with fewer packages cargo unites
            // fewer features and would compile most dependencies again.
            nextest.args(["run", "--workspace", "--profile", profile, "--filterset"]);
            nextest.arg(planned.filter().context("a test step has a filter")?);
            nextest
        }
    };
    process::run(command.envs(step.environment.iter().copied()))
}

/// What this machine lacks, asked once, and only for needs that a selected step has.
struct Machine {
    lab: Result<()>,
}

impl Machine {
    fn examine(steps: &[&Step]) -> Self {
        let needs_lab = steps
            .iter()
            .flat_map(|step| step.needs)
            .any(|need| matches!(need, Need::Lab | Need::LabForSome));
        Self {
            lab: if needs_lab { debian::ensure() } else { Ok(()) },
        }
    }

    /// Why a need cannot be met here.
    fn unmet(&self, need: &Need) -> Option<String> {
        let met = match need {
            Need::Tool(_) => Ok(()), // installed when its step comes; failing to is a failure
            Need::Programs(programs) => upstream::can_ensure(&programs()),
            Need::Go => upstream::has_go(),
            Need::Lab | Need::LabForSome => self
                .lab
                .as_ref()
                .copied()
                .map_err(|error| anyhow!("{error:#}")),
        };
        met.err().map(|error| format!("{error:#}"))
    }
}

fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

fn listed(left_out: &[LeftOut]) -> String {
    let lines: Vec<String> = left_out
        .iter()
        .map(|left| format!("  {}: {}", left.what, left.why))
        .collect();
    lines.join("\n")
}

fn summary(times: &[(&str, Duration)], last: &str, whole: Duration) -> String {
    let mut table = format!("\n{:14} {:>12}\n", "STEP", "TIME");
    for (n, (name, time)) in times.iter().enumerate() {
        let mark = if n + 1 == times.len() && last != "passed" {
            last
        } else {
            ""
        };
        table += format!("{name:14} {:>12}  {mark}", human(*time)).trim_end();
        table += "\n";
    }
    table + &format!("{:14} {:>12}  {last}", "all", human(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_marks_the_step_that_failed() {
        let times = [
            ("fmt", Duration::from_secs(1)),
            ("clippy", Duration::from_secs(75)),
        ];
        let summary = summary(&times, "failed", Duration::from_secs(76));
        let lines: Vec<&str> = summary.trim_start().lines().collect();
        assert_eq!(
            lines,
            [
                "STEP                   TIME",
                "fmt                   1.0 s",
                "clippy           1 min 15 s  failed",
                "all              1 min 16 s  failed",
            ]
        );
    }

    #[test]
    fn a_failure_names_the_step_and_the_command_to_repeat_it() {
        assert!(failure("clippy").contains("`cargo xtask test --only clippy`"));
    }
}
