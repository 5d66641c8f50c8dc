//! Who is turned away, and when.

use parking_lot::RwLock;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_dns::server::{Config, Error, Rate, Server};
use hickory_proto::rr::RecordType;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UdpSocket};

use crate::harness::{LOOPBACK, config, data, question, start};
use crate::names::cluster;

const WEB: &str = "web.default.svc.cluster.local.";

#[tokio::test]
async fn a_client_that_asks_too_much_is_not_answered_and_counted() {
    let one = |n| NonZeroU32::new(n).unwrap();
    let config = Config {
        rate: Some(Rate {
            per_second: one(1),
            burst: one(5),
        }),
        ..config()
    };
    let server = start(config, cluster()).await;
    let socket = UdpSocket::bind((LOOPBACK, 0)).await.unwrap();
    let packet = question(WEB, RecordType::A).to_vec().unwrap();
    for _ in 0..50 {
        socket.send_to(&packet, server.address).await.unwrap();
    }
    let mut answer = vec![0; 512];
    for _ in 0..5 {
        socket.recv(&mut answer).await.unwrap();
    }
    while server.metric("edgegrid_dns_turned_away_total{reason=\"rate\"}") < 44 {
        tokio::task::yield_now().await;
    }
    // Another address is another client.
    let neighbour = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    neighbour.send_to(&packet, server.address).await.unwrap();
    neighbour.recv(&mut answer).await.unwrap();
}

#[tokio::test]
async fn connections_are_bounded_and_the_idle_ones_closed() {
    let config = Config {
        connections: 2,
        idle: Duration::from_millis(300),
        ..config()
    };
    let server = start(config, cluster()).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        open.push(TcpStream::connect(server.address).await.unwrap());
    }
    let mut third = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(
        third.read(&mut [0; 8]).await.unwrap_or(0),
        0,
        "closed at once"
    );
    for mut stream in open {
        assert_eq!(
            stream.read(&mut [0; 8]).await.unwrap_or(0),
            0,
            "closed when idle"
        );
    }
    let asked = question(WEB, RecordType::A);
    assert_eq!(data(&server.ask_over_tcp(&asked).await), ["10.96.0.7"]);
}

#[tokio::test]
async fn an_address_that_is_taken_or_stands_for_all_is_an_error_that_says_so() {
    let records = || Arc::new(RwLock::new(cluster()));
    let at = |address: SocketAddr| Config {
        listen: vec![address],
        ..config()
    };
    let running = start(config(), cluster()).await;
    let error = Server::bind(at(running.address), records())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("is another DNS server there"),
        "{error}"
    );
    let any = "0.0.0.0:0".parse().unwrap();
    let error = Server::bind(at(any), records()).await.unwrap_err();
    assert!(matches!(error, Error::AnyAddress(_)), "{error}");
    let nowhere = Config {
        listen: Vec::new(),
        ..config()
    };
    let error = Server::bind(nowhere, records()).await.unwrap_err();
    assert!(matches!(error, Error::NoAddress), "{error}");
    let odd = Config {
        domain: "a..b".to_owned(),
        ..config()
    };
    let error = Server::bind(odd, records()).await.unwrap_err();
    assert!(matches!(error, Error::Domain { .. }), "{error}");
}
