//! The tables of `docs/performance.md`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use edgegrid_benches::report::{machine, table};

use crate::cases::{Figures, Start};

const FILE: &str = "docs/performance.md";
const BEGIN: &str = "<!-- begin: cargo xtask bench wrapper --write -->";
const END: &str = "<!-- end -->";

pub(crate) fn tables(figures: &Figures) -> String {
    let mut rows = vec![["work", "measured", "SuperEdge", "aim"].map(str::to_owned)];
    let mut row = |work: String, measured: String, superedge: &str, aim: &str| {
        rows.push([work, measured, superedge.to_owned(), aim.to_owned()]);
    };
    let shape = &figures.shape;
    row(
        format!("memory, {shape}, one client"),
        format!(
            "RssAnon {}, RSS {}",
            mib(figures.anonymous),
            mib(figures.resident)
        ),
        "RSS 113–136 MB",
        "RssAnon ≤ 16 MB, RSS ≤ 1/5",
    );
    row(
        format!("… after {} more sessions", figures.sessions),
        format!("RssAnon {}", mib(figures.anonymous_after)),
        "277 MB after three",
        "flat",
    );
    row(
        format!(
            "CPU of {} updates, {} of the own unit",
            figures.updates, figures.own_updates
        ),
        format!(
            "{} s, {} events sent",
            seconds(figures.cpu_of_updates),
            figures.events_sent
        ),
        "8.0–8.9 s, 10,000 events",
        "≤ 1/10",
    );
    for latency in &figures.latencies {
        let median = latency
            .p99
            .get(latency.p99.len() / 2)
            .copied()
            .unwrap_or_default();
        row(
            format!("added latency at {}/s", latency.rate),
            format!(
                "p50 {} ms, p99 {} ms (median of {} runs)",
                millis(latency.p50),
                millis(median),
                latency.p99.len()
            ),
            "p99 3 ms at 50/s, 23–134 ms unthrottled",
            "≤ 1/3",
        );
    }
    row(
        format!("one of {} nodes moved: another site's", figures.many_nodes),
        format!("{} ms CPU", millis(figures.cpu_of_foreign_move)),
        "100–300 ms",
        "nothing",
    );
    row(
        "… one of the own site".to_owned(),
        format!("{} ms CPU", millis(figures.cpu_of_peer_move)),
        "100–300 ms",
        "≤ 1/50",
    );
    row(
        format!("start with {} nodes", figures.many_nodes),
        started(figures.start_with_many),
        "672 s CPU, 14 min",
        "≤ 1 s CPU",
    );
    row(
        "start, from the API server".to_owned(),
        started(figures.start),
        "0.5 s CPU, 1.1 s",
        "≤ 1/2",
    );
    row(
        "start, from disk".to_owned(),
        started(figures.start_from_disk),
        "—",
        "≤ 100 ms",
    );
    row(
        format!(
            "uplink bytes of {} heartbeats: another site's",
            figures.heartbeats
        ),
        figures.bytes_of_foreign_heartbeats.to_string(),
        "all nodes' in full",
        "none",
    );
    row(
        "… of the own site".to_owned(),
        figures.bytes_of_own_heartbeats.to_string(),
        "",
        "proportional",
    );
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d");
    format!(
        "{today} · {} · kube-apiserver 1.37 and etcd without fsync over loopback TLS\n\n{}",
        machine(),
        table(&rows)
    )
}

/// Puts the tables into the file, in place of those of an earlier run.
pub(crate) fn write(tables: &str) -> Result<()> {
    let old = fs::read_to_string(FILE).with_context(|| format!("read {FILE}"))?;
    let (before, rest) = old
        .split_once(BEGIN)
        .with_context(|| format!("{FILE} lacks {BEGIN}"))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("{FILE} lacks {END}"))?;
    fs::write(FILE, format!("{before}{BEGIN}\n\n{tables}\n{END}{after}"))
        .with_context(|| format!("write {FILE}"))
}

fn started(start: Start) -> String {
    format!("{} s CPU, {} s", seconds(start.cpu), seconds(start.wall))
}

fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1000.0)
}

fn mib(bytes: u64) -> String {
    let tenths = bytes * 10 / (1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}
