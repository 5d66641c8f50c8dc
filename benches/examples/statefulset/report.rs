//! The figures of both as a table.

use std::fmt::Write as _;
use std::time::Duration;

use edgegrid_benches::report::{machine, table};
use jiff::Timestamp;

use crate::cases::Measured;

const MIB: f64 = 1024.0 * 1024.0;

pub(crate) fn tables(theirs: &[Measured], ours: &[Measured]) -> String {
    let head = [
        "work",
        "figure",
        "kube-controller-manager",
        "edgegrid",
        "ratio",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for (theirs, ours) in theirs.iter().zip(ours) {
        rows.extend(figures(theirs, ours));
    }
    let mut text = format!(
        "{} · {} · kube-apiserver 1.37 and etcd without fsync over loopback TLS · rate limits lifted, 10 workers each\n\n{}\n",
        Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
        table(&rows)
    );
    for (theirs, ours) in theirs.iter().zip(ours) {
        let _ = writeln!(
            text,
            "- {}: theirs {}; ours {}",
            theirs.name,
            theirs.calls.words(),
            ours.calls.words()
        );
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn figures(theirs: &Measured, ours: &Measured) -> Vec<[String; 5]> {
    let row = |name: &str, figure: &str, theirs: f64, ours: f64, unit: &str| {
        [
            name.to_owned(),
            figure.to_owned(),
            format!("{theirs:.1}{unit}"),
            format!("{ours:.1}{unit}"),
            format!("{:.2}×", ours / theirs),
        ]
    };
    let mib = |bytes: u64| bytes as f64 / MIB;
    let seconds = Duration::as_secs_f64;
    vec![
        row(
            &theirs.name,
            "time",
            seconds(&theirs.time),
            seconds(&ours.time),
            " s",
        ),
        row(
            "",
            "calls",
            theirs.calls.total() as f64,
            ours.calls.total() as f64,
            "",
        ),
        row("", "CPU", seconds(&theirs.cpu), seconds(&ours.cpu), " s"),
        row(
            "",
            "resident after",
            mib(theirs.resident),
            mib(ours.resident),
            " MiB",
        ),
        row(
            "",
            "resident peak",
            mib(theirs.peak),
            mib(ours.peak),
            " MiB",
        ),
    ]
}
