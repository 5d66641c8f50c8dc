//! Sockets: connections in, within limits, until told to stop.

use super::{Answer, Server, boxed};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a client may take to send a request's head.
const HEAD: Duration = Duration::from_secs(30);
/// How long open answers may take once the wrapper is told to stop.
const FAREWELL: Duration = Duration::from_secs(3);
/// After an error of the socket itself, such as too many open files.
const BREATH: Duration = Duration::from_millis(50);

/// Accepts connections until told to stop, then lets the open ones end.
pub(crate) async fn listen(
    server: Server,
    listener: TcpListener,
    limit: Arc<Semaphore>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let permit = Arc::clone(&limit).acquire_owned();
        let permit = tokio::select! {
            permit = permit => permit.map_err(io::Error::other)?,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = connections.join_next() => continue,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        let connection = connection(server.clone(), stream, graceful.watcher());
        connections.spawn(async move {
            connection.await;
            drop(permit);
        });
    }
    server.keeper.reader.stop();
    if timeout(FAREWELL, graceful.shutdown()).await.is_err() {
        tracing::info!("clients that did not end in time are cut off");
    }
    Ok(())
}

async fn connection(
    server: Server,
    stream: TcpStream,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // An event must not wait for the one after it.
    let _ = stream.set_nodelay(true);
    let metrics = Arc::clone(&server.metrics);
    metrics.connections.inc();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        answer(server.clone(), request)
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(64 << 10);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "connection ended");
    }
    metrics.connections.dec();
}

/// Boxed, because the compiler cannot see through so many layers that it may be sent.
fn answer(
    server: Server,
    request: hyper::Request<Incoming>,
) -> BoxFuture<'static, Result<Answer, Infallible>> {
    let request = request.map(boxed);
    async move { Ok(server.answer(request).await) }.boxed()
}
