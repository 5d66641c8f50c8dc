//! Questions in single packets. What the view knows is answered at once; what others must be asked
//! waits in a task of its own.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_runtime::Shutdown;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::Shared;
use super::exchange::{Pending, Step};
use super::wire::Transport;

/// More than a question can need; the rest of a longer packet is cut off, and it is no question then.
const PACKET: usize = 4096;
/// Packets that are taken before other tasks have their turn.
const IN_A_ROW: usize = 64;
/// After an error that is not a client's.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn serve(socket: UdpSocket, shared: Arc<Shared>, stop: Shutdown) {
    let socket = Arc::new(socket);
    let mut listener = Listener {
        socket: Arc::clone(&socket),
        shared,
        answer: Vec::new(),
        waiting: JoinSet::new(),
    };
    let mut packet = vec![0; PACKET];
    let requested = stop.requested();
    tokio::pin!(requested);
    loop {
        tokio::select! {
            () = &mut requested => break,
            readable = socket.readable() => match readable {
                Ok(()) => listener.take_some(&mut packet).await,
                Err(error) => listener.pause(&error).await,
            },
            Some(_) = listener.waiting.join_next() => {}
        }
    }
    while listener.waiting.join_next().await.is_some() {}
}

struct Listener {
    socket: Arc<UdpSocket>,
    shared: Arc<Shared>,
    answer: Vec<u8>,
    waiting: JoinSet<()>,
}

impl Listener {
    async fn take_some(&mut self, packet: &mut [u8]) {
        for _ in 0..IN_A_ROW {
            match self.socket.try_recv_from(packet) {
                Ok((length, client)) => self.take(&packet[..length], client).await,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return self.pause(&error).await,
            }
        }
    }

    async fn take(&mut self, packet: &[u8], client: SocketAddr) {
        let transport = Transport::Udp;
        let shared = &self.shared;
        match shared.take(packet, (client.ip(), transport), &mut self.answer) {
            Step::Silence => {}
            Step::Answered(_) => send(&self.socket, &self.answer, client).await,
            Step::Ask(pending) => self.ask(pending, client).await,
        }
    }

    async fn ask(&mut self, pending: Box<Pending>, client: SocketAddr) {
        let transport = Transport::Udp;
        let Some(permit) = self.shared.forwarder.permit() else {
            self.shared
                .finish(&pending, None, (transport, &mut self.answer));
            return send(&self.socket, &self.answer, client).await;
        };
        let (shared, socket) = (Arc::clone(&self.shared), Arc::clone(&self.socket));
        self.waiting.spawn(async move {
            let heard = shared.forwarder.ask(pending.asked(transport)).await;
            let mut answer = Vec::new();
            shared.finish(&pending, heard.as_deref(), (transport, &mut answer));
            send(&socket, &answer, client).await;
            drop(permit);
        });
    }

    /// A socket reports earlier packets that did not arrive; that is no reason to wait.
    async fn pause(&self, error: &io::Error) {
        if matches!(
            error.kind(),
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
        ) {
            return;
        }
        warn!(%error, "UDP receive failed");
        sleep(PAUSE).await;
    }
}

async fn send(socket: &UdpSocket, answer: &[u8], client: SocketAddr) {
    if let Err(error) = socket.send_to(answer, client).await {
        debug!(%client, %error, "UDP send failed");
    }
}
