//! The figures of both sides as tables, for a terminal and for `docs/figures.md`.

use std::fmt::Write as _;

use edgegrid_benches::report::{machine, table};
use jiff::Timestamp;

use crate::figures::Results;
use crate::workload::Size;

const MIB: f64 = 1024.0 * 1024.0;

/// Both sides beside each other.
pub(crate) fn tables(size: &Size, embedded: &Results, upstream: &Results) -> String {
    let mut text = format!(
        "{} · {} · embedded ({}) in process, built with optimisation · kube-apiserver {} and etcd without \
         fsync over loopback TLS\n\n",
        Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
        embedded.version,
        upstream.version,
    );
    text.push_str(&operations(embedded, upstream));
    text.push('\n');
    text.push_str(&memory(size, embedded, upstream));
    let _ = write!(
        text,
        "\nThe CPU time of the embedded server is that of its whole process: the load in it costs {:.1} µs per \
         call, which is not taken off. Of upstream only its two programs are counted, not their client.\n",
        1e6 * embedded.load_alone,
    );
    text
}

fn operations(embedded: &Results, upstream: &Results) -> String {
    let mut rows = vec![
        [
            "operation",
            "embedded, per CPU second",
            "upstream, per CPU second",
            "ratio",
            "embedded, µs of CPU each",
            "upstream, µs of CPU each",
            "embedded, per second",
            "upstream, per second",
        ]
        .map(str::to_owned),
    ];
    for (ours, theirs) in embedded.figures.iter().zip(&upstream.figures) {
        rows.push([
            ours.name.clone(),
            rounded(ours.per_cpu_second()),
            rounded(theirs.per_cpu_second()),
            format!("{:.1}×", ours.per_cpu_second() / theirs.per_cpu_second()),
            rounded(ours.microseconds()),
            rounded(theirs.microseconds()),
            rounded(ours.per_second()),
            rounded(theirs.per_second()),
        ]);
    }
    table(&rows)
}

#[expect(clippy::cast_precision_loss, reason = "shown as whole mebibytes")]
fn memory(size: &Size, embedded: &Results, upstream: &Results) -> String {
    let row = |name: &str, ours: u64, theirs: u64| {
        let (ours, theirs) = (ours as f64 / MIB, theirs as f64 / MIB);
        [
            name.to_owned(),
            format!("{ours:.0} MiB"),
            format!("{theirs:.0} MiB"),
            format!("1/{:.1}", theirs / ours),
        ]
    };
    table(&[
        ["resident memory", "embedded", "upstream", "ratio"].map(str::to_owned),
        row("before", embedded.empty, upstream.empty),
        row(
            &format!("growth with {} Pods", size.pods),
            embedded.grown,
            upstream.grown,
        ),
    ])
}

/// Three digits that count.
fn rounded(number: f64) -> String {
    match number {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}
