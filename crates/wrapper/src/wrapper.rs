//! All parts together, from start to stop.

use crate::keeper::{Clock, Keeper};
use crate::metrics::Metrics;
use crate::serve::Server;
use crate::serve::listen::listen;
use crate::upstream::{Link, Upstream};
use edgegrid_listwatch::Store;
use edgegrid_store::Limits;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// What a wrapper is to be.
#[derive(Debug, Clone)]
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
    /// How much of the past a client can resume from.
    pub history: Limits,
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
            history: Limits {
                events: 1 << 13,
                bytes: 2 << 20,
            },
        }
    }
}

/// A wrapper that reads and can be asked; clones share it.
#[derive(Clone)]
pub struct Wrapper {
    server: Server,
    upstream: Upstream,
    connections: Arc<Semaphore>,
}

impl Wrapper {
    /// Sets a wrapper up; nothing is read before [`Wrapper::run`].
    pub fn new(config: &Config, link: Link, clock: Clock) -> Self {
        let seed = clock().as_microsecond().max(0).unsigned_abs();
        let store = Store::builder().after(seed).limits(config.history).build();
        let keeper = Arc::new(Keeper::new(&config.node, store, seed, clock));
        let metrics = Arc::new(Metrics::new(seed));
        let upstream = Upstream {
            keeper: Arc::clone(&keeper),
            client: link.own.clone(),
            stream_lists: config.stream_lists,
            metrics: Arc::clone(&metrics),
        };
        let server = Server {
            keeper,
            link,
            metrics,
            debug: config.debug,
        };
        Self {
            server,
            upstream,
            connections: Arc::new(Semaphore::new(config.connections)),
        }
    }

    /// Reads from upstream and answers on some sockets until told to stop.
    pub async fn run(
        self,
        listeners: Vec<TcpListener>,
        stop: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let mut tasks = JoinSet::new();
        tasks.spawn(self.upstream.run(stop.clone()));
        let mut sockets = JoinSet::new();
        for listener in listeners {
            let (server, limit) = (self.server.clone(), Arc::clone(&self.connections));
            sockets.spawn(listen(server, listener, limit, stop.clone()));
        }
        while let Some(ended) = sockets.join_next().await {
            ended.map_err(io::Error::other)??;
        }
        Ok(())
    }
}

/// Opens a socket.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}
