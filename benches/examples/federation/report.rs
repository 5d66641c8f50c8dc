//! The table of `docs/scale.md`.

use std::time::Duration;

use edgegrid_benches::report::{machine, table};
use jiff::Timestamp;

use crate::cases::Step;
use crate::counts::{Counts, range};
use crate::steps::{Size, Steps};

pub(crate) const FILE: &str = "docs/scale.md";

type Row = [String; 3];

pub(crate) fn tables(size: Size, steps: &Steps) -> String {
    let Size { members, grids } = size;
    let head = ["step", "figure", "measured"].map(str::to_owned);
    let (cut, healed) = (&steps.cut, &steps.heal);
    let rows = [
        vec![head],
        step(&format!("{members} members join"), &steps.start),
        step(&format!("{grids} grids reach every member"), &steps.create),
        step("a minute in which nothing happens", &steps.idle),
        step("one grid's template changes", &steps.change),
        outage("a member is cut off for an hour, a grid changes", cut),
        outage("it is back", healed),
    ]
    .concat();
    format!(
        "{} · {} · {members} members × {grids} DeploymentGrids, all servers and controllers in one process and one thread, built with optimisation\n\n{}",
        Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
        table(&rows)
    )
}

/// What a step took that concerns every member.
fn step(name: &str, step: &Step) -> Vec<Row> {
    let mut rows = costs(name, step);
    rows.push(row("each member, upstream", upstream(&step.members)));
    rows.push(row("each member, its own cluster", own(&step.members)));
    rows
}

/// What a step took that concerns the first member.
fn outage(name: &str, step: &Step) -> Vec<Row> {
    let mut rows = costs(name, step);
    let (first, others) = step.members.split_at(1.min(step.members.len()));
    for (who, counts) in [("that member", first), ("each other", others)] {
        rows.push(row(&format!("{who}, upstream"), upstream(counts)));
        rows.push(row(&format!("{who}, its own cluster"), own(counts)));
    }
    rows
}

fn costs(name: &str, step: &Step) -> Vec<Row> {
    let (resident, peak) = (mib(step.after.resident), mib(step.after.peak));
    let above = &step.above;
    let mut rows = vec![
        row("CPU of the process", seconds(step.cpu)),
        row(
            "resident after, peak",
            format!("{resident} MiB, {peak} MiB"),
        ),
        row(
            "writes in the control cluster",
            format!(
                "{} of copies, {} of originals' status, {} others",
                above.copies, above.originals, above.others
            ),
        ),
    ];
    if !step.until.is_zero() {
        rows.insert(
            0,
            row("virtual time until all is there", seconds(step.until)),
        );
    }
    name.clone_into(&mut rows[0][0]);
    rows
}

fn upstream(members: &[Counts]) -> String {
    let reports = span(members, |one| one.reports);
    let events = span(members, |one| one.events);
    let lists = span(members, |one| one.lists);
    let watches = span(members, |one| one.watches);
    let leases = span(members, |one| one.leases);
    format!(
        "{reports} reports, {events} events, {lists} lists, {watches} watches begun or resumed, {leases} calls for the Lease"
    )
}

fn own(members: &[Counts]) -> String {
    format!("{} writes", span(members, |one| one.writes))
}

/// One number if it is the same for all.
fn span(members: &[Counts], of: impl Fn(&Counts) -> usize) -> String {
    let range = range(members, of);
    match (range.start(), range.end()) {
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least}–{most}"),
    }
}

fn row(figure: &str, measured: String) -> Row {
    [String::new(), figure.to_owned(), measured]
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn mib(bytes: u64) -> u64 {
    bytes / (1 << 20)
}
