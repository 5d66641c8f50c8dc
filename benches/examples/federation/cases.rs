//! What is done to the clusters, and what it takes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_benches::usage::{Usage, usage};
use edgegrid_testkit::faults::Fault;
use edgegrid_testkit::{Patience, eventually_within};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use tokio::time::{Instant, sleep};

use crate::counts::{self, Above, Counts};
use crate::site::{Member, Site};

/// How long everything is given to come to rest after a change: a report waits ten seconds at most.
const REST: Duration = Duration::from_secs(30);
/// How long a member is cut off.
const OUTAGE: Duration = Duration::from_hours(1);
/// A wait that ends, and looks often enough to tell when.
const TIMEOUT: Patience = Patience {
    limit: Duration::from_mins(30),
    pause: Duration::from_millis(100),
};

/// A control cluster and its members, all in this process.
pub(crate) struct Clusters {
    control: Site,
    members: Vec<Member>,
}

/// A step and what it took.
pub(crate) struct Step {
    /// Virtual time until it was done everywhere.
    pub(crate) until: Duration,
    /// CPU time of the whole process, until all had come to rest.
    pub(crate) cpu: Duration,
    /// Of the whole process, afterwards.
    pub(crate) after: Usage,
    /// Writes in the control cluster.
    pub(crate) above: Above,
    /// One entry per member, in their order.
    pub(crate) members: Vec<Counts>,
}

impl Clusters {
    /// Starts all clusters and lets the members join.
    pub(crate) async fn start(members: usize) -> Result<(Self, Step)> {
        let stopwatch = Stopwatch::start()?;
        let control = Site::control().await?;
        let mut clusters = Self {
            control,
            members: Vec::new(),
        };
        for n in 0..members {
            let joined = Member::join(&clusters.control, &format!("m{n:04}")).await;
            let joined = joined.with_context(|| format!("member {n}"))?;
            clusters.members.push(joined);
        }
        let step = clusters.rest(&stopwatch).await?;
        Ok((clusters, step))
    }

    /// Creates all grids and waits until every member has stamped every one.
    pub(crate) async fn create(&self, grids: usize) -> Result<Step> {
        let stopwatch = Stopwatch::start()?;
        for n in 0..grids {
            self.control.create_grid(&grid(n), "echo:1").await?;
        }
        for member in &self.members {
            wait_for_all(member, grids).await?;
        }
        self.rest(&stopwatch).await
    }

    /// Lets nothing happen for a minute.
    pub(crate) async fn idle(&self) -> Result<Step> {
        let stopwatch = Stopwatch::start()?;
        sleep(Duration::from_mins(1)).await;
        self.measured(&stopwatch, Duration::ZERO)
    }

    /// Changes the template of one grid and waits until every member runs it.
    pub(crate) async fn change(&self) -> Result<Step> {
        let stopwatch = Stopwatch::start()?;
        self.control.change_grid(&grid(0), "echo:2").await?;
        for member in &self.members {
            runs(member, &grid(0), "echo:2").await?;
        }
        self.rest(&stopwatch).await
    }

    /// Cuts the first member off for an hour, in which a grid changes.
    pub(crate) async fn cut(&self) -> Result<Step> {
        let stopwatch = Stopwatch::start()?;
        self.first()?.link.break_off(Fault::LoseRequest);
        sleep(OUTAGE / 2).await;
        self.control.change_grid(&grid(0), "echo:3").await?;
        for member in &self.members[1..] {
            runs(member, &grid(0), "echo:3").await?;
        }
        sleep(OUTAGE / 2).await;
        self.measured(&stopwatch, Duration::ZERO)
    }

    /// Heals its link and waits until it runs what it missed.
    pub(crate) async fn heal(&self) -> Result<Step> {
        let stopwatch = Stopwatch::start()?;
        self.first()?.link.restore();
        runs(self.first()?, &grid(0), "echo:3").await?;
        self.rest(&stopwatch).await
    }

    fn first(&self) -> Result<&Member> {
        self.members.first().context("there are no members")
    }

    /// Lets everything come to rest.
    async fn rest(&self, stopwatch: &Stopwatch) -> Result<Step> {
        let until = stopwatch.since.elapsed();
        sleep(REST).await;
        self.measured(stopwatch, until)
    }

    fn measured(&self, stopwatch: &Stopwatch, until: Duration) -> Result<Step> {
        let after = own_usage()?;
        Ok(Step {
            until,
            cpu: after.cpu.saturating_sub(stopwatch.cpu),
            after,
            above: Above::take(&self.control),
            members: counts::take(&self.members),
        })
    }
}

/// When a step began, in virtual time and in CPU time.
struct Stopwatch {
    since: Instant,
    cpu: Duration,
}

impl Stopwatch {
    fn start() -> Result<Self> {
        Ok(Self {
            since: Instant::now(),
            cpu: own_usage()?.cpu,
        })
    }
}

fn own_usage() -> Result<Usage> {
    usage(&[std::process::id()])
}

fn grid(n: usize) -> String {
    format!("grid-{n:04}")
}

async fn wait_for_all(member: &Member, grids: usize) -> Result<()> {
    let api = member.site.api::<Deployment>();
    eventually_within(TIMEOUT, "a member has every grid", async || {
        let stamped = api.list_metadata(&ListParams::default()).await?.items.len();
        ensure!(stamped == grids, "{stamped} of {grids} Deployments");
        Ok(())
    })
    .await
}

async fn runs(member: &Member, grid: &str, image: &str) -> Result<()> {
    let api = member.site.api::<Deployment>();
    let name = format!("{grid}-{}", member.unit);
    let what = format!("a member runs {image}");
    eventually_within(TIMEOUT, &what, async || {
        let found = api.get_opt(&name).await?;
        let pods = found.and_then(|one| one.spec.template.spec);
        let running = pods.and_then(|pods| pods.containers.first()?.image.clone());
        ensure!(running.as_deref() == Some(image), "it runs {running:?}");
        Ok(())
    })
    .await
}
