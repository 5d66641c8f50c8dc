//! Questions over one socket, so many under way at a time, and how long each took.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hickory_proto::op::{Edns, Message, Query};
use hickory_proto::rr::Name;
use tokio::time::Instant;

/// After so long an answer is lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What a run of questions came to.
#[derive(Debug, Default, Clone)]
pub(crate) struct LoadResult {
    pub(crate) answers: usize,
    pub(crate) lost: usize,
    pub(crate) wall: Duration,
    /// How long each answer took, the shortest first.
    pub(crate) times: Vec<Duration>,
}

impl LoadResult {
    pub(crate) fn per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
        let answers = self.answers as f64;
        answers / self.wall.as_secs_f64()
    }

    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let at = self.times.len() * percent / 100;
        let at = at.min(self.times.len().saturating_sub(1));
        self.times.get(at).copied().unwrap_or_default()
    }
}

/// A question as bytes.
pub(crate) fn question(name: &str, kind: &str) -> Result<Vec<u8>> {
    Ok(message(name, kind)?.to_vec()?)
}

/// A question of somebody who takes large answers.
pub(crate) fn roomy_question(name: &str, kind: &str) -> Result<Vec<u8>> {
    let mut edns = Edns::new();
    edns.set_max_payload(1232);
    Ok(message(name, kind)?.set_edns(edns).to_vec()?)
}

fn message(name: &str, kind: &str) -> Result<Message> {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    let kind = kind.parse().ok().context("a type")?;
    message.add_query(Query::query(Name::from_ascii(name)?, kind));
    Ok(message)
}

/// One question and its answer.
pub(crate) fn ask(server: SocketAddr, packet: &[u8]) -> Result<Message> {
    let socket = connected(server)?;
    socket.send(packet)?;
    let mut answer = [0; 4096];
    let length = socket.recv(&mut answer)?;
    Ok(Message::from_vec(&answer[..length])?)
}

/// Asks for a while, with so many questions under way: the next one goes when an answer comes.
pub(crate) fn run(
    server: SocketAddr,
    questions: &[Vec<u8>],
    at_once: usize,
    during: Duration,
) -> Result<LoadResult> {
    let socket = connected(server)?;
    let mut pending = Pending {
        socket: &socket,
        questions,
        sent: vec![None; usize::from(u16::MAX) + 1],
        next: 0,
    };
    let mut result = LoadResult::default();
    let mut answer = [0; 4096];
    let begun = Instant::now();
    pending.send(at_once)?;
    while begun.elapsed() < during {
        match socket.recv(&mut answer) {
            Ok(length) => {
                ensure!(length >= 12, "half an answer");
                let id = usize::from(u16::from_be_bytes([answer[0], answer[1]]));
                if let Some(at) = pending.sent[id].take() {
                    result.times.push(at.elapsed());
                    pending.send(1)?;
                }
            }
            // All that were under way are lost.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                pending.sent.fill(None);
                result.lost += at_once;
                pending.send(at_once)?;
            }
            Err(error) => return Err(error).context("receive an answer"),
        }
    }
    result.wall = begun.elapsed();
    result.answers = result.times.len();
    result.times.sort_unstable();
    Ok(result)
}

struct Pending<'a> {
    socket: &'a UdpSocket,
    questions: &'a [Vec<u8>],
    /// When the question with an id was sent.
    sent: Vec<Option<Instant>>,
    next: usize,
}

impl Pending<'_> {
    fn send(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let number = self.next;
            self.next += 1;
            let id = number % self.sent.len();
            let mut packet = self.questions[number % self.questions.len()].clone();
            let short = u16::try_from(id).context("an id has 16 bits")?;
            packet[..2].copy_from_slice(&short.to_be_bytes());
            self.sent[id] = Some(Instant::now());
            self.socket.send(&packet)?;
        }
        Ok(())
    }
}

fn connected(server: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(socket)
}
