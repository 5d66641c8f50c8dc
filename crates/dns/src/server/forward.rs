//! Asking others: several servers in turn, each for a while, so many at once and no more.
//!
//! Equal questions that are under way are asked once. That spares the others, and it ends circles: if
//! who is asked asks us the same again, that question joins the first one, which then runs out of time.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use hickory_proto::op::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::debug;

use super::config::Forwarding;
use super::exchange::{Asked, accept, is_failure};
use super::metrics::{Metrics, TurnedAway};
use super::upstreams::Upstreams;
use super::wire::Transport;
use crate::answer::To;

/// What may come over UDP at most; nobody was invited to send as much.
const PACKET: usize = 4096;

/// What another server answered; none if none did.
type Answer = Option<Arc<Message>>;
type Exchange = BoxFuture<'static, Answer>;

/// Asks others; clones ask together.
#[derive(Debug, Clone)]
pub(super) struct Forwarder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Forwarding,
    cluster: Upstreams,
    resolvers: Upstreams,
    permits: Arc<Semaphore>,
    under_way: Mutex<BTreeMap<Asked, WeakShared<Exchange>>>,
    metrics: Metrics,
}

impl Forwarder {
    pub(super) fn new(
        limits: Forwarding,
        cluster: Upstreams,
        resolvers: Upstreams,
        metrics: Metrics,
    ) -> Self {
        Self(Arc::new(Inner {
            limits,
            cluster,
            resolvers,
            permits: Arc::new(Semaphore::new(limits.at_once)),
            under_way: Mutex::default(),
            metrics,
        }))
    }

    /// A permit to have one more under way; none if there are too many.
    pub(super) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.0.permits).try_acquire_owned().ok();
        if permit.is_none() {
            self.0.metrics.turned_away(TurnedAway::Busy);
        }
        permit
    }

    /// Asks, together with whoever asks the same at the moment.
    pub(super) async fn ask(&self, asked: Asked) -> Answer {
        self.join(asked).await
    }

    fn join(&self, asked: Asked) -> Shared<Exchange> {
        let mut under_way = self.0.lock();
        if let Some(exchange) = under_way.get(&asked).and_then(WeakShared::upgrade) {
            return exchange;
        }
        // Those that everybody gave up waiting for are still in the map.
        if under_way.len() >= self.0.limits.at_once {
            under_way.retain(|_, exchange| exchange.upgrade().is_some());
        }
        let inner = Arc::clone(&self.0);
        let question = asked.clone();
        let exchange = async move {
            let answer = inner.exchange(&question).await;
            inner.lock().remove(&question);
            answer.map(Arc::new)
        };
        let exchange = exchange.boxed().shared();
        if let Some(weak) = exchange.downgrade() {
            under_way.insert(asked, weak);
        }
        exchange
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Asked, WeakShared<Exchange>>> {
        self.under_way.lock()
    }

    async fn exchange(&self, asked: &Asked) -> Option<Message> {
        let upstreams = match asked.to() {
            To::Cluster => &self.cluster,
            To::Resolvers => &self.resolvers,
        };
        let mut failure = None;
        for (number, server) in upstreams.in_turn().take(self.limits.attempts) {
            let sent = asked.message();
            match timeout(self.limits.patience, once(server, &sent, asked.transport())).await {
                Ok(Ok(heard)) if is_failure(&heard.metadata) => failure = Some(heard),
                Ok(Ok(heard)) => {
                    upstreams.answered(number);
                    return Some(heard);
                }
                Ok(Err(error)) => debug!(%server, %error, "cannot reach a DNS server"),
                Err(_) => debug!(%server, "DNS server timed out"),
            }
        }
        if failure.is_none() {
            self.metrics.unheard(asked.to());
        }
        failure
    }
}

async fn once(server: SocketAddr, sent: &Message, transport: Transport) -> io::Result<Message> {
    let packet = sent.to_vec().map_err(io::Error::other)?;
    match transport {
        Transport::Udp => over_udp(server, sent, &packet).await,
        Transport::Tcp => over_tcp(server, sent, &packet).await,
    }
}

/// From a port of its own, which together with the id nobody guesses; what is no answer is passed over.
async fn over_udp(server: SocketAddr, sent: &Message, packet: &[u8]) -> io::Result<Message> {
    let any = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(packet).await?;
    let mut buffer = vec![0; PACKET];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(heard) = accept(sent, &buffer[..length]) {
            return Ok(heard);
        }
    }
}

async fn over_tcp(server: SocketAddr, sent: &Message, packet: &[u8]) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(packet.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes()[..], packet].concat())
        .await?;
    let length = stream.read_u16().await?;
    let mut buffer = vec![0; usize::from(length)];
    stream.read_exact(&mut buffer).await?;
    accept(sent, &buffer).ok_or_else(|| io::Error::other("not an answer to what was asked"))
}
