//! The same random scenarios under kube-controller-manager and under our StatefulSet controller, on the
//! real API server; `cargo xtask diff-statefulset` runs it.
//!
//! ```text
//! seed ─► scenarios ─┬─► kube-controller-manager        ─► pictures ─┬─► differences
//!                    └─► the same without it, and ours ─► pictures ─┘
//! ```
//!
//! A picture is taken after every step, when nothing happens any more: pods, claims, revisions and status
//! whole, and the order of creations and deletions where the rules fix it.

#![expect(clippy::print_stdout, reason = "the report is the purpose")]

#[path = "../diff_api/rng.rs"]
mod rng;
mod scenario;
mod side;
mod snapshot;

use anyhow::{Result, bail};
use clap::Parser;
use futures::{StreamExt, stream};

use scenario::Scenario;
use side::{Course, Side};

/// Compare our StatefulSet controller with that of kube-controller-manager.
#[derive(Parser)]
struct Args {
    /// Number of scenarios.
    #[arg(long, default_value_t = 200)]
    scenarios: usize,
    /// The same seed gives the same scenarios.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this one of them.
    #[arg(long)]
    only: Option<usize>,
    /// Scenarios that run at the same time.
    #[arg(long, default_value_t = 16)]
    together: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let numbers = args.only.map_or(0..args.scenarios, |only| only..only + 1);
    let scenarios: Vec<Scenario> = numbers
        .map(|number| Scenario::draw(args.seed, number))
        .collect();
    println!("{} scenarios of seed {}", scenarios.len(), args.seed);
    let mut different = compare(scenarios, args.together).await?;
    if !different.is_empty() {
        println!("once more, one at a time: a busy machine may have been caught half-way");
        different = compare(different, 1).await?;
    }
    if !different.is_empty() {
        bail!("{} scenarios differ", different.len());
    }
    Ok(())
}

/// Lives scenarios on both sides and returns those that differ.
async fn compare(scenarios: Vec<Scenario>, together: usize) -> Result<Vec<Scenario>> {
    let theirs = {
        let side = Side::theirs().await?;
        live_all(&side, &scenarios, together).await?
    };
    println!("kube-controller-manager is done");
    let ours = {
        let side = Side::ours().await?;
        let courses = live_all(&side, &scenarios, together).await?;
        side.check_rights()?;
        courses
    };
    let (count, pictures) = (scenarios.len(), theirs.iter().map(Vec::len).sum::<usize>());
    let sides = theirs.iter().zip(&ours);
    let different: Vec<Scenario> = scenarios
        .into_iter()
        .zip(sides)
        .filter(|(scenario, (theirs, ours))| !is_same(scenario, theirs, ours))
        .map(|(scenario, _)| scenario)
        .collect();
    let differ = different.len();
    println!("{count} scenarios, {pictures} pictures compared, {differ} scenarios differ");
    Ok(different)
}

async fn live_all(side: &Side, scenarios: &[Scenario], together: usize) -> Result<Vec<Course>> {
    let courses = stream::iter(scenarios)
        .map(|scenario| side.live(scenario))
        .buffered(together);
    let courses: Vec<Result<Course>> = courses.collect().await;
    courses.into_iter().collect()
}

/// Prints what differs, up to the first step that does.
fn is_same(scenario: &Scenario, theirs: &Course, ours: &Course) -> bool {
    for (index, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
        let found = theirs.differences(ours, scenario.is_ordered());
        if found.is_empty() {
            continue;
        }
        println!(
            "\n{} differs after step {index} of {:#?}\n{}",
            scenario.name, scenario.steps, scenario.set["spec"]
        );
        for difference in found {
            println!("  {difference}");
        }
        return false;
    }
    true
}
