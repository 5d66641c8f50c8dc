//! Who is turned away, over sockets: here loopback has strangers, as nobody else can ask from this machine.

use edgegrid_runtime::shutdown;
use hickory_proto::op::{Query, ResponseCode};
use hickory_proto::rr::RecordType;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::*;

const FRIEND: [u8; 4] = [127, 0, 0, 2];
const STRANGER: [u8; 4] = [127, 0, 0, 3];

/// A server that nobody may ask but the friend, and who has this machine's address.
async fn start(tasks: &mut JoinSet<()>) -> (SocketAddr, shutdown::Trigger, Metrics) {
    let config = Config {
        resolvers: Resolvers::These(Vec::new()),
        ..Config::new(vec![([127, 0, 0, 1], 0).into()], "cluster.local")
    };
    let mut records = Records::default();
    records.set_complete();
    let records = Arc::new(RwLock::new(records));
    let mut server = Server::bind(config, records).await.unwrap();
    let only = Access::only(vec![IpAddr::from(FRIEND).into()]);
    Arc::get_mut(&mut server.shared).unwrap().access = only;
    let (trigger, stop) = shutdown::channel();
    let (address, metrics) = (server.addresses()[0], server.metrics());
    tasks.spawn(async move { server.run(stop).await.unwrap() });
    (address, trigger, metrics)
}

fn question(name: &str) -> Vec<u8> {
    let mut asked = Message::query();
    asked.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    asked.to_vec().unwrap()
}

async fn over_udp(from: [u8; 4], server: SocketAddr, packet: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind((IpAddr::from(from), 0)).await.unwrap();
    socket.send_to(packet, server).await.unwrap();
    let mut answer = vec![0; 512];
    let length = socket.recv(&mut answer).await.unwrap();
    answer.truncate(length);
    answer
}

async fn connect(from: [u8; 4], server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(server).await.unwrap()
}

#[tokio::test]
async fn a_stranger_is_refused_whatever_it_asks() {
    let mut tasks = JoinSet::new();
    let (server, _trigger, _) = start(&mut tasks).await;
    for name in ["cluster.local.", "www.example.org."] {
        let packet = question(name);
        let answer = over_udp(STRANGER, server, &packet).await;
        let heard = Message::from_vec(&answer).unwrap();
        assert_eq!(
            heard.metadata.response_code,
            ResponseCode::Refused,
            "{name}"
        );
        assert_eq!(answer[..2], packet[..2], "the id of the question");
        assert!(answer.len() <= packet.len(), "nothing is gained by asking");
        let heard = Message::from_vec(&over_udp(FRIEND, server, &packet).await).unwrap();
        assert_ne!(
            heard.metadata.response_code,
            ResponseCode::Refused,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_stranger_is_disconnected_before_it_can_ask() {
    let mut tasks = JoinSet::new();
    let (server, _trigger, metrics) = start(&mut tasks).await;
    let mut stranger = connect(STRANGER, server).await;
    assert_eq!(stranger.read(&mut [0; 8]).await.unwrap_or(0), 0);
    let mut friend = connect(FRIEND, server).await;
    let packet = question("cluster.local.");
    let length = u16::try_from(packet.len()).unwrap();
    friend.write_u16(length).await.unwrap();
    friend.write_all(&packet).await.unwrap();
    assert!(friend.read_u16().await.unwrap() > 0);
    assert_eq!(metrics.connections.get(), 1);
}
