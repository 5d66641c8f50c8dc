//! The figures as tables.

use std::time::Duration;

use edgegrid_benches::report::{machine, table};
use jiff::Timestamp;

use crate::beside_superedge::{self, FIGURES, Range, Unit};
use crate::cases::Measured;

const MIB: u64 = 1024 * 1024;

/// All of them; without the last one if nothing was measured beside SuperEdge.
pub(crate) fn tables(results: &[Measured], beside: &[beside_superedge::Measured]) -> String {
    format!(
        "{} · {} · kube-apiserver and etcd without fsync over loopback TLS · the run in the middle of several\n\n{}\n{}\n{}",
        Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
        stamping(results),
        later(results),
        beside_superedge(beside),
    )
}

fn stamping(results: &[Measured]) -> String {
    let head = [
        "stamping",
        "until the last Deployment",
        "plain loop of creates / of applies",
        "share of its rate",
        "calls",
        "beyond one per object",
        "409s",
        "CPU",
        "memory idle / peak",
    ];
    let rows = results.iter().map(|result| {
        let calls = &result.whole.calls;
        let objects = u64::try_from(result.objects()).unwrap_or(u64::MAX);
        [
            result.case.to_string(),
            seconds(result.stamping),
            format!(
                "{} / {}",
                seconds(result.creating),
                seconds(result.applying)
            ),
            format!(
                "{:.0} % / {:.0} %",
                100.0 * result.share(result.creating),
                100.0 * result.share(result.applying)
            ),
            calls.total().to_string(),
            calls.total().saturating_sub(objects).to_string(),
            calls.conflicts().to_string(),
            seconds(result.whole.cpu),
            format!(
                "{} / {} MiB",
                result.memory_idle / MIB,
                result.memory_peak / MIB
            ),
        ]
    });
    table(
        &std::iter::once(head.map(str::to_owned))
            .chain(rows)
            .collect::<Vec<_>>(),
    )
}

fn later(results: &[Measured]) -> String {
    let head = ["afterwards", "event", "calls", "CPU"].map(str::to_owned);
    let rows = results.iter().flat_map(|result| {
        result.later.iter().map(|(what, phase)| {
            [
                result.case.to_string(),
                (*what).to_owned(),
                phase.calls.words(),
                seconds(phase.cpu),
            ]
        })
    });
    table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// One grid, figure by figure.
fn beside_superedge(results: &[beside_superedge::Measured]) -> String {
    if results.is_empty() {
        return "Not measured with the program that measured SuperEdge: no `--seload` was given.\n"
            .into();
    }
    let head = [
        "units",
        "figure",
        "edgegrid",
        "SuperEdge",
        "share of its least",
    ];
    let rows = results.iter().flat_map(|result| {
        let figures = FIGURES.iter().zip(result.ours()).zip(result.superedges());
        figures.map(|((&(what, unit), ours), superedge)| {
            [
                result.units.to_string(),
                what.to_owned(),
                amount(unit, ours),
                superedge.map_or("not taken".into(), |range| amounts(unit, range)),
                superedge.map_or(String::new(), |range| share(unit, ours, range)),
            ]
        })
    });
    let rows = std::iter::once(head.map(str::to_owned)).chain(rows);
    format!(
        "Measured with the program that measured SuperEdge, then its last state on kube-apiserver 1.37.0, 2026-11-15. \
         Both machines were shared: trust CPU and counts, not wall times.\n\n{}",
        table(&rows.collect::<Vec<_>>())
    )
}

/// A figure, as exact as it is.
fn amount(unit: Unit, value: f64) -> String {
    let (below, value) = if value < unit.step() {
        ("< ", unit.step())
    } else {
        ("", value)
    };
    format!("{below}{}{}", number(unit, value), symbol(unit))
}

/// What was recorded, in the digits of the record.
fn amounts(unit: Unit, (least, most): Range) -> String {
    let symbol = symbol(unit);
    if least < most {
        format!("{least}–{most}{symbol}")
    } else {
        format!("{least}{symbol}")
    }
}

/// With as many digits as can be measured in the unit.
fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Cpu { events } if events > 1 => format!("{value:.3}"),
        Unit::Seconds | Unit::Cpu { .. } => format!("{value:.2}"),
        Unit::Mib | Unit::Calls => format!("{value:.0}"),
    }
}

/// What follows the number.
fn symbol(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds | Unit::Cpu { .. } => " s",
        Unit::Mib => " MiB",
        Unit::Calls => "",
    }
}

/// Of the least that SuperEdge needed: the comparison that is worst for us.
fn share(unit: Unit, ours: f64, (least, _): Range) -> String {
    let percent = |value: f64| format!("{:.0} %", 100.0 * value / least);
    if ours < unit.step() {
        return format!("< {}", percent(unit.step()));
    }
    percent(ours)
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
