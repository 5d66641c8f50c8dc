//! The controller measured by the program that measured SuperEdge's (`benches/load`), and what was
//! recorded of that one: one ruler for both.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use edgegrid_testkit::Cluster;
use serde::Deserialize;
use tokio::process::Command;

use crate::process::Controller;

/// Nodes that join, one after the other.
const JOINS: u32 = 3;
/// Deployments whose status changes, one after the other.
const STATUS_EVENTS: u32 = 10;
/// How long the controller is left alone.
const IDLE: &str = "20s";
/// The kernel counts CPU time in steps of so many seconds.
const TICK: f64 = 0.01;
/// The kernel counts memory in KiB.
const KIB_PER_MIB: f64 = 1024.0;
/// Calls of the test cluster's kubelet, one every ten seconds. A controller lists nodes when it starts, and
/// the load program only counts what comes after.
const KUBELETS: &str = "LIST nodes";

/// What is compared, in the order of all lists of figures here.
pub(crate) const FIGURES: [(&str, Unit); 8] = [
    ("until the last Deployment", Unit::Seconds),
    ("calls", Unit::Calls),
    ("of which 409", Unit::Calls),
    ("CPU", Unit::Cpu { events: 1 }),
    ("memory idle", Unit::Mib),
    ("memory at its peak", Unit::Mib),
    ("CPU of one joining node", Unit::Cpu { events: JOINS }),
    (
        "CPU of one child's change of status",
        Unit::Cpu {
            events: STATUS_EVENTS,
        },
    ),
];

/// SuperEdge's last state on kube-apiserver 1.37.0, 2026-11-15: one grid over so many units of one node.
///
/// These are its better figures, made with the status subresource that its own definitions lack: as
/// shipped, every write of a status is a 404 and is tried again. Where there is none, none was taken.
#[rustfmt::skip]
const SUPEREDGE: [(usize, [Option<Range>; FIGURES.len()]); 3] = [
    (10, [
        Some((0.04, 0.04)), Some((12.0, 17.0)), None, Some((0.02, 0.03)),
        Some((37.0, 41.0)), Some((47.0, 52.0)), Some((0.01, 0.01)), None,
    ]),
    (100, [
        Some((0.16, 0.19)), Some((121.0, 177.0)), None, Some((0.09, 0.09)),
        Some((41.0, 41.0)), Some((46.0, 49.0)), None, None,
    ]),
    (1000, [
        Some((2.7, 6.0)), Some((1409.0, 1681.0)), Some((306.0, 676.0)), Some((1.3, 1.6)),
        Some((77.0, 86.0)), Some((109.0, 133.0)), Some((0.07, 0.12)), Some((0.061, 0.061)),
    ]),
];

/// What a figure is counted in.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// Seconds on the wall.
    Seconds,
    /// Seconds of CPU time for one of so many events that were measured together.
    Cpu {
        events: u32,
    },
    Mib,
    /// Requests to the API server.
    Calls,
}

impl Unit {
    /// The step in which it is counted: less cannot be distinguished from nothing.
    pub(crate) fn step(self) -> f64 {
        match self {
            Unit::Cpu { events } => TICK / f64::from(events),
            Unit::Seconds | Unit::Mib | Unit::Calls => 0.0,
        }
    }
}

/// The least and the most that was recorded in several runs.
pub(crate) type Range = (f64, f64);

/// What the load program prints.
#[derive(Deserialize)]
pub(crate) struct Measured {
    /// Each of one node.
    pub(crate) units: usize,
    /// One grid, until the controller came to rest.
    stamp: Phase,
    /// One node in a new unit each.
    joins: Vec<Phase>,
    /// All changes of status together.
    status: Phase,
    idle: Phase,
}

/// What the controller used for one thing that happened.
#[derive(Deserialize)]
struct Phase {
    /// Until the last Deployment was seen.
    seconds: f64,
    /// By verb, resource and, unless it went well, status.
    calls: BTreeMap<String, i32>,
    cpu_s: f64,
    /// Resident memory at the end.
    rss_kib: f64,
    /// Resident memory at its highest since the controller's start.
    rss_peak_kib: f64,
}

/// Lets the load program measure the controller on a cluster of its own.
pub(crate) async fn measure(seload: &Path, edgegrid: &Path, units: usize) -> Result<Measured> {
    let cluster = Cluster::upstream().await?;
    cluster.install(edgegrid_api::crds()).await?;
    let controller = Controller::start(edgegrid, cluster.kubeconfig()?).await?;
    let mut load = Command::new(seload);
    load.arg("gridbench")
        .arg("-kubeconfig")
        .arg(cluster.kubeconfig()?)
        .arg(format!("-pid={}", controller.pid()))
        .arg(format!("-units={units}"))
        .arg(format!("-joins={JOINS}"))
        .arg(format!("-status-events={STATUS_EVENTS}"))
        .arg(format!("-resync={IDLE}"))
        .kill_on_drop(true);
    let ended = load
        .output()
        .await
        .with_context(|| format!("start {}", seload.display()))?;
    ensure!(
        ended.status.success(),
        "{} with {units} units ended with {}: {}",
        seload.display(),
        ended.status,
        String::from_utf8_lossy(&ended.stderr).trim_end()
    );
    serde_json::from_slice(&ended.stdout).context("read what the load program printed")
}

impl Measured {
    pub(crate) fn ours(&self) -> [f64; FIGURES.len()] {
        let joins: f64 = self.joins.iter().map(|phase| phase.cpu_s).sum();
        [
            self.stamp.seconds,
            self.stamp.calls(|_| true),
            self.stamp.calls(|kind| kind.ends_with(" 409")),
            self.stamp.cpu_s,
            self.idle.rss_kib / KIB_PER_MIB,
            self.idle.rss_peak_kib / KIB_PER_MIB,
            joins / f64::from(JOINS),
            self.status.cpu_s / f64::from(STATUS_EVENTS),
        ]
    }

    /// SuperEdge's with as many units.
    pub(crate) fn superedges(&self) -> [Option<Range>; FIGURES.len()] {
        let recorded = SUPEREDGE.iter().find(|(units, _)| *units == self.units);
        recorded.map_or([None; FIGURES.len()], |(_, figures)| *figures)
    }
}

impl Phase {
    /// How many calls of some kinds the controller has made.
    fn calls(&self, counts: fn(&str) -> bool) -> f64 {
        let is_meant = |kind: &str| kind != KUBELETS && counts(kind);
        let calls = self.calls.iter().filter(|(kind, _)| is_meant(kind));
        f64::from(calls.map(|(_, count)| count).sum::<i32>())
    }
}
