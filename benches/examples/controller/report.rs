//! The figures as tables.

use std::time::Duration;

use edgegrid_benches::report::{machine, table};
use jiff::Timestamp;

use crate::cases::Measured;

const MIB: u64 = 1024 * 1024;

pub(crate) fn tables(results: &[Measured]) -> String {
    format!(
        "{} · {} · kube-apiserver and etcd without fsync over loopback TLS\n\n{}\n{}",
        Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
        stamping(results),
        later(results),
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

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
