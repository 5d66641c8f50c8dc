//! What names cost a node: `edgegrid agent` with its DNS server beside `edgegrid wrapper` alone, at the same time on the
//! same cluster.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use edgegrid_benches::usage::{Usage, usage};
use edgegrid_testkit::process::Process;
use edgegrid_testkit::{Cluster, Patience, eventually_within};
use futures::{StreamExt, TryStreamExt, stream};
use hickory_proto::rr::RData;
use http::Request;
use kube::Client;

use crate::{load, site};

/// Where the two are read, and where the agent is asked.
const VIEWS: [&str; 2] = ["127.0.0.1:18532", "127.0.0.1:18533"];
const DNS: &str = "127.0.0.1:18534";
const TIMEOUT: Patience = Patience {
    limit: Duration::from_mins(5),
    pause: Duration::from_millis(20),
};
/// Changes that are under way at the same time.
const SIDE_BY_SIDE: usize = 8;

/// Both at some number of services; the wrapper's figures before the agent's.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) services: u32,
    pub(crate) memory: [Usage; 2],
    /// CPU time of one change, of each run; sorted.
    pub(crate) change: [Vec<Duration>; 2],
}

/// How much is done.
struct Work {
    /// Services, and ten times as many.
    few: u32,
    runs: u32,
    /// Changes in a run, spread over the headless ones of the few: more than are under way at the same time, so that
    /// changes of one service stay in their order.
    changes: u32,
}

/// The program on a node, twice.
struct Pair {
    processes: [Process; 2],
    views: [Client; 2],
    dns: SocketAddr,
}

/// Few services, and ten times as many.
pub(crate) async fn measure(edgegrid: &Path, quick: bool) -> Result<[Comparison; 2]> {
    let work = if quick {
        Work {
            few: 40,
            runs: 1,
            changes: 500,
        }
    } else {
        Work {
            few: 100,
            runs: 5,
            changes: 2_000,
        }
    };
    let cluster = Cluster::upstream().await?;
    let client = cluster.client();
    site::prepare(&client).await?;
    let mut made = 0;
    let mut comparisons = Vec::new();
    for services in [work.few, 10 * work.few] {
        eprintln!("an agent among {services} services …");
        site::populate(&client, made..services).await?;
        made = services;
        let folder = tempfile::tempdir()?;
        let pair = Pair::start(edgegrid, cluster.kubeconfig()?, folder.path()).await?;
        pair.knows(&site::short_name(services - 2), None).await?;
        let memory = pair.usage()?;
        let change = pair.changes(&client, &work).await?;
        comparisons.push(Comparison {
            services,
            memory,
            change,
        });
    }
    <[Comparison; 2]>::try_from(comparisons).map_err(|_| anyhow::anyhow!("two comparisons"))
}

impl Pair {
    async fn start(edgegrid: &Path, kubeconfig: &Path, folder: &Path) -> Result<Self> {
        let start = |name: &'static str, view: &str, more: &[&str]| {
            let mut command = Command::new(edgegrid);
            command.args([name, "--hostname", site::NODE, "--log-level=warn"]);
            command.args(["--bind-address", view, "--state-folder", ""]);
            command.arg("--kubeconfig").arg(kubeconfig).args(more);
            Process::start(name, &mut command, folder)
        };
        let hosts = folder.join("hosts").display().to_string();
        let names = ["--dns-listen", DNS, "--hostpath", &hosts];
        let pair = Self {
            processes: [
                start("wrapper", VIEWS[0], &[])?,
                start("agent", VIEWS[1], &names)?,
            ],
            views: [client(VIEWS[0])?, client(VIEWS[1])?],
            dns: DNS.parse()?,
        };
        for view in &pair.views {
            eventually_within(TIMEOUT, "the view is complete", async || {
                let request = Request::get("/readyz").body(Vec::new())?;
                Ok(view.request_text(request).await.map(drop)?)
            })
            .await?;
        }
        Ok(pair)
    }

    /// What the wrapper and the agent have used.
    fn usage(&self) -> Result<[Usage; 2]> {
        Ok([
            usage(&[self.processes[0].pid()])?,
            usage(&[self.processes[1].pid()])?,
        ])
    }

    /// Waits until the agent answers for a name, with this change if it is named; and until the wrapper shows it too.
    async fn knows(&self, name: &str, change: Option<(u32, u32)>) -> Result<()> {
        let question = load::question(name, "A")?;
        eventually_within(TIMEOUT, "the agent knows a name", async || {
            let message = load::ask(self.dns, &question)?;
            let first = message.answers.first().map(|record| record.data.clone());
            let Some(RData::A(address)) = first else {
                anyhow::bail!("no answer for {name}");
            };
            if let Some((service, change)) = change {
                let wanted = site::changed_address(change);
                ensure!(address.0 == wanted, "{name} is not {wanted}");
                ensure!(
                    self.wrapper_shows(service, &wanted.to_string()).await?,
                    "the wrapper does not show {wanted}"
                );
            }
            Ok(())
        })
        .await
    }

    async fn wrapper_shows(&self, service: u32, text: &str) -> Result<bool> {
        let path = site::slice_path(service);
        let request = Request::get(path).body(Vec::new())?;
        Ok(self.views[0].request_text(request).await?.contains(text))
    }

    /// CPU time of one change of a pod with a short name.
    async fn changes(&self, client: &Client, work: &Work) -> Result<[Vec<Duration>; 2]> {
        let mut times = [Vec::new(), Vec::new()];
        for run in 0..work.runs {
            let before = self.usage()?;
            let change = |n: u32| 2 * (n % (work.few / 2));
            stream::iter(0..work.changes)
                .map(|n| site::change(client, change(n), run * work.changes + n))
                .buffered(SIDE_BY_SIDE)
                .try_for_each(async |()| Ok(()))
                .await?;
            // The last change of each service that changed.
            for n in work.changes - work.few / 2..work.changes {
                let (service, number) = (change(n), run * work.changes + n);
                let name = site::short_name(service);
                self.knows(&name, Some((service, number))).await?;
            }
            let after = self.usage()?;
            for (times, (before, after)) in times.iter_mut().zip(before.iter().zip(&after)) {
                times.push(after.cpu.saturating_sub(before.cpu) / work.changes);
            }
        }
        for times in &mut times {
            times.sort();
        }
        Ok(times)
    }
}

fn client(address: &str) -> Result<Client> {
    let config = kube::Config::new(format!("http://{address}").parse()?);
    Ok(Client::try_from(config)?)
}
