//! What is measured, in the order of the table it ends in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use edgegrid_testkit::{Cluster, Patience, eventually_within};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use tokio::time::{Instant, interval};

use crate::cluster::{self, SIDE_BY_SIDE, Shape};
use crate::process::Wrapper;
use crate::watch::Watcher;

const TIMEOUT: Patience = Patience {
    limit: Duration::from_mins(10),
    pause: Duration::from_millis(20),
};

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) shape: String,
    pub(crate) start: Start,
    pub(crate) start_from_disk: Start,
    pub(crate) anonymous: u64,
    pub(crate) resident: u64,
    /// Once the past that clients can resume from is as long as it may become.
    pub(crate) anonymous_full: u64,
    pub(crate) sessions: usize,
    pub(crate) updates_later: usize,
    pub(crate) anonymous_after: u64,
    pub(crate) updates: usize,
    pub(crate) own_updates: usize,
    pub(crate) cpu_of_updates: Duration,
    pub(crate) events_sent: u64,
    pub(crate) latencies: Vec<Latency>,
    pub(crate) many_nodes: usize,
    pub(crate) start_with_many: Start,
    pub(crate) cpu_of_foreign_move: Duration,
    pub(crate) cpu_of_peer_move: Duration,
    pub(crate) heartbeats: usize,
    pub(crate) bytes_of_foreign_heartbeats: u64,
    pub(crate) bytes_of_own_heartbeats: u64,
}

/// A start: until the first right answer.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

/// How much later than a direct watch a client received changes.
#[derive(Debug)]
pub(crate) struct Latency {
    pub(crate) rate: u32,
    /// 99th percentile of each run.
    pub(crate) p99: Vec<Duration>,
    pub(crate) p50: Duration,
}

struct Bench<'a> {
    edgegrid: &'a Path,
    kubeconfig: PathBuf,
    client: Client,
    shape: Shape,
    sequence: usize,
}

pub(crate) async fn measure(edgegrid: &Path, quick: bool) -> Result<Figures> {
    let scale = if quick { 10 } else { 1 };
    let shape = Shape {
        nodes: 100,
        units: 10,
        services: 1000 / scale,
        endpoints: 50,
    };
    let cluster = Cluster::upstream().await?;
    let mut bench = Bench {
        edgegrid,
        kubeconfig: cluster.kubeconfig()?.to_owned(),
        client: cluster.client(),
        shape,
        sequence: 0,
    };
    eprintln!("populate {shape:?} …");
    cluster::populate(&bench.client, shape).await?;
    let mut figures = Figures {
        shape: format!(
            "{} nodes, {} services × {} endpoints",
            shape.nodes, shape.services, shape.endpoints
        ),
        ..Figures::default()
    };
    bench.starts(&mut figures).await?;
    bench
        .churn(&mut figures, 10_000 / scale, 100 / scale)
        .await?;
    bench.many_nodes(&mut figures, 5000 / scale).await?;
    Ok(figures)
}

impl Bench<'_> {
    async fn wrapper(&self, state: Option<PathBuf>) -> Result<Wrapper> {
        Wrapper::start(self.edgegrid, &self.kubeconfig, state).await
    }

    async fn starts(&self, figures: &mut Figures) -> Result<()> {
        eprintln!("start from the API server and from disk …");
        let state = tempfile::tempdir()?;
        let first = self.wrapper(Some(state.path().to_owned())).await?;
        figures.start = start(&first)?;
        first.terminate()?;
        let second = self.wrapper(Some(state.path().to_owned())).await?;
        figures.start_from_disk = start(&second)?;
        Ok(())
    }

    async fn churn(
        &mut self,
        figures: &mut Figures,
        updates: usize,
        sessions: usize,
    ) -> Result<()> {
        let wrapper = self.wrapper(None).await?;
        let watcher = Watcher::attach(&wrapper.client).await?;
        let usage = wrapper.usage()?;
        (figures.anonymous, figures.resident) = (usage.anonymous, usage.resident);

        eprintln!("{updates} updates, a tenth of them of the own unit …");
        watcher.take();
        let before = wrapper.usage()?.cpu;
        let last = self.updates(updates).await?;
        seen(&watcher, last).await?;
        figures.cpu_of_updates = wrapper.usage()?.cpu.saturating_sub(before);
        (figures.updates, figures.own_updates) = (updates, updates / 10);
        figures.events_sent = watcher.take().events;

        for rate in [50, 200] {
            eprintln!("latency at {rate} updates a second …");
            figures.latencies.push(self.latency(&wrapper, rate).await?);
        }
        figures.anonymous_full = wrapper.usage()?.anonymous;
        eprintln!("{sessions} sessions …");
        for _ in 0..sessions {
            drop(Watcher::attach(&wrapper.client).await?);
            self.updates(updates / 10).await?;
        }
        (figures.sessions, figures.updates_later) = (sessions, sessions * (updates / 10));
        figures.anonymous_after = wrapper.usage()?.anonymous;
        Ok(())
    }

    /// Changes slices, each tenth one in the own unit; gives the number of the last of those.
    async fn updates(&mut self, count: usize) -> Result<usize> {
        let first = self.sequence + 1;
        self.sequence += count;
        let (client, shape) = (&self.client, self.shape);
        let is_own = |n: usize| n % 10 == 9;
        let touch = |n: usize| {
            let changed = (shape.endpoint(is_own(n), n), first + n);
            cluster::touch(client, shape, n % shape.services, changed)
        };
        stream::iter(0..count)
            .map(touch)
            .buffered(SIDE_BY_SIDE)
            .try_for_each(async |()| Ok(()))
            .await?;
        let last = (0..count).rev().find(|n| is_own(*n));
        Ok(last.map_or(0, |n| first + n))
    }

    /// Changes of the own unit at a rate, seen directly and through the wrapper, in five runs.
    async fn latency(&mut self, wrapper: &Wrapper, rate: u32) -> Result<Latency> {
        let direct = Watcher::attach(&self.client).await?;
        let through = Watcher::attach(&wrapper.client).await?;
        let (mut p99, mut all) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            direct.take();
            through.take();
            let mut tick = interval(Duration::from_secs(1) / rate);
            for n in 0..rate as usize * 5 {
                tick.tick().await;
                self.sequence += 1;
                let changed = (self.shape.endpoint(true, n), self.sequence);
                cluster::touch(&self.client, self.shape, n % self.shape.services, changed).await?;
            }
            seen(&through, self.sequence).await?;
            seen(&direct, self.sequence).await?;
            let (direct, through) = (direct.take().changes, through.take().changes);
            let mut added: Vec<Duration> = through
                .iter()
                .filter_map(|(n, at)| Some(at.saturating_duration_since(*direct.get(n)?)))
                .collect();
            added.sort();
            p99.push(percentile(&added, 99));
            all.extend(added);
        }
        p99.sort();
        all.sort();
        Ok(Latency {
            rate,
            p99,
            p50: percentile(&all, 50),
        })
    }

    async fn many_nodes(&mut self, figures: &mut Figures, nodes: usize) -> Result<()> {
        eprintln!("{nodes} nodes …");
        let all = Shape {
            nodes,
            units: nodes / 5,
            ..self.shape
        };
        cluster::add_nodes(&self.client, all, self.shape.nodes..nodes).await?;
        figures.many_nodes = nodes;
        let wrapper = self.wrapper(None).await?;
        figures.start_with_many = start(&wrapper)?;
        let _watcher = Watcher::attach(&wrapper.client).await?;
        figures.cpu_of_foreign_move = self.moves(&wrapper, 11, ["unit-2", "unit-1"]).await?;
        figures.cpu_of_peer_move = self.moves(&wrapper, 10, ["unit-1", "unit-0"]).await?;
        let beats = 200;
        figures.heartbeats = beats;
        figures.bytes_of_foreign_heartbeats = self.heartbeats(&wrapper, 11, beats).await?;
        figures.bytes_of_own_heartbeats = self.heartbeats(&wrapper, 10, beats).await?;
        Ok(())
    }

    /// CPU of one move, as the mean of many.
    async fn moves(&self, wrapper: &Wrapper, node: usize, units: [&str; 2]) -> Result<Duration> {
        const TIMES: u32 = 100;
        wrapper.uplink_at_rest().await?;
        let before = wrapper.usage()?.cpu;
        for n in 0..TIMES as usize {
            cluster::relabel(&self.client, node, units[n % 2]).await?;
        }
        wrapper.uplink_at_rest().await?;
        Ok(wrapper.usage()?.cpu.saturating_sub(before) / TIMES)
    }

    async fn heartbeats(&self, wrapper: &Wrapper, node: usize, count: usize) -> Result<u64> {
        let before = wrapper.uplink_at_rest().await?;
        for n in 0..count {
            cluster::heartbeat(&self.client, node, n).await?;
        }
        Ok(wrapper.uplink_at_rest().await? - before)
    }
}

fn start(wrapper: &Wrapper) -> Result<Start> {
    Ok(Start {
        wall: wrapper.ready_after,
        cpu: wrapper.usage()?.cpu,
    })
}

async fn seen(watcher: &Watcher, change: usize) -> Result<()> {
    let started = Instant::now();
    eventually_within(TIMEOUT, "the last change arrives", async || {
        anyhow::ensure!(watcher.has(change), "not after {:?}", started.elapsed());
        Ok(())
    })
    .await
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}
