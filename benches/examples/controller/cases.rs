//! The cases, and what is measured in each.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use edgegrid_testkit::Cluster;
use kube::Client;
use tokio::time::Instant;

use crate::calls::Calls;
use crate::load::{self, Write};
use crate::process::Controller;

/// So many grids over so many units of one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    grids: usize,
    units: usize,
}

impl Case {
    /// Over how many units, if it is about one grid: such cases were measured of SuperEdge.
    pub(crate) fn units_of_one_grid(self) -> Option<usize> {
        (self.grids == 1).then_some(self.units)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.grids == 1 { "" } else { "s" };
        write!(f, "{} grid{plural} × {} units", self.grids, self.units)
    }
}

impl FromStr for Case {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (grids, units) = text.split_once('x').context("write it as 1x1000")?;
        Ok(Self {
            grids: grids.parse()?,
            units: units.parse()?,
        })
    }
}

/// What a case showed.
pub(crate) struct Measured {
    pub(crate) case: Case,
    /// Time of a plain loop of POSTs for as many Deployments.
    pub(crate) creating: Duration,
    /// Time of a plain loop of applies.
    pub(crate) applying: Duration,
    /// From the first grid to the last Deployment.
    pub(crate) stamping: Duration,
    /// All until the controller came to rest.
    pub(crate) whole: Phase,
    pub(crate) memory_idle: u64,
    pub(crate) memory_peak: u64,
    /// Later events: what happened, and what it cost.
    pub(crate) later: Vec<(&'static str, Phase)>,
}

/// What the controller did in a while.
pub(crate) struct Phase {
    pub(crate) calls: Calls,
    pub(crate) cpu: Duration,
}

impl Measured {
    /// Deployments per second, those of a plain loop being 1.
    pub(crate) fn share(&self, plain: Duration) -> f64 {
        plain.as_secs_f64() / self.stamping.as_secs_f64()
    }

    pub(crate) fn objects(&self) -> usize {
        self.case.grids * self.case.units
    }
}

pub(crate) fn all(quick: bool) -> Vec<Case> {
    let cases = [(1, 10), (1, 100), (1, 1000), (100, 100)];
    let count = if quick { 2 } else { cases.len() };
    cases[..count]
        .iter()
        .map(|&(grids, units)| Case { grids, units })
        .collect()
}

/// Measures one case several times and returns the run in the middle: the machine is shared.
pub(crate) async fn measure(program: &Path, case: Case, runs: usize) -> Result<Measured> {
    let mut measured = Vec::new();
    for _ in 0..runs.max(1) {
        measured.push(measure_once(program, case).await?);
    }
    let share = |one: &Measured| one.share(one.creating);
    measured.sort_by(|a, b| share(a).total_cmp(&share(b)));
    Ok(measured.swap_remove(measured.len() / 2))
}

/// Measures one case on a cluster of its own.
async fn measure_once(program: &Path, case: Case) -> Result<Measured> {
    let cluster = Cluster::upstream().await?;
    let client = cluster.client();
    cluster.install(edgegrid_api::crds()).await?;
    load::add_nodes(&client, 0..case.units).await?;
    let objects = case.grids * case.units;
    let creating = load::plain_loop(&client, Write::Create, objects).await?;
    let applying = load::plain_loop(&client, Write::Apply, objects).await?;

    let controller = Controller::start(program, cluster.kubeconfig()?).await?;
    rest(&client).await?;
    let meter = Meter {
        client: &client,
        controller: &controller,
    };
    let start = meter.mark().await?;
    let began = Instant::now();
    let waiting = load::wait_for_deployments(&client, load::GRIDS, objects);
    let (waited, created) = futures::join!(waiting, load::create_grids(&client, case.grids));
    created.and(waited)?;
    let stamping = began.elapsed();
    let whole = meter
        .since(&start, "POST deploymentgrids", case.grids)
        .await?;
    let later = later(&meter, case).await?;
    let used = controller.usage()?;
    Ok(Measured {
        case,
        creating,
        applying,
        stamping,
        whole,
        memory_idle: used.resident,
        memory_peak: used.peak,
        later,
    })
}

async fn later(meter: &Meter<'_>, case: Case) -> Result<Vec<(&'static str, Phase)>> {
    let client = meter.client;
    let mut phases = Vec::new();
    let start = meter.mark().await?;
    load::add_nodes(client, case.units..case.units + 1).await?;
    phases.push((
        "one node in a new unit",
        meter.since(&start, "POST nodes", 1).await?,
    ));

    let start = meter.mark().await?;
    load::relabel(client, 0, "unit-1").await?;
    phases.push((
        "one node moved to another unit",
        meter.since(&start, "PATCH nodes", 1).await?,
    ));

    let start = meter.mark().await?;
    for n in 0..20 {
        load::heartbeat(client, n % case.units, n).await?;
    }
    phases.push((
        "20 node heartbeats",
        meter.since(&start, "PATCH nodes/status", 20).await?,
    ));

    let start = meter.mark().await?;
    load::touch_grid(client).await?;
    phases.push((
        "a pass that changes nothing",
        meter.since(&start, "PATCH deploymentgrids", 1).await?,
    ));
    Ok(phases)
}

struct Meter<'a> {
    client: &'a Client,
    controller: &'a Controller,
}

impl Meter<'_> {
    async fn mark(&self) -> Result<Phase> {
        Ok(Phase {
            calls: Calls::until_now(self.client).await?,
            cpu: self.controller.usage()?.cpu,
        })
    }

    /// What happened since `start`, once it is over, without the load's own requests.
    async fn since(&self, start: &Phase, own: &str, count: usize) -> Result<Phase> {
        rest(self.client).await?;
        let now = self.mark().await?;
        let own_calls = u64::try_from(count)?;
        Ok(Phase {
            calls: now.calls.since(&start.calls).without(own, own_calls),
            cpu: now.cpu.saturating_sub(start.cpu),
        })
    }
}

/// Waits until nobody has asked for anything for two seconds.
async fn rest(client: &Client) -> Result<()> {
    let mut before = Calls::until_now(client).await?.total();
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = Calls::until_now(client).await?.total();
        if now == before {
            return Ok(());
        }
        before = now;
    }
}
