//! A server over loopback, a client that asks it, and other servers that it asks.

use parking_lot::RwLock;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use edgegrid_dns::records::Records;
use edgegrid_dns::server::{Config, Metrics, Resolvers, Server};
use edgegrid_runtime::shutdown::{self, Trigger};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Far more than anything takes here.
const TIMEOUT: Duration = Duration::from_secs(20);
pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A server that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) trigger: Trigger,
    pub(crate) tasks: JoinSet<()>,
    metrics: Metrics,
}

/// Without resolvers, unless a test has some.
pub(crate) fn config() -> Config {
    Config {
        resolvers: Resolvers::These(Vec::new()),
        ..Config::new(vec![SocketAddr::new(LOOPBACK, 0)], "cluster.local")
    }
}

pub(crate) async fn start(config: Config, records: Records) -> Running {
    let records = Arc::new(RwLock::new(records));
    let server = Server::bind(config, records).await.unwrap();
    let (trigger, stop) = shutdown::channel();
    let (address, metrics) = (server.addresses()[0], server.metrics());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { server.run(stop).await.unwrap() });
    Running {
        address,
        trigger,
        tasks,
        metrics,
    }
}

impl Running {
    /// The answer over UDP.
    pub(crate) async fn ask(&self, message: &Message) -> Message {
        let bytes = udp(self.address, &message.to_vec().unwrap()).await;
        Message::from_vec(&bytes.expect("an answer")).unwrap()
    }

    /// The answer over TCP.
    pub(crate) async fn ask_over_tcp(&self, message: &Message) -> Message {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        send(&mut stream, &message.to_vec().unwrap()).await;
        Message::from_vec(&receive(&mut stream).await).unwrap()
    }

    /// The value behind a line of the metrics that begins so.
    pub(crate) fn metric(&self, line: &str) -> u64 {
        let mut registry = Registry::default();
        self.metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let value = text
            .lines()
            .find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    }
}

/// What comes back for a packet, if anything does within a moment.
pub(crate) async fn udp(server: SocketAddr, packet: &[u8]) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((LOOPBACK, 0)).await.unwrap();
    socket.connect(server).await.unwrap();
    socket.send(packet).await.unwrap();
    let mut answer = vec![0; 65_536];
    let length = timeout(TIMEOUT, socket.recv(&mut answer)).await;
    answer.truncate(length.ok()?.ok()?);
    Some(answer)
}

pub(crate) async fn send(stream: &mut TcpStream, packet: &[u8]) {
    let length = u16::try_from(packet.len()).unwrap();
    stream.write_all(&length.to_be_bytes()).await.unwrap();
    stream.write_all(packet).await.unwrap();
}

pub(crate) async fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let read = async {
        let length = stream.read_u16().await.unwrap();
        let mut packet = vec![0; usize::from(length)];
        stream.read_exact(&mut packet).await.unwrap();
        packet
    };
    timeout(TIMEOUT, read).await.expect("an answer in time")
}

pub(crate) fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

pub(crate) fn with_edns(mut message: Message, payload: u16) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(payload);
    message.set_edns(edns);
    message
}

/// The data of all answers.
pub(crate) fn data(message: &Message) -> Vec<String> {
    let answers = message.answers.iter();
    answers.map(|record| record.data.to_string()).collect()
}

type Behaviour = Arc<dyn Fn(&Message) -> Vec<Message> + Send + Sync>;

/// Another DNS server, which behaves as it is asked to.
pub(crate) struct Other {
    pub(crate) address: SocketAddr,
    heard: Arc<Mutex<Vec<Message>>>,
    _tasks: JoinSet<()>,
}

impl Other {
    /// One that answers each question with these messages.
    pub(crate) async fn start(
        behaviour: impl Fn(&Message) -> Vec<Message> + Send + Sync + 'static,
    ) -> Self {
        let udp = UdpSocket::bind((LOOPBACK, 0)).await.unwrap();
        let address = udp.local_addr().unwrap();
        let tcp = TcpListener::bind(address).await.unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let behaviour: Behaviour = Arc::new(behaviour);
        let mut tasks = JoinSet::new();
        tasks.spawn(over_udp(udp, Arc::clone(&heard), Arc::clone(&behaviour)));
        tasks.spawn(over_tcp(tcp, Arc::clone(&heard), behaviour));
        Self {
            address,
            heard,
            _tasks: tasks,
        }
    }

    /// What it was asked.
    pub(crate) fn heard(&self) -> Vec<Message> {
        self.heard.lock().unwrap().clone()
    }
}

async fn over_udp(socket: UdpSocket, heard: Arc<Mutex<Vec<Message>>>, behaviour: Behaviour) {
    let mut packet = vec![0; 4096];
    loop {
        let (length, client) = socket.recv_from(&mut packet).await.unwrap();
        let asked = Message::from_vec(&packet[..length]).unwrap();
        heard.lock().unwrap().push(asked.clone());
        for answer in behaviour(&asked) {
            let bytes = answer.to_vec().unwrap();
            socket.send_to(&bytes, client).await.unwrap();
        }
    }
}

async fn over_tcp(listener: TcpListener, heard: Arc<Mutex<Vec<Message>>>, behaviour: Behaviour) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = Message::from_vec(&receive(&mut stream).await).unwrap();
        heard.lock().unwrap().push(asked.clone());
        for answer in behaviour(&asked) {
            send(&mut stream, &answer.to_vec().unwrap()).await;
        }
    }
}

/// An answer to a question: one address.
pub(crate) fn answer(asked: &Message, address: [u8; 4]) -> Message {
    let mut message = failure(asked, ResponseCode::NoError);
    let name = asked.queries[0].name().clone();
    message.add_answer(Record::from_rdata(name, 60, RData::A(A(address.into()))));
    message
}

/// An answer that is only a code.
pub(crate) fn failure(asked: &Message, code: ResponseCode) -> Message {
    let mut message = Message::new(asked.metadata.id, MessageType::Response, OpCode::Query);
    message.metadata.response_code = code;
    message.add_queries(asked.queries.clone());
    message
}
