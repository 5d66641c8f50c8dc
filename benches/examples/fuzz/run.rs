//! One target: draw, feed, keep the time.

use std::fmt::Debug;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::random::Random;

/// What one input may take at most; far above what any should.
const LIMIT: Duration = Duration::from_secs(20);
/// Address space of a target.
const MEMORY: u64 = 4 << 30;
/// Of tokio's workers as well: what nests too deep for it shall show.
const STACK: usize = 2 << 20;
/// An input is shown up to here.
const SHOWN: usize = 240;

/// Which inputs of a target are drawn, and how long for.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) inputs: u64,
    pub(crate) seed: u64,
    pub(crate) from: u64,
    /// How long a target is fed, if not with all inputs.
    pub(crate) seconds: Option<u64>,
    /// Only say what the first input is.
    pub(crate) show: bool,
}

/// Something that takes input.
pub(crate) trait Target {
    type Input: Debug;

    /// An input; depends on nothing but the random numbers.
    fn draw(&self, random: &mut Random) -> Self::Input;

    /// Takes an input and says whether it was a good one; panics if something is wrong.
    fn feed(&mut self, input: &Self::Input) -> bool;
}

/// What a target went through.
#[derive(Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) inputs: u64,
    accepted: u64,
    seconds: f64,
    slowest: f64,
    slowest_number: u64,
    pub(crate) slowest_input: String,
    peak_mib: u64,
}

impl Outcome {
    pub(crate) const HEAD: &str =
        "target           inputs  accepted    mean µs  slowest ms   (input)  peak MiB";

    pub(crate) fn row(&self, name: &str) -> String {
        #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
        let mean = 1e6 * self.seconds / self.inputs as f64;
        format!(
            "{name:<12} {:>10} {:>9} {mean:>10.1} {:>11.1} {:>9} {:>9}",
            self.inputs,
            self.accepted,
            1e3 * self.slowest,
            self.slowest_number,
            self.peak_mib,
        )
    }
}

/// Feeds a target all its inputs, on a stack of the usual size.
pub(crate) fn run<T: Target>(
    name: &str,
    plan: &Plan,
    trail: &Path,
    target: impl FnOnce() -> T + Send,
) -> Result<Outcome> {
    let limit = Rlimit {
        current: Some(MEMORY),
        maximum: Some(MEMORY),
    };
    setrlimit(Resource::As, limit).context("limit the memory")?;
    let trail = File::create(trail).context("create the trail")?;
    let current = watched(name);
    thread::scope(|scope| {
        let feeding = thread::Builder::new()
            .stack_size(STACK)
            .name(name.to_owned());
        let feed = || feed_all(name, plan, &trail, (&current, target()));
        let joined = feeding.spawn_scoped(scope, feed)?.join();
        joined.unwrap_or_else(|_| bail!("{name} could not be set up"))
    })
}

fn feed_all<T: Target>(
    name: &str,
    plan: &Plan,
    trail: &File,
    (current, mut target): (&AtomicU64, T),
) -> Result<Outcome> {
    let mut outcome = Outcome {
        inputs: 0,
        accepted: 0,
        seconds: 0.0,
        slowest: 0.0,
        slowest_number: 0,
        slowest_input: String::new(),
        peak_mib: 0,
    };
    if plan.show {
        let shown = target.draw(&mut Random::new(plan.seed, name, plan.from));
        outcome.slowest_input = format!("{shown:?}");
        return Ok(outcome);
    }
    let begun = Instant::now();
    let most = plan.seconds.map(Duration::from_secs);
    let has_time = |_: &u64| most.is_none_or(|most| begun.elapsed() < most);
    for number in (plan.from..plan.from + plan.inputs).take_while(has_time) {
        outcome.inputs += 1;
        trail.write_all_at(&number.to_le_bytes(), 0)?;
        let input = target.draw(&mut Random::new(plan.seed, name, number));
        current.store(number + 1, Ordering::Relaxed);
        let started = Instant::now();
        let Ok(accepted) = catch_unwind(AssertUnwindSafe(|| target.feed(&input))) else {
            bail!("{name} panicked at input {number}: {input:?}");
        };
        let seconds = started.elapsed().as_secs_f64();
        outcome.accepted += u64::from(accepted);
        outcome.seconds += seconds;
        if seconds > outcome.slowest {
            outcome.slowest = seconds;
            outcome.slowest_number = number;
        }
    }
    current.store(0, Ordering::Relaxed);
    let slowest = target.draw(&mut Random::new(plan.seed, name, outcome.slowest_number));
    outcome.slowest_input = format!("{slowest:?}").chars().take(SHOWN).collect();
    outcome.peak_mib = peak_mib();
    Ok(outcome)
}

/// The number of the current input plus one, and a thread that ends us when it stays the same too long.
fn watched(name: &str) -> Arc<AtomicU64> {
    let current = Arc::new(AtomicU64::new(0));
    let (seen, name) = (current.clone(), name.to_owned());
    thread::spawn(move || {
        let mut last = 0;
        loop {
            thread::sleep(LIMIT);
            let now = seen.load(Ordering::Relaxed);
            if now != 0 && now == last {
                eprintln!("{name}: input {} runs for more than {LIMIT:?}", now - 1);
                std::process::exit(1);
            }
            last = now;
        }
    });
    current
}

fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}
