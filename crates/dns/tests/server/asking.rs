//! Questions and answers over loopback.

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::RecordType;
use tokio::net::TcpStream;

use crate::harness::{config, data, question, receive, send, start, udp, with_edns};
use crate::names::{cluster, headless, host, service};

const WEB: &str = "web.default.svc.cluster.local.";
const MANY: &str = "many.default.svc.cluster.local.";

/// A service with more pods than fit into one packet.
fn with_many() -> edgegrid_dns::records::Records {
    let mut records = cluster();
    let pods: Vec<(String, String)> = (0..200)
        .map(|n| (format!("many-{n}"), format!("10.2.0.{n}")))
        .collect();
    let pods: Vec<_> = pods
        .iter()
        .map(|(name, address)| (name.as_str(), host(&[address], false)))
        .collect();
    records.set_service(&service("default", "many"), Some(headless(&pods)));
    records
}

#[tokio::test]
async fn both_transports_answer_alike() {
    let server = start(config(), cluster()).await;
    let asked = question(WEB, RecordType::A);
    for heard in [server.ask(&asked).await, server.ask_over_tcp(&asked).await] {
        assert_eq!(heard.metadata.id, asked.metadata.id);
        assert_eq!(heard.metadata.message_type, MessageType::Response);
        assert!(heard.metadata.authoritative && heard.metadata.recursion_available);
        assert!(heard.metadata.recursion_desired && !heard.metadata.truncation);
        assert_eq!(heard.queries, asked.queries);
        assert_eq!(data(&heard), ["10.96.0.7"]);
        assert_eq!(heard.answers[0].ttl, 5);
        assert!(heard.edns.is_none(), "EDNS is for those who speak it");
    }
}

#[tokio::test]
async fn the_spelling_of_a_question_comes_back_byte_for_byte() {
    let server = start(config(), cluster()).await;
    let asked = question("wEb.DeFault.sVc.Cluster.LOCAL.", RecordType::A);
    let heard = server.ask(&asked).await;
    let name = asked.queries[0].name();
    assert!(heard.queries[0].name().eq_case(name));
    assert!(heard.answers[0].name.eq_case(name));
}

#[tokio::test]
async fn negative_answers_carry_the_zone_and_how_long_to_keep_them() {
    let server = start(config(), cluster()).await;
    let missing = question("no.web.default.svc.cluster.local.", RecordType::A);
    let heard = server.ask(&missing).await;
    assert_eq!(heard.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(heard.authorities[0].record_type(), RecordType::SOA);
    assert_eq!(heard.authorities[0].ttl, 5);
    let empty = server.ask(&question(WEB, RecordType::TXT)).await;
    assert_eq!(empty.metadata.response_code, ResponseCode::NoError);
    assert!(empty.answers.is_empty());
    assert_eq!(empty.authorities[0].record_type(), RecordType::SOA);
}

#[tokio::test]
async fn what_does_not_fit_is_cut_says_so_and_is_whole_over_tcp() {
    let server = start(config(), with_many()).await;
    let plain = question(MANY, RecordType::A);
    for (asked, limit) in [
        (plain.clone(), 512),
        (with_edns(plain.clone(), 900), 900),
        (with_edns(plain.clone(), 100), 512),
        (with_edns(plain.clone(), 65_535), 1232),
    ] {
        let bytes = udp(server.address, &asked.to_vec().unwrap()).await.unwrap();
        assert!(bytes.len() <= limit, "{} > {limit}", bytes.len());
        let heard = Message::from_vec(&bytes).unwrap();
        assert!(heard.metadata.truncation);
        let (count, edns) = (heard.answers.len(), heard.edns.is_some());
        assert!(bytes.len() + 28 > limit, "{count} answers leave no room");
        assert_eq!(edns, asked.edns.is_some());
    }
    let whole = server.ask_over_tcp(&plain).await;
    assert!(!whole.metadata.truncation);
    assert_eq!(whole.answers.len(), 200);
}

#[tokio::test]
async fn additional_records_that_do_not_fit_are_left_out_silently() {
    let mut records = cluster();
    let pods: Vec<(String, String)> = (0..8)
        .map(|n| (format!("p{n}"), format!("10.2.0.{n}")))
        .collect();
    let pods: Vec<_> = pods
        .iter()
        .map(|(name, address)| (name.as_str(), host(&[address], false)))
        .collect();
    records.set_service(&service("default", "few"), Some(headless(&pods)));
    let server = start(config(), records).await;
    let asked = question("_http._tcp.few.default.svc.cluster.local.", RecordType::SRV);
    let heard = server.ask(&asked).await;
    assert_eq!(heard.answers.len(), 8);
    assert!(!heard.metadata.truncation);
    assert!(heard.additionals.len() < 8);
    assert_eq!(server.ask_over_tcp(&asked).await.additionals.len(), 8);
}

#[tokio::test]
async fn edns_is_answered_in_its_own_version_only() {
    let server = start(config(), cluster()).await;
    let mut asked = with_edns(question(WEB, RecordType::A), 4096);
    let heard = server.ask(&asked).await;
    let edns = heard.edns.expect("an OPT record");
    assert_eq!((edns.version(), edns.max_payload()), (0, 1232));
    asked.edns.as_mut().unwrap().set_version(1);
    let heard = server.ask(&asked).await;
    // One number has two names: BADVERS here, BADSIG where there are signatures.
    assert_eq!(u16::from(heard.metadata.response_code), 16);
    assert!(heard.answers.is_empty());
}

#[tokio::test]
async fn what_is_no_question_gets_the_code_for_it_or_nothing() {
    let server = start(config(), cluster()).await;
    let mut update = question(WEB, RecordType::A);
    update.metadata.op_code = OpCode::Update;
    let heard = server.ask(&update).await;
    assert_eq!(heard.metadata.response_code, ResponseCode::NotImp);
    assert_eq!(heard.metadata.op_code, OpCode::Update);

    let mut double = question(WEB, RecordType::A);
    double.add_queries(double.queries.clone());
    let heard = server.ask(&double).await;
    assert_eq!(heard.metadata.response_code, ResponseCode::FormErr);

    let mut cut = question(WEB, RecordType::A).to_vec().unwrap();
    cut.truncate(20);
    let heard = udp(server.address, &cut).await.unwrap();
    let heard = Message::from_vec(&heard).unwrap();
    assert_eq!(heard.metadata.response_code, ResponseCode::FormErr);
}

#[tokio::test]
async fn a_response_is_never_responded_to() {
    let server = start(config(), cluster()).await;
    let mut response = question(WEB, RecordType::A);
    response.metadata.message_type = MessageType::Response;
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for packet in [response.to_vec().unwrap(), vec![0; 11], Vec::new()] {
        socket.send_to(&packet, server.address).await.unwrap();
    }
    // The first thing to come back is the answer to what was asked last.
    let asked = question(WEB, RecordType::A);
    let packet = asked.to_vec().unwrap();
    socket.send_to(&packet, server.address).await.unwrap();
    let mut answer = vec![0; 512];
    let length = socket.recv(&mut answer).await.unwrap();
    let heard = Message::from_vec(&answer[..length]).unwrap();
    assert_eq!(heard.metadata.id, asked.metadata.id);
}

#[tokio::test]
async fn one_connection_takes_many_questions() {
    let server = start(config(), cluster()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let asked: Vec<Message> = (0..10).map(|_| question(WEB, RecordType::A)).collect();
    for message in &asked {
        send(&mut stream, &message.to_vec().unwrap()).await;
    }
    for message in &asked {
        let heard = Message::from_vec(&receive(&mut stream).await).unwrap();
        assert_eq!(heard.metadata.id, message.metadata.id);
    }
}

#[tokio::test]
async fn before_the_view_is_complete_services_fail_and_are_not_denied() {
    let server = start(config(), edgegrid_dns::records::Records::default()).await;
    let heard = server.ask(&question(WEB, RecordType::A)).await;
    assert_eq!(heard.metadata.response_code, ResponseCode::ServFail);
}

#[tokio::test]
async fn a_change_of_the_records_is_in_the_next_answer() {
    use edgegrid_dns::server::Server;
    use parking_lot::RwLock;
    use std::sync::Arc;
    let records = Arc::new(RwLock::new(cluster()));
    let server = Server::bind(config(), Arc::clone(&records)).await.unwrap();
    let address = server.addresses()[0];
    let (_trigger, stop) = edgegrid_runtime::shutdown::channel();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { server.run(stop).await.unwrap() });
    let asked = question("demo-0.demo-svc.default.svc.cluster.local.", RecordType::A);
    let packet = asked.to_vec().unwrap();
    for expected in ["10.1.0.1", "10.1.0.77"] {
        let heard = udp(address, &packet).await.unwrap();
        assert_eq!(data(&Message::from_vec(&heard).unwrap()), [expected]);
        let pods = headless(&[("demo-0", host(&["10.1.0.77"], true))]);
        let name = service("default", "demo-svc");
        records.write().set_service(&name, Some(pods));
    }
}

#[tokio::test]
async fn it_stops_when_it_is_to() {
    let mut server = start(config(), cluster()).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    send(&mut idle, &question(WEB, RecordType::A).to_vec().unwrap()).await;
    receive(&mut idle).await;
    server.trigger.pull();
    server.tasks.join_next().await.unwrap().unwrap();
}
