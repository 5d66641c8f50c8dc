//! The node's own DNS server.
//!
//! ```text
//! client ─► udp, tcp ─► access, rate ─► exchange (pure: wire, answer) ─┬─► client
//!                                             └─► forward ─► others ───┘
//! ```
//!
//! The names come from [`Records`], which somebody else keeps up to date; losing the API server takes
//! none of them away. The decisions are in [`crate::answer`] and [`exchange`], which know no socket.

mod access;
mod config;
pub mod exchange;
mod forward;
mod metrics;
mod rate;
mod tcp;
mod udp;
mod upstreams;
pub mod wire;

use parking_lot::{Mutex, RwLock};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use edgegrid_runtime::{Shutdown, Tasks};
use hickory_proto::op::Message;
use hickory_proto::rr::Name;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::info;

use crate::answer::Zone;
use crate::records::Records;
use access::Access;
use exchange::{Pending, Step};
use forward::Forwarder;
use metrics::TurnedAway;
use rate::Buckets;
use upstreams::Upstreams;
use wire::Transport;

pub use config::{Config, Forwarding, Rate, Resolvers};
pub use metrics::Metrics;

/// How often a port is chosen that must be free for both transports.
const PORT_TRIES: usize = 16;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration names no address.
    #[error("no address to listen on; name at least one")]
    NoAddress,
    /// The address stands for all.
    #[error("listen on {0}: an answer must come from the address that was asked, so name each one")]
    AnyAddress(SocketAddr),
    /// The domain is none.
    #[error("cluster domain {domain:?} is no name")]
    Domain {
        /// As configured.
        domain: String,
        /// What is wrong with it.
        #[source]
        source: hickory_proto::ProtoError,
    },
    /// The address cannot be had.
    #[error("listen on {address} for {transport}; is another DNS server there?")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// UDP or TCP.
        transport: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A task is gone that should never end.
    #[error("the task {0} ended by itself")]
    Ended(&'static str),
}

/// A server that has its sockets.
#[derive(Debug)]
pub struct Server {
    sockets: Vec<(UdpSocket, TcpListener)>,
    shared: Arc<Shared>,
}

/// What all sockets share.
#[derive(Debug)]
struct Shared {
    zone: Zone,
    records: Arc<RwLock<Records>>,
    access: Access,
    buckets: Option<Mutex<Buckets>>,
    forwarder: Forwarder,
    connections: Arc<Semaphore>,
    idle: Duration,
    metrics: Metrics,
}

impl Server {
    /// Takes the addresses, so that a server that cannot be is known of at once.
    pub async fn bind(config: Config, records: Arc<RwLock<Records>>) -> Result<Self, Error> {
        if config.listen.is_empty() {
            return Err(Error::NoAddress);
        }
        let domain = domain(&config.domain)?;
        let mut sockets = Vec::new();
        for address in &config.listen {
            sockets.push(bind(*address).await?);
        }
        let taken = sockets.iter().filter_map(|(udp, _)| udp.local_addr().ok());
        let taken: Vec<SocketAddr> = taken.collect();
        let metrics = Metrics::default();
        let forwarder = Forwarder::new(
            config.forward,
            Upstreams::these(&config.cluster_dns, &taken),
            Upstreams::resolvers(&config.resolvers, &taken),
            metrics.clone(),
        );
        let shared = Shared {
            zone: Zone::new(
                domain,
                taken.iter().map(SocketAddr::ip).collect(),
                !config.cluster_dns.is_empty(),
            ),
            records,
            access: Access::new(config.allow),
            buckets: config.rate.map(|rate| Mutex::new(Buckets::new(rate))),
            forwarder,
            connections: Arc::new(Semaphore::new(config.connections)),
            idle: config.idle,
            metrics,
        };
        let shared = Arc::new(shared);
        Ok(Self { sockets, shared })
    }

    /// Where it can be asked: the ports that were left to the system are filled in.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.sockets.iter();
        addresses
            .filter_map(|(udp, _)| udp.local_addr().ok())
            .collect()
    }

    /// What it counts.
    pub fn metrics(&self) -> Metrics {
        self.shared.metrics.clone()
    }

    /// Answers until it is to stop; questions that wait for others are finished then.
    pub async fn run(self, stop: Shutdown) -> Result<(), Error> {
        let mut tasks = Tasks::default();
        info!(addresses = ?self.addresses(), domain = %self.shared.zone.domain, "DNS server is listening");
        for (udp, tcp) in self.sockets {
            tasks.spawn(
                "dns-udp",
                udp::serve(udp, Arc::clone(&self.shared), stop.clone()),
            );
            tasks.spawn(
                "dns-tcp",
                tcp::serve(tcp, Arc::clone(&self.shared), stop.clone()),
            );
        }
        let mut is_stopping = false;
        loop {
            tokio::select! {
                biased; // a task that ends because of the shutdown must not look like one that ends by itself
                () = stop.requested(), if !is_stopping => is_stopping = true,
                () = stop.aborted() => return Ok(()),
                ended = tasks.next_end() => match ended {
                    None => return Ok(()),
                    Some(ended) if !is_stopping || ended.has_panicked => return Err(Error::Ended(ended.name)),
                    Some(_) => {}
                },
            }
        }
    }
}

impl Shared {
    /// Takes a client's packet, if the client may ask.
    fn take(
        &self,
        packet: &[u8],
        (client, transport): (IpAddr, Transport),
        answer: &mut Vec<u8>,
    ) -> Step {
        self.metrics.asked(transport);
        if !self.has_token(client) {
            self.metrics.turned_away(TurnedAway::Rate);
            return Step::Silence;
        }
        if !self.access.admits(client) {
            self.metrics.turned_away(TurnedAway::Stranger);
            return exchange::refuse(packet, transport, answer);
        }
        let records = self.records.read();
        let step = exchange::take((&self.zone, &records), packet, transport, answer);
        if let Step::Answered(code) = &step {
            self.metrics.answered(None, *code);
        }
        step
    }

    /// Writes the answer to a question that others were asked.
    fn finish(
        &self,
        pending: &Pending,
        heard: Option<&Message>,
        (transport, answer): (Transport, &mut Vec<u8>),
    ) {
        let step = pending.finish(heard, transport, answer);
        if let Step::Answered(code) = step {
            self.metrics.answered(Some(pending.to), code);
        }
    }

    fn has_token(&self, client: IpAddr) -> bool {
        let Some(buckets) = &self.buckets else {
            return true;
        };
        let mut buckets = buckets.lock();
        buckets.take(client, Instant::now())
    }
}

fn domain(text: &str) -> Result<Name, Error> {
    let mut domain = Name::from_ascii(text).map_err(|source| Error::Domain {
        domain: text.to_owned(),
        source,
    })?;
    domain.set_fqdn(true);
    Ok(domain.to_lowercase())
}

/// The same address for both. Where the system chooses the port, UDP chooses for TCP, which may have given
/// it to somebody else: then it chooses again.
async fn bind(address: SocketAddr) -> Result<(UdpSocket, TcpListener), Error> {
    if address.ip().is_unspecified() {
        return Err(Error::AnyAddress(address));
    }
    let mut tries = if address.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        tries -= 1;
        match bind_once(address).await {
            Err(Error::Bind { .. }) if tries > 0 => {}
            bound => return bound,
        }
    }
}

async fn bind_once(address: SocketAddr) -> Result<(UdpSocket, TcpListener), Error> {
    let failed = |transport| {
        move |source| Error::Bind {
            address,
            transport,
            source,
        }
    };
    let udp = UdpSocket::bind(address).await.map_err(failed("UDP"))?;
    let taken = udp.local_addr().map_err(failed("UDP"))?;
    let tcp = TcpListener::bind(taken).await.map_err(failed("TCP"))?;
    Ok((udp, tcp))
}

#[cfg(test)]
mod tests;
