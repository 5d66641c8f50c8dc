//! The tables of `docs/performance.md`.

use std::time::Duration;

use edgegrid_benches::report::{machine, table};

use crate::cases::{Figures, Start};

pub(crate) const FILE: &str = "docs/performance.md";

/// What was measured and what is aimed at, which is a share of what SuperEdge's wrapper needs.
type Row = [String; 3];

pub(crate) fn tables(figures: &Figures) -> String {
    let head = ["work", "measured", "aim"].map(str::to_owned);
    let rows = [vec![head], load(figures), nodes(figures), starts(figures)].concat();
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d");
    format!(
        "{today} · {} · kube-apiserver 1.37 and etcd without fsync over loopback TLS\n\n{}",
        machine(),
        table(&rows)
    )
}

fn row(work: impl Into<String>, measured: impl Into<String>, aim: &str) -> Row {
    [work.into(), measured.into(), aim.to_owned()]
}

fn load(figures: &Figures) -> Vec<Row> {
    let (anonymous, resident) = (mib(figures.anonymous), mib(figures.resident));
    let (updates, own) = (figures.updates, figures.own_updates);
    let (cpu, sent) = (seconds(figures.cpu_of_updates), figures.events_sent);
    let mut rows = vec![
        row(
            format!("memory, {}, one client", figures.shape),
            format!("RssAnon {anonymous}, RSS {resident}"),
            "RssAnon ≤ 16 MB, RSS ≤ 22 MB",
        ),
        row(
            "… once its history is full",
            format!("RssAnon {}", mib(figures.anonymous_full)),
            "RssAnon ≤ 16 MB",
        ),
        row(
            format!(
                "… after {} more sessions and {} updates",
                figures.sessions, figures.updates_later
            ),
            format!("RssAnon {}", mib(figures.anonymous_after)),
            "flat from there",
        ),
        row(
            format!("CPU of {updates} updates, {own} of the own unit"),
            format!("{cpu} s, {sent} events sent"),
            "≤ 0.8 s",
        ),
    ];
    for (latency, aim) in figures.latencies.iter().zip(["p99 ≤ 1 ms", "p99 ≤ 7.7 ms"]) {
        let runs = latency.p99.len();
        let p99 = latency.p99.get(runs / 2).copied().unwrap_or_default();
        let (p50, p99) = (millis(latency.p50), millis(p99));
        rows.push(row(
            format!("added latency at {} updates/s", latency.rate),
            format!("p50 {p50} ms, p99 {p99} ms (median of {runs} runs)"),
            aim,
        ));
    }
    rows
}

fn nodes(figures: &Figures) -> Vec<Row> {
    let (nodes, beats) = (figures.many_nodes, figures.heartbeats);
    let cpu = |time: Duration| format!("{} ms CPU", millis(time));
    vec![
        row(
            format!("one of {nodes} nodes moved: another site's"),
            cpu(figures.cpu_of_foreign_move),
            "nothing",
        ),
        row(
            "… one of the own site",
            cpu(figures.cpu_of_peer_move),
            "≤ 2 ms",
        ),
        row(
            format!("uplink bytes of {beats} heartbeats: another site's node"),
            figures.bytes_of_foreign_heartbeats.to_string(),
            "none",
        ),
        row(
            "… a node of the own site",
            figures.bytes_of_own_heartbeats.to_string(),
            "proportional",
        ),
    ]
}

fn starts(figures: &Figures) -> Vec<Row> {
    let started = |start: Start| format!("{} s CPU, {} s", seconds(start.cpu), seconds(start.wall));
    let many = format!("start with {} nodes", figures.many_nodes);
    vec![
        row(many, started(figures.start_with_many), "≤ 1 s CPU"),
        row(
            "start from the API server",
            started(figures.start),
            "≤ 0.25 s CPU, 0.55 s",
        ),
        row(
            "start from disk",
            started(figures.start_from_disk),
            "≤ 0.1 s",
        ),
    ]
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
