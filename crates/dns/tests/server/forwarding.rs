//! What other servers are asked, and which of their answers count.

use std::time::Duration;

use edgegrid_dns::server::{Config, Forwarding, Resolvers};
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use tokio::net::UdpSocket;

use crate::harness::{LOOPBACK, Other, answer, config, data, failure, question, start, with_edns};
use crate::names::cluster;

const ELSEWHERE: &str = "www.example.org.";

fn resolvers(others: &[&Other]) -> Config {
    let addresses = others.iter().map(|other| other.address);
    Config {
        resolvers: Resolvers::These(addresses.collect()),
        forward: Forwarding {
            patience: Duration::from_millis(300),
            ..Forwarding::default()
        },
        ..config()
    }
}

#[tokio::test]
async fn names_of_others_are_asked_of_the_nodes_resolvers_over_the_same_transport() {
    let other = Other::start(|asked| vec![answer(asked, [192, 0, 2, 1])]).await;
    let server = start(resolvers(&[&other]), cluster()).await;
    let asked = question("wWw.exAmple.oRg.", RecordType::A);
    for heard in [server.ask(&asked).await, server.ask_over_tcp(&asked).await] {
        assert_eq!(heard.metadata.id, asked.metadata.id);
        assert_eq!(data(&heard), ["192.0.2.1"]);
        assert!(heard.queries[0].name().eq_case(asked.queries[0].name()));
        assert!(!heard.metadata.authoritative);
    }
    let asked_of_it = other.heard();
    assert_eq!(asked_of_it.len(), 2);
    assert!(
        asked_of_it
            .iter()
            .all(|message| message.metadata.recursion_desired)
    );
}

#[tokio::test]
async fn other_names_of_the_cluster_are_asked_of_its_dns_and_those_of_services_never() {
    let cluster_dns = Other::start(|asked| vec![answer(asked, [10, 96, 0, 99])]).await;
    let resolver = Other::start(|asked| vec![answer(asked, [192, 0, 2, 1])]).await;
    let config = Config {
        cluster_dns: vec![cluster_dns.address],
        ..resolvers(&[&resolver])
    };
    let server = start(config, cluster()).await;
    let pod = question("10-1-0-1.default.pod.cluster.local.", RecordType::A);
    assert_eq!(data(&server.ask(&pod).await), ["10.96.0.99"]);
    for closed in ["demo-guangzhou-0.demo-svc", "too-new"] {
        let name = format!("{closed}.default.svc.cluster.local.");
        let heard = server.ask(&question(&name, RecordType::A)).await;
        assert_eq!(heard.metadata.response_code, ResponseCode::NXDomain);
    }
    assert_eq!(cluster_dns.heard().len(), 1);
    assert!(resolver.heard().is_empty());
}

#[tokio::test]
async fn a_resolver_that_is_dead_silent_or_failing_is_passed_over() {
    let dead = {
        let socket = UdpSocket::bind((LOOPBACK, 0)).await.unwrap();
        socket.local_addr().unwrap()
    };
    let silent = Other::start(|_| Vec::new()).await;
    let failing = Other::start(|asked| vec![failure(asked, ResponseCode::ServFail)]).await;
    let good = Other::start(|asked| vec![answer(asked, [192, 0, 2, 1])]).await;
    for bad in [dead, silent.address, failing.address] {
        let config = Config {
            resolvers: Resolvers::These(vec![bad, good.address]),
            ..resolvers(&[])
        };
        let server = start(config, cluster()).await;
        let heard = server.ask(&question(ELSEWHERE, RecordType::A)).await;
        assert_eq!(data(&heard), ["192.0.2.1"]);
    }
    let before = (silent.heard().len(), good.heard().len());
    assert_eq!(before, (1, 3));
}

#[tokio::test]
async fn who_answered_is_asked_first_the_next_time() {
    let silent = Other::start(|_| Vec::new()).await;
    let good = Other::start(|asked| vec![answer(asked, [192, 0, 2, 1])]).await;
    let server = start(resolvers(&[&silent, &good]), cluster()).await;
    for _ in 0..3 {
        server.ask(&question(ELSEWHERE, RecordType::A)).await;
    }
    assert_eq!((silent.heard().len(), good.heard().len()), (1, 3));
}

#[tokio::test]
async fn when_nobody_answers_the_client_hears_of_it_and_services_are_answered_still() {
    let silent = Other::start(|_| Vec::new()).await;
    let server = start(resolvers(&[&silent]), cluster()).await;
    let heard = server.ask(&question(ELSEWHERE, RecordType::A)).await;
    assert_eq!(heard.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(silent.heard().len(), Forwarding::default().attempts);
    assert_eq!(
        server.metric("edgegrid_dns_unheard_total{source=\"resolvers\"}"),
        1
    );
    let web = question("web.default.svc.cluster.local.", RecordType::A);
    assert_eq!(data(&server.ask(&web).await), ["10.96.0.7"]);
}

#[tokio::test]
async fn an_answer_to_another_question_is_not_believed() {
    let liar = Other::start(|asked| {
        let mut other_id = answer(asked, [6, 6, 6, 1]);
        other_id.metadata.id = asked.metadata.id.wrapping_add(1);
        let mut other_name = asked.clone();
        other_name.queries[0].set_name(Name::from_ascii("bank.example.").unwrap());
        let mut other_type = answer(asked, [6, 6, 6, 2]);
        other_type.queries[0].set_query_type(RecordType::AAAA);
        let mut none = answer(asked, [6, 6, 6, 3]);
        none.queries.clear();
        let mut own_question = answer(asked, [6, 6, 6, 4]);
        own_question.metadata.message_type = hickory_proto::op::MessageType::Query;
        vec![
            other_id,
            answer(&other_name, [6, 6, 6, 5]),
            other_type,
            none,
            own_question,
            answer(asked, [192, 0, 2, 1]),
        ]
    })
    .await;
    let server = start(resolvers(&[&liar]), cluster()).await;
    let heard = server.ask(&question(ELSEWHERE, RecordType::A)).await;
    assert_eq!(data(&heard), ["192.0.2.1"]);
}

#[tokio::test]
async fn equal_questions_under_way_are_asked_once() {
    let other = Other::start(|_| Vec::new()).await;
    let server = start(resolvers(&[&other]), cluster()).await;
    let asked: Vec<Message> = (0..20)
        .map(|_| question(ELSEWHERE, RecordType::A))
        .collect();
    let all = asked.iter().map(|message| server.ask(message));
    for (heard, asked) in futures::future::join_all(all).await.iter().zip(&asked) {
        assert_eq!(heard.metadata.response_code, ResponseCode::ServFail);
        assert_eq!(heard.metadata.id, asked.metadata.id);
    }
    assert_eq!(other.heard().len(), Forwarding::default().attempts);
}

#[tokio::test]
async fn a_circle_of_servers_ends() {
    // The other server forwards everything to ours, which is its own resolver.
    let socket = UdpSocket::bind((LOOPBACK, 0)).await.unwrap();
    let other = socket.local_addr().unwrap();
    let config = Config {
        resolvers: Resolvers::These(vec![other]),
        ..resolvers(&[])
    };
    let server = start(config, cluster()).await;
    let ours = server.address;
    let mut tasks = tokio::task::JoinSet::new();
    let (count, counted) = tokio::sync::watch::channel(0);
    tasks.spawn(async move {
        let mut packet = vec![0; 4096];
        loop {
            let (length, client) = socket.recv_from(&mut packet).await.unwrap();
            if client != ours {
                count.send_modify(|count| *count += 1);
                socket.send_to(&packet[..length], ours).await.unwrap();
            }
        }
    });
    let heard = server.ask(&question(ELSEWHERE, RecordType::A)).await;
    assert_eq!(heard.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(*counted.borrow(), Forwarding::default().attempts);
}

#[tokio::test]
async fn an_external_name_is_followed_to_its_addresses() {
    let other = Other::start(|asked| vec![answer(asked, [192, 0, 2, 1])]).await;
    let server = start(resolvers(&[&other]), cluster()).await;
    let outside = question("outside.default.svc.cluster.local.", RecordType::A);
    let heard = server.ask(&outside).await;
    assert_eq!(data(&heard), ["www.example.org.", "192.0.2.1"]);
    let inside = question("inside.default.svc.cluster.local.", RecordType::A);
    let heard = server.ask(&inside).await;
    assert_eq!(
        data(&heard),
        ["web.default.svc.cluster.local.", "10.96.0.7"]
    );
    assert_eq!(other.heard().len(), 1);
    let circle = question("circle.default.svc.cluster.local.", RecordType::A);
    let heard = server.ask(&circle).await;
    assert_eq!(heard.metadata.response_code, ResponseCode::ServFail);
}

#[tokio::test]
async fn the_answer_of_others_is_cut_to_what_the_client_takes() {
    let other = Other::start(|asked| {
        let mut message = answer(asked, [192, 0, 2, 0]);
        for n in 1..70 {
            message.add_answer(answer(asked, [192, 0, 2, n]).answers.remove(0));
        }
        vec![message]
    })
    .await;
    let server = start(resolvers(&[&other]), cluster()).await;
    let plain = question(ELSEWHERE, RecordType::A);
    let heard = server.ask(&plain).await;
    assert!(heard.metadata.truncation);
    assert!(heard.to_vec().unwrap().len() <= 512);
    assert_eq!(server.ask_over_tcp(&plain).await.answers.len(), 70);
    let heard = server.ask(&with_edns(plain, 1232)).await;
    assert!(heard.answers.len() > 60);
}

#[tokio::test]
async fn only_so_many_questions_are_under_way_at_once() {
    let silent = Other::start(|_| Vec::new()).await;
    let mut config = resolvers(&[&silent]);
    config.forward.at_once = 2;
    let server = start(config, cluster()).await;
    let names: Vec<Message> = (0..10)
        .map(|n| question(&format!("n{n}.example.org."), RecordType::A))
        .collect();
    let all = names.iter().map(|message| server.ask(message));
    for heard in futures::future::join_all(all).await {
        assert_eq!(heard.metadata.response_code, ResponseCode::ServFail);
    }
    assert_eq!(silent.heard().len(), 2 * Forwarding::default().attempts);
    assert_eq!(
        server.metric("edgegrid_dns_turned_away_total{reason=\"busy\"}"),
        8
    );
}

#[tokio::test]
async fn it_never_asks_itself() {
    let address = {
        let socket = UdpSocket::bind((LOOPBACK, 0)).await.unwrap();
        socket.local_addr().unwrap()
    };
    let config = Config {
        listen: vec![address],
        resolvers: Resolvers::These(vec![address]),
        ..resolvers(&[])
    };
    let server = start(config, cluster()).await;
    let heard = server.ask(&question(ELSEWHERE, RecordType::A)).await;
    assert_eq!(heard.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(
        server.metric("edgegrid_dns_questions_total{transport=\"udp\"}"),
        1
    );
}
