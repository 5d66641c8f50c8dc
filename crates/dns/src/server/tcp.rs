//! Questions over connections: so many at once, each question with its length before it, an idle
//! connection closed.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_runtime::Shutdown;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::Shared;
use super::exchange::Step;
use super::metrics::TurnedAway;
use super::wire::Transport;

/// After an error that is not a client's: mostly, that no more files may be open.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>, stop: Shutdown) {
    let mut connections = JoinSet::new();
    let requested = stop.requested();
    tokio::pin!(requested);
    loop {
        tokio::select! {
            () = &mut requested => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => {
                    admit((stream, client.ip()), &shared, &stop, &mut connections);
                }
                Err(error) => {
                    warn!(%error, "TCP accept failed");
                    sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    while connections.join_next().await.is_some() {}
}

fn admit(
    (stream, client): (TcpStream, IpAddr),
    shared: &Arc<Shared>,
    stop: &Shutdown,
    connections: &mut JoinSet<()>,
) {
    if !shared.access.admits(client) {
        return shared.metrics.turned_away(TurnedAway::Stranger);
    }
    let Ok(place) = Arc::clone(&shared.connections).try_acquire_owned() else {
        return shared.metrics.turned_away(TurnedAway::Busy);
    };
    let (shared, stop) = (Arc::clone(shared), stop.clone());
    connections.spawn(async move {
        shared.metrics.connections.inc();
        if let Err(error) = converse(stream, client, &shared, &stop).await {
            debug!(%client, %error, "TCP connection failed");
        }
        shared.metrics.connections.dec();
        drop(place);
    });
}

/// Question, answer, question, answer, until the client has had enough or is silent for too long.
async fn converse(
    mut stream: TcpStream,
    client: IpAddr,
    shared: &Shared,
    stop: &Shutdown,
) -> io::Result<()> {
    let mut answer = Vec::new();
    loop {
        let packet = tokio::select! {
            () = stop.requested() => return Ok(()),
            packet = timeout(shared.idle, read(&mut stream)) => packet??,
        };
        if !answered(&packet, client, shared, &mut answer).await {
            return Ok(());
        }
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        let message = [&length.to_be_bytes()[..], &answer].concat();
        timeout(shared.idle, stream.write_all(&message)).await??;
    }
}

async fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut packet = vec![0; usize::from(length)];
    stream.read_exact(&mut packet).await?;
    Ok(packet)
}

/// Fills in the answer; false if there is none.
async fn answered(packet: &[u8], client: IpAddr, shared: &Shared, answer: &mut Vec<u8>) -> bool {
    let transport = Transport::Tcp;
    match shared.take(packet, (client, transport), answer) {
        Step::Silence => false,
        Step::Answered(_) => true,
        Step::Ask(pending) => {
            let permit = shared.forwarder.permit();
            let heard = match &permit {
                Some(_) => shared.forwarder.ask(pending.asked(transport)).await,
                None => None,
            };
            shared.finish(&pending, heard.as_deref(), (transport, answer));
            true
        }
    }
}
