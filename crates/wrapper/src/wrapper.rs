//! All parts together, from start to stop.

use crate::follow::Follower;
use crate::identity::Access;
use crate::metrics::Metrics;
use crate::publish::{Changes, Clock, Publisher};
use crate::serve::listen::{Socket, listen};
use crate::serve::{Caller, Server, boxed};
use crate::snapshot::{self, Reserve};
use crate::snapshot_writer::Writer;
use crate::tokens::Tokens;
use crate::upstream::{Link, Upstream};
use edgegrid_listwatch::Store;
use edgegrid_runtime::logging::chain;
use edgegrid_runtime::shutdown::Shutdown;
use edgegrid_store::Limits;
use futures::FutureExt;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How often the cluster's public keys are asked for, and how soon again after a failure.
const KEYS_PERIOD: Duration = Duration::from_mins(10);
const KEYS_RETRY: Duration = Duration::from_secs(10);

/// What a wrapper is to be.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own, and all combinations make sense"
)]
pub struct Config {
    /// Name of the node it is on.
    pub node: String,
    /// Folder for what outlives it; none to keep nothing.
    pub state: Option<PathBuf>,
    /// Whether lists are asked for as streams.
    pub stream_lists: bool,
    /// Whether `/debug/…` shows more than the view.
    pub debug: bool,
    /// At most so many connections at once.
    pub connections: usize,
    /// At most so many watches at once.
    pub watches: usize,
    /// How much of the past a client can resume from.
    pub history: Limits,
    /// At most so many bytes go to disk in an hour.
    pub snapshot_bytes_per_hour: u64,
    /// Who may read over TLS.
    pub access: Access,
    /// Whether bearer tokens are accepted over TLS.
    pub tokens: bool,
    /// Whether pods of the own units have short names in the view; asks for StatefulSets.
    pub names: bool,
    /// How long the own Node and its peers count on when their objects are gone; zero: not at all.
    pub node_grace: Duration,
}

impl Config {
    /// The defaults for a node.
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            state: None,
            stream_lists: false,
            debug: false,
            connections: 4096,
            watches: 4096,
            history: Limits {
                events: 1 << 13,
                bytes: 2 << 20,
            },
            snapshot_bytes_per_hour: 256 << 20,
            access: Access::default(),
            tokens: false,
            names: false,
            node_grace: Duration::from_mins(5),
        }
    }
}

/// A wrapper that reads and can be asked; clones share it.
#[derive(Clone)]
pub struct Wrapper {
    server: Server,
    upstream: Upstream,
    snapshot: Option<(PathBuf, u64)>,
    connections: Arc<Semaphore>,
}

impl Wrapper {
    /// Sets a wrapper up; nothing is read before [`Wrapper::run`].
    pub fn new(config: &Config, link: Link, clock: Clock) -> Self {
        let seed = clock().as_microsecond().max(0).unsigned_abs();
        let (reserve, start) = Reserve::open(config.state.as_deref(), seed);
        let store = Store::builder()
            .after(start)
            .limits(config.history)
            .journal(reserve)
            .build();
        let publisher = Publisher::new(&config.node, store, config.names, seed, clock);
        let publisher = Arc::new(publisher.with_node_grace(config.node_grace));
        let metrics = Arc::new(Metrics::new(&link.refusals));
        let upstream = Upstream {
            publisher: Arc::clone(&publisher),
            client: link.own.clone(),
            stream_lists: config.stream_lists,
            metrics: Arc::clone(&metrics),
            jitter: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))),
        };
        let tokens = config
            .tokens
            .then(|| Arc::new(Tokens::new(link.own.clone())));
        let server = Server {
            access: Arc::new(config.access.clone()),
            tokens,
            publisher,
            link,
            metrics,
            watches: Arc::new(Semaphore::new(config.watches)),
            debug: config.debug,
        };
        let snapshot = config
            .state
            .clone()
            .map(|folder| (folder, config.snapshot_bytes_per_hour));
        Self {
            server,
            upstream,
            snapshot,
            connections: Arc::new(Semaphore::new(config.connections)),
        }
    }

    /// What answers, for tests of the way to it.
    #[cfg(test)]
    pub(crate) fn server(&self) -> Server {
        self.server.clone()
    }

    /// A client of the view in this process.
    pub fn client(&self) -> kube::Client {
        let server = self.server.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let server = server.clone();
            async move {
                Ok::<_, std::convert::Infallible>(
                    server.answer(request.map(boxed), &Caller::Local).await,
                )
            }
            .boxed()
        });
        kube::Client::new(service, "default")
    }

    /// Follows names in this process; once.
    pub fn follow(&self) -> Follower {
        Follower::new(Arc::clone(&self.upstream.publisher))
    }

    /// Shows further metrics beside its own.
    pub fn register(&self, register: impl FnOnce(&mut Registry)) {
        self.upstream.metrics.extend(register);
    }

    /// Reads from upstream and answers on some sockets until shutdown.
    pub async fn run(self, sockets: Vec<Socket>, stop: Shutdown) -> io::Result<()> {
        self.restore();
        let mut tasks = JoinSet::new();
        tasks.spawn(self.upstream.clone().run(stop.clone()));
        if let Some((folder, bytes_per_hour)) = &self.snapshot {
            let writer = Writer {
                publisher: Arc::clone(&self.upstream.publisher),
                metrics: Arc::clone(&self.upstream.metrics),
                folder: folder.clone(),
                bytes_per_hour: *bytes_per_hour,
            };
            tasks.spawn(writer.run(stop.clone()));
        }
        if let Some(tokens) = self.server.tokens.clone() {
            tasks.spawn(refresh_keys(
                Arc::clone(&self.upstream.publisher),
                tokens,
                stop.clone(),
            ));
        }
        tasks.spawn(self.server.clone().refresh_discovery(stop.clone()));
        let mut answering = JoinSet::new();
        for socket in sockets {
            let (server, limit) = (self.server.clone(), Arc::clone(&self.connections));
            answering.spawn(listen(server, socket, limit, stop.clone()));
        }
        while let Some(ended) = answering.join_next().await {
            ended.map_err(io::Error::other)??;
        }
        stop.requested().await;
        self.server.publisher.reader.stop();
        // The last snapshot, if there is something to write.
        while tasks.join_next().await.is_some() {}
        Ok(())
    }

    /// Takes over what an earlier run left on disk, so that it can be served before upstream
    /// answers.
    fn restore(&self) {
        let Some((folder, _)) = &self.snapshot else {
            return;
        };
        let publisher = &self.upstream.publisher;
        snapshot::tighten(folder);
        let restored = publisher.restore(folder);
        publisher.set_on_disk(match &restored {
            Ok(true) => *publisher.changes.borrow(),
            Ok(false) | Err(_) => Changes::default(),
        });
        match restored {
            Ok(true) if publisher.is_open() => {
                let seconds = publisher.age().unwrap_or(0);
                tracing::info!(age_seconds = seconds, "serving the view from disk");
            }
            Ok(_) => tracing::info!(folder = %folder.display(), "no complete view on disk"),
            Err(error) => {
                self.upstream.metrics.snapshot_failures.inc();
                tracing::error!(folder = %folder.display(), error = %chain(&error), "cannot use the snapshot, setting it aside");
            }
        }
    }
}

/// Keeps the cluster's public keys at hand.
async fn refresh_keys(publisher: Arc<Publisher>, tokens: Arc<Tokens>, stop: Shutdown) {
    loop {
        let wait = match tokens.fetch().await {
            Some(keys) => {
                publisher.set_keys(keys);
                KEYS_PERIOD
            }
            None => KEYS_RETRY,
        };
        tokio::select! {
            () = sleep(wait) => {}
            () = stop.requested() => return,
        }
    }
}
