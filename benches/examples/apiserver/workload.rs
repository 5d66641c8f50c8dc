//! The operations, the same for every server.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::{Value, json};
use tokio::task::{JoinSet, yield_now};
use tokio::time::Instant;

use crate::figures::{Figure, Results};
use crate::objects::{config_map, config_map_name, pod};
use crate::server::Server;

/// Requests in flight, where their order does not matter.
const CLIENTS: usize = 16;
/// Requests between two looks at the CPU time.
const ROUND: usize = 200;

/// How much of everything.
pub(crate) struct Size {
    pub(crate) pods: usize,
    /// Pods in a page of a list.
    pub(crate) page: usize,
    pub(crate) config_maps: usize,
    pub(crate) watchers: usize,
    pub(crate) changes: usize,
    /// Operations that leave nothing behind are repeated for this much CPU time.
    pub(crate) at_least: Duration,
}

impl Size {
    pub(crate) const FULL: Self = Self {
        pods: 10_000,
        page: 500,
        config_maps: 5_000,
        watchers: 500,
        changes: 1_000,
        at_least: Duration::from_secs(3),
    };
    pub(crate) const QUICK: Self = Self {
        pods: 1_000,
        page: 500,
        config_maps: 500,
        watchers: 50,
        changes: 100,
        at_least: Duration::from_millis(300),
    };
    pub(crate) const SMOKE: Self = Self {
        pods: 50,
        page: 20,
        config_maps: 20,
        watchers: 3,
        changes: 10,
        at_least: Duration::from_millis(20),
    };
}

/// Everything, in an order in which each finds what it needs.
pub(crate) async fn run(server: &Server, size: &Size) -> Result<Results> {
    let load = Load { server, size };
    load.prepare().await?;
    let empty = server.usage()?.resident;
    let mut figures = vec![load.create_pods().await?];
    let grown = server.usage()?.resident.saturating_sub(empty);
    figures.push(load.create_config_maps().await?);
    figures.push(load.get().await?);
    figures.push(load.update().await?);
    figures.push(load.list().await?);
    figures.push(load.list_in_pages().await?);
    figures.push(load.watch().await?);
    let idle = Server::idle();
    let alone = Load {
        server: &idle,
        size,
    }
    .get()
    .await?;
    Ok(Results {
        figures,
        empty,
        grown,
        load_alone: alone.cpu_seconds / alone.count,
        version: load.version().await?,
    })
}

struct Load<'a> {
    server: &'a Server,
    size: &'a Size,
}

impl Load<'_> {
    async fn prepare(&self) -> Result<()> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}});
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        self.post("/api/v1/namespaces", &namespace).await?;
        self.post("/api/v1/namespaces/bench/serviceaccounts", &account)
            .await
    }

    async fn create_pods(&self) -> Result<Figure> {
        let path = "/api/v1/namespaces/bench/pods";
        self.create("create Pod", path, self.size.pods, pod).await
    }

    async fn create_config_maps(&self) -> Result<Figure> {
        let path = "/api/v1/namespaces/bench/configmaps";
        let body = |n| config_map(n, 0);
        self.create("create ConfigMap, 1 KB", path, self.size.config_maps, body)
            .await
    }

    async fn get(&self) -> Result<Figure> {
        let one = async |n: usize| {
            let path = format!("/api/v1/namespaces/bench/pods/pod-{}", n % self.size.pods);
            self.server.call(Method::GET, &path, Vec::new()).await
        };
        let rounds = self.rounds("get Pod", ROUND, async |start| {
            concurrently(start, one).await
        });
        rounds.await
    }

    async fn update(&self) -> Result<Figure> {
        let one = async |n: usize| {
            let (index, version) = (n % self.size.config_maps, 1 + n / self.size.config_maps);
            self.change(index, version).await
        };
        let rounds = self.rounds("update ConfigMap, 1 KB", ROUND, async |start| {
            concurrently(start, one).await
        });
        rounds.await
    }

    async fn list(&self) -> Result<Figure> {
        let name = format!("list {} Pods", self.size.pods);
        let path = "/api/v1/namespaces/bench/pods";
        self.rounds(&name, 1, async |_| {
            let bytes = self.server.call(Method::GET, path, Vec::new()).await?;
            ensure!(bytes.len() > self.size.pods * 1000, "a short list");
            Ok(())
        })
        .await
    }

    async fn list_in_pages(&self) -> Result<Figure> {
        let (pods, page) = (self.size.pods, self.size.page);
        let name = format!("list {pods} Pods in pages of {page}");
        self.rounds(&name, 1, async |_| {
            let mut token = String::new();
            loop {
                let path = format!("/api/v1/namespaces/bench/pods?limit={page}&continue={token}");
                let bytes = self.server.call(Method::GET, &path, Vec::new()).await?;
                token = continue_token(&bytes).context("find the metadata of a list")?;
                if token.is_empty() {
                    return Ok(());
                }
            }
        })
        .await
    }

    /// Counted are events that arrive; the changes that cause them are part of their cost.
    async fn watch(&self) -> Result<Figure> {
        let (watchers, changes) = (self.size.watchers, self.size.changes);
        let mut reading = JoinSet::new();
        let from = self.revision().await?;
        let path = format!("/api/v1/namespaces/bench/configmaps?watch=true&resourceVersion={from}");
        for _ in 0..watchers {
            let mut frames = self.server.open(Method::GET, &path, Vec::new()).await?;
            reading.spawn(async move {
                let mut seen = 0;
                while seen < changes {
                    let frame = frames.try_next().await?;
                    let frame = frame.context("a watch ended before its last event")?;
                    seen += frame.split(|byte| *byte == b'\n').count() - 1;
                }
                anyhow::Ok(())
            });
        }
        let stopwatch = Stopwatch::start(self.server)?;
        for n in 0..changes {
            self.change(n % self.size.config_maps, 1_000_000 + n)
                .await?;
            // In process nothing else makes room for the watchers.
            yield_now().await;
        }
        while let Some(read) = reading.join_next().await {
            read??;
        }
        let name = format!("watch event, {watchers} watchers × {changes} changes");
        stopwatch.stop(&name, watchers * changes)
    }

    async fn version(&self) -> Result<String> {
        let bytes = self
            .server
            .call(Method::GET, "/version", Vec::new())
            .await?;
        let version: Value = serde_json::from_slice(&bytes)?;
        Ok(version["gitVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    async fn revision(&self) -> Result<String> {
        let path = "/api/v1/namespaces/bench/configmaps?limit=1";
        let bytes = self.server.call(Method::GET, path, Vec::new()).await?;
        let list: Value = serde_json::from_slice(&bytes)?;
        let revision = list["metadata"]["resourceVersion"].as_str();
        Ok(revision.context("a list without a revision")?.to_owned())
    }

    async fn change(&self, index: usize, version: usize) -> Result<()> {
        let path = format!(
            "/api/v1/namespaces/bench/configmaps/{}",
            config_map_name(index)
        );
        let body = config_map(index, version).to_string().into_bytes();
        self.server.call(Method::PUT, &path, body).await?;
        Ok(())
    }

    async fn post(&self, path: &str, body: &Value) -> Result<()> {
        let body = body.to_string().into_bytes();
        self.server.call(Method::POST, path, body).await?;
        Ok(())
    }

    async fn create(
        &self,
        name: &str,
        path: &str,
        count: usize,
        body: impl Fn(usize) -> Value,
    ) -> Result<Figure> {
        let stopwatch = Stopwatch::start(self.server)?;
        stream::iter(0..count)
            .map(|n| {
                let body = body(n);
                async move { self.post(path, &body).await }
            })
            .buffer_unordered(CLIENTS)
            .try_collect::<()>()
            .await?;
        stopwatch.stop(name, count)
    }

    /// Repeats `round`, which is given how many operations there were before, until it used enough.
    async fn rounds(
        &self,
        name: &str,
        operations: usize,
        round: impl AsyncFn(usize) -> Result<()>,
    ) -> Result<Figure> {
        let stopwatch = Stopwatch::start(self.server)?;
        let mut done = 0;
        while stopwatch.cpu()? < self.size.at_least {
            round(done).await?;
            done += operations;
        }
        stopwatch.stop(name, done)
    }
}

async fn concurrently<T>(start: usize, one: impl AsyncFn(usize) -> Result<T>) -> Result<()> {
    let one = &one;
    stream::iter(start..start + ROUND)
        .map(|n| async move { one(n).await.map(drop) })
        .buffer_unordered(CLIENTS)
        .try_collect::<()>()
        .await
}

struct Stopwatch<'a> {
    server: &'a Server,
    started: Instant,
    cpu: Duration,
}

impl<'a> Stopwatch<'a> {
    fn start(server: &'a Server) -> Result<Self> {
        Ok(Self {
            server,
            started: Instant::now(),
            cpu: server.usage()?.cpu,
        })
    }

    fn cpu(&self) -> Result<Duration> {
        Ok(self.server.usage()?.cpu.saturating_sub(self.cpu))
    }

    fn stop(&self, name: &str, count: usize) -> Result<Figure> {
        let figure = Figure {
            name: name.to_owned(),
            count: u32::try_from(count)?.into(),
            cpu_seconds: self.cpu()?.as_secs_f64(),
            wall_seconds: self.started.elapsed().as_secs_f64(),
        };
        eprintln!(
            "  {name}: {count} in {:.1} s, {:.2} s of CPU",
            figure.wall_seconds, figure.cpu_seconds
        );
        Ok(figure)
    }
}

/// The token in the head of a list; kube-apiserver writes the items after it, we do as well.
fn continue_token(list: &[u8]) -> Option<String> {
    let head = &list[..list.len().min(1024)];
    let head = String::from_utf8_lossy(head);
    let (_, metadata) = head.split_once("\"metadata\":{")?;
    let (metadata, _) = metadata.split_once('}')?;
    let token = metadata.split_once("\"continue\":\"");
    Some(token.map_or_else(String::new, |(_, rest)| {
        rest.chars().take_while(|c| *c != '"').collect()
    }))
}
