//! Sockets: connections in, within limits, until shutdown.

use super::tls::{Tls, TlsError};
use super::{Answer, Caller, Server, boxed};
use crate::identity::{Identity, subject};
use edgegrid_runtime::shutdown::Shutdown;
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// How long a client may take to send a request's head, or to shake hands.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long open answers may take after shutdown was requested.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// After an error of the socket itself, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A socket to answer on.
pub struct Socket {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
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
        let acceptor = tls.map(Tls::acceptor).transpose();
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
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&limit).acquire_owned() => permit.map_err(io::Error::other)?,
            () = stop.requested() => break,
        };
        let stream = tokio::select! {
            accepted = socket.listener.accept() => accepted,
            () = stop.requested() => break,
        };
        while connections.try_join_next().is_some() {}
        match stream {
            Ok((stream, _)) => {
                let (server, watcher) = (server.clone(), graceful.watcher());
                let tls = socket.tls.clone();
                connections.spawn(async move {
                    connection(server, stream, tls, watcher).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    server.publisher.reader.stop();
    if timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::info!("closing connections that did not end in time");
    }
    Ok(())
}

async fn connection(server: Server, stream: TcpStream, tls: Option<TlsAcceptor>, watcher: Watcher) {
    // An event must not wait for the one after it.
    let _ = stream.set_nodelay(true);
    let metrics = Arc::clone(&server.metrics);
    metrics.connections.inc();
    match tls {
        None => serve(server, stream, Caller::Local, watcher).await,
        Some(tls) => match timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let shown = stream.get_ref().1.peer_certificates();
                let who: Option<Identity> = shown.and_then(|all| subject(all.first()?));
                serve(server, stream, Caller::Remote(who), watcher).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake timed out"),
        },
    }
    metrics.connections.dec();
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
