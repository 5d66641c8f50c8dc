//! What an operator may choose.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

/// Where a node's resolvers usually are.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// How the server is to be.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it is asked, over UDP and TCP. Each address by itself: an answer must come from the
    /// address that was asked.
    pub listen: Vec<SocketAddr>,
    /// The cluster's domain.
    pub domain: String,
    /// Where names of the cluster are asked for that are no service's.
    pub cluster_dns: Vec<SocketAddr>,
    /// Where all other names are asked for.
    pub resolvers: Resolvers,
    /// Who may ask besides this machine: its pods' network, above all.
    pub allow: Vec<IpNet>,
    /// How much one client may ask; none means as much as it likes.
    pub rate: Option<Rate>,
    /// How others are asked.
    pub forward: Forwarding,
    /// TCP connections that are open at the same time.
    pub connections: usize,
    /// How long a connection may be idle.
    pub idle: Duration,
}

/// Where the node's resolvers come from.
#[derive(Debug, Clone)]
pub enum Resolvers {
    /// A file like `/etc/resolv.conf`, read again when it changes.
    File(PathBuf),
    /// These.
    These(Vec<SocketAddr>),
}

/// How much a client may ask.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Questions a second in the long run.
    pub per_second: NonZeroU32,
    /// Questions at once after a pause.
    pub burst: NonZeroU32,
}

/// How others are asked.
#[derive(Debug, Clone, Copy)]
pub struct Forwarding {
    /// How long one of them is waited for.
    pub patience: Duration,
    /// How often one is asked, all of them together.
    pub attempts: usize,
    /// Questions that are under way at the same time.
    pub at_once: usize,
}

impl Config {
    /// The defaults, for a server at these addresses.
    pub fn new(listen: Vec<SocketAddr>, domain: impl Into<String>) -> Self {
        Self {
            listen,
            domain: domain.into(),
            cluster_dns: Vec::new(),
            resolvers: Resolvers::File(RESOLV_CONF.into()),
            allow: Vec::new(),
            rate: Some(Rate::default()),
            forward: Forwarding::default(),
            connections: 128,
            idle: Duration::from_secs(10),
        }
    }
}

impl Default for Rate {
    /// More than any pod needs, less than hurts the node.
    fn default() -> Self {
        let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        Self {
            per_second: number(2_000),
            burst: number(4_000),
        }
    }
}

impl Default for Forwarding {
    /// Done before a client's own patience, five seconds as a rule, ends.
    fn default() -> Self {
        Self {
            patience: Duration::from_millis(1_500),
            attempts: 3,
            at_once: 512,
        }
    }
}
