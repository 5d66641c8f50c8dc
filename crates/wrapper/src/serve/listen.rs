//! Sockets: connections in, within limits, until shutdown or until the files of TLS are others.

use super::tls::{Acceptor, Tls, TlsError};
use super::{Answer, Caller, Server, boxed};
use crate::identity::{Identity, subject};
use edgegrid_runtime::credentials::CHECK_PERIOD;
use edgegrid_runtime::shutdown::Shutdown;
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use prometheus_client::metrics::gauge::Gauge;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{io, mem};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// How long a client may take to send a request's head, or to shake hands.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long open answers may take after their connection was asked to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// After an error of the socket itself, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A socket to answer on.
pub struct Socket {
    listener: TcpListener,
    tls: Option<Acceptor>,
}

/// Why a socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Plain HTTP would show the view to others.
    #[error("{0} is not loopback: it needs TLS")]
    NeedsTls(SocketAddr),
    /// The address cannot be used.
    #[error("listen on {0}")]
    Address(SocketAddr, #[source] io::Error),
    /// TLS cannot be offered.
    #[error("TLS on {0}")]
    Tls(SocketAddr, #[source] TlsError),
}

impl Socket {
    /// Opens a socket: plain HTTP on loopback, TLS where it is given.
    pub async fn bind(address: SocketAddr, tls: Option<&Tls>) -> Result<Self, BindError> {
        if tls.is_none() && !address.ip().is_loopback() {
            return Err(BindError::NeedsTls(address));
        }
        let acceptor = tls.cloned().map(Acceptor::new).transpose();
        let listener = TcpListener::bind(address).await;
        Ok(Self {
            listener: listener.map_err(|error| BindError::Address(address, error))?,
            tls: acceptor.map_err(|error| BindError::Tls(address, error))?,
        })
    }
}

/// Accepts connections until shutdown, then lets the open ones end.
pub(crate) async fn listen(
    server: Server,
    socket: Socket,
    limit: Arc<Semaphore>,
    stop: Shutdown,
) -> io::Result<()> {
    let listening = Listening {
        server,
        limit,
        tls: socket.tls,
        open: Generation::default(),
        ending: JoinSet::new(),
    };
    listening.run(socket.listener, stop).await
}

/// Where connections come from.
trait Accept {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next one. It may be given up at any moment without losing one.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<TcpStream> {
        let (stream, _) = TcpListener::accept(self).await?;
        // An event must not wait for the one after it.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// A socket that is answered on.
struct Listening {
    server: Server,
    limit: Arc<Semaphore>,
    tls: Option<Acceptor>,
    open: Generation,
    /// Connections made with files that have been replaced since.
    ending: JoinSet<()>,
}

/// The open connections that were made with the same files.
#[derive(Default)]
struct Generation {
    graceful: GracefulShutdown,
    connections: JoinSet<()>,
}

impl Generation {
    /// Lets the connections end: no further requests, and answers that go on and on are cut.
    async fn end(self) {
        let drained = timeout(DRAIN_TIMEOUT, self.graceful.shutdown()).await;
        if drained.is_err() {
            tracing::info!("closing connections that did not end in time");
        }
    }
}

impl Listening {
    async fn run(mut self, mut incoming: impl Accept, stop: Shutdown) -> io::Result<()> {
        let mut looks = interval(CHECK_PERIOD);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let limit = Arc::clone(&self.limit);
            let accept = async {
                let permit = limit.acquire_owned().await.map_err(io::Error::other)?;
                Ok::<_, io::Error>((permit, incoming.accept().await))
            };
            let (permit, stream) = tokio::select! {
                accepted = accept => accepted?,
                _ = looks.tick() => {
                    self.renew();
                    continue;
                }
                () = stop.requested() => break,
            };
            while self.open.connections.try_join_next().is_some() {}
            match stream {
                Ok(stream) => self.open(stream, permit),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        self.server.publisher.reader.stop();
        self.open.end().await;
        while self.ending.join_next().await.is_some() {}
        Ok(())
    }

    /// Answers on a connection until it ends.
    fn open<S>(&mut self, stream: S, permit: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (server, watcher) = (self.server.clone(), self.open.graceful.watcher());
        let tls = self.tls.as_ref().map(Acceptor::current);
        let counted = CountedConnection::new(&self.server, permit);
        self.open.connections.spawn(async move {
            connection(server, stream, tls, watcher).await;
            drop(counted);
        });
    }

    /// Looks at the files of TLS. If they are others now, what was made with the old ones ends: a client
    /// that the new client CA does not know must not stay because it came earlier.
    fn renew(&mut self) {
        while self.ending.try_join_next().is_some() {}
        if self.tls.as_mut().is_some_and(Acceptor::renew) {
            let outdated = mem::take(&mut self.open);
            self.ending.spawn(outdated.end());
        }
    }
}

/// A connection's permit and its place in the gauge, given back also when the connection is cut.
struct CountedConnection {
    gauge: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl CountedConnection {
    fn new(server: &Server, permit: OwnedSemaphorePermit) -> Self {
        let gauge = server.metrics.connections.clone();
        gauge.inc();
        Self {
            gauge,
            _permit: permit,
        }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

async fn connection<S>(server: Server, stream: S, tls: Option<TlsAcceptor>, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Some(tls) = tls else {
        return serve(server, stream, Caller::Local, watcher).await;
    };
    match timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let shown = stream.get_ref().1.peer_certificates();
            let who: Option<Identity> = shown.and_then(|all| subject(all.first()?));
            serve(server, stream, Caller::Remote(who), watcher).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

async fn serve<S>(server: Server, stream: S, caller: Caller, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        answer(server.clone(), caller.clone(), request)
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(HEAD_TIMEOUT));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "connection ended");
    }
}

/// Boxed, because the compiler cannot see through so many layers that it may be sent.
fn answer(
    server: Server,
    caller: Caller,
    request: hyper::Request<Incoming>,
) -> BoxFuture<'static, Result<Answer, Infallible>> {
    let request = request.map(boxed);
    async move { Ok(server.answer(request, &caller).await) }.boxed()
}

#[cfg(test)]
mod tests;
