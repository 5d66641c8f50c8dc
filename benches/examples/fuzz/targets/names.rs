//! The node's DNS server: packets of clients, and packets of the servers it asks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use edgegrid_dns::answer::Zone;
use edgegrid_dns::records::{Host, Port, Records, ServiceName, ServiceRecords, Target as Stands};
use edgegrid_dns::server::exchange::{Pending, Step, accept, take};
use edgegrid_dns::server::wire::{MAX_UDP, Transport};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use crate::mutate;
use crate::random::Random;
use crate::run::Target;

const NAMES: &[&str] = &[
    "web.default.svc.cluster.local.",
    "WEB.default.SVC.cluster.local.",
    "many.default.svc.cluster.local.",
    "pod-0.many.default.svc.cluster.local.",
    "_http._tcp.many.default.svc.cluster.local.",
    "_http._tcp.web.default.svc.cluster.local.",
    "outside.default.svc.cluster.local.",
    "circle.default.svc.cluster.local.",
    "default.svc.cluster.local.",
    "no.such.default.svc.cluster.local.",
    "dns-version.cluster.local.",
    "cluster.local.",
    "7.0.96.10.in-addr.arpa.",
    "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.d.f.ip6.arpa.",
    "www.example.org.",
    ".",
];
const KINDS: &[RecordType] = &[
    RecordType::A,
    RecordType::AAAA,
    RecordType::SRV,
    RecordType::PTR,
    RecordType::CNAME,
    RecordType::TXT,
    RecordType::SOA,
    RecordType::NS,
    RecordType::ANY,
    RecordType::AXFR,
    RecordType::HTTPS,
];
/// A header, and what a UDP client without EDNS takes at most.
const HEADER: usize = 12;
const WITHOUT_EDNS: usize = 512;

/// Packets as clients send them to the DNS server.
pub(crate) struct Questions {
    zone: Zone,
    records: Records,
    buffer: Vec<u8>,
}

impl Questions {
    pub(crate) fn new() -> Self {
        Self {
            zone: zone(),
            records: records(),
            buffer: Vec::new(),
        }
    }
}

impl Target for Questions {
    type Input = (Vec<u8>, Transport);

    fn draw(&self, random: &mut Random) -> Self::Input {
        let mut packet = question(random).to_vec().unwrap_or_default();
        if !random.once_in(10) {
            mutate::bytes(random, &mut packet);
        }
        let transport = *random.pick(&[Transport::Udp, Transport::Udp, Transport::Tcp]);
        (packet, transport)
    }

    fn feed(&mut self, (packet, transport): &Self::Input) -> bool {
        let known = (&self.zone, &self.records);
        match take(known, packet, *transport, &mut self.buffer) {
            Step::Silence => {
                let is_question = packet.len() >= HEADER && packet[2] & 0x80 == 0;
                assert!(!is_question, "a question without an answer");
                false
            }
            Step::Answered(_) => {
                check(packet, &self.buffer, *transport);
                Message::from_vec(packet).is_ok()
            }
            Step::Ask(pending) => {
                let step = pending.finish(None, *transport, &mut self.buffer);
                assert!(
                    matches!(step, Step::Answered(_)),
                    "a question without an answer"
                );
                check(packet, &self.buffer, *transport);
                true
            }
        }
    }
}

/// Packets of other servers.
pub(crate) struct Answers {
    /// A question that is under way, with and without EDNS.
    waiting: Vec<(Vec<u8>, Box<Pending>)>,
    buffer: Vec<u8>,
}

impl Answers {
    pub(crate) fn new() -> Self {
        let (zone, records) = (zone(), records());
        let mut waiting = Vec::new();
        for (name, payload) in [
            ("www.example.org.", None),
            ("www.example.org.", Some(65_535)),
            ("outside.default.svc.cluster.local.", Some(700)),
        ] {
            let mut message = Message::new(7, MessageType::Query, OpCode::Query);
            message.add_query(Query::query(name_of(name), RecordType::A));
            if let Some(payload) = payload {
                let mut edns = Edns::new();
                edns.set_max_payload(payload);
                message.set_edns(edns);
            }
            let packet = message.to_vec().unwrap_or_default();
            let step = take((&zone, &records), &packet, Transport::Udp, &mut Vec::new());
            if let Step::Ask(pending) = step {
                waiting.push((packet, pending));
            }
        }
        let buffer = Vec::new();
        Self { waiting, buffer }
    }
}

impl Target for Answers {
    type Input = (usize, Vec<u8>, Transport);

    fn draw(&self, random: &mut Random) -> Self::Input {
        let which = random.below(self.waiting.len());
        let mut message = sent(&self.waiting[which].1);
        message.metadata.message_type = MessageType::Response;
        for _ in 0..random.below(60) {
            message.add_answer(record(random));
        }
        for _ in 0..random.below(4) {
            message.add_authority(record(random));
            message.add_additional(record(random));
        }
        let mut packet = message.to_vec().unwrap_or_default();
        mutate::bytes(random, &mut packet);
        let transport = *random.pick(&[Transport::Udp, Transport::Tcp]);
        (which, packet, transport)
    }

    fn feed(&mut self, (which, packet, transport): &Self::Input) -> bool {
        let (asked, pending) = &self.waiting[*which];
        let Some(answer) = accept(&sent(pending), packet) else {
            return false;
        };
        let step = pending.finish(Some(&answer), *transport, &mut self.buffer);
        assert!(
            matches!(step, Step::Answered(_)),
            "a question without an answer"
        );
        check(asked, &self.buffer, *transport);
        true
    }
}

/// What was sent for a question that waits, always with the same id.
fn sent(pending: &Pending) -> Message {
    let mut message = pending.asked(Transport::Udp).message();
    message.metadata.id = 7;
    message
}

/// An answer can be read, belongs to its question, and is no larger than the protocol allows.
fn check(packet: &[u8], answer: &[u8], transport: Transport) {
    let read = Message::from_vec(answer).expect("an answer can be read");
    assert!(packet.len() >= HEADER, "an answer to half a header");
    assert_eq!(packet[2] & 0x80, 0, "an answer to an answer");
    assert_eq!(packet[..2], answer[..2], "the id of the question");
    assert_eq!(read.metadata.message_type, MessageType::Response);
    let asked = Message::from_vec(packet).ok();
    let edns = asked.and_then(|asked| asked.edns);
    let limit = match (transport, edns) {
        (Transport::Tcp, _) => usize::from(u16::MAX),
        (Transport::Udp, None) => WITHOUT_EDNS,
        (Transport::Udp, Some(edns)) => WITHOUT_EDNS.max(edns.max_payload().min(MAX_UDP).into()),
    };
    assert!(answer.len() <= limit, "{} bytes of {limit}", answer.len());
}

fn question(random: &mut Random) -> Message {
    let id = u16::try_from(random.below(65_536)).unwrap_or_default();
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = random.once_in(2);
    for _ in 0..if random.once_in(30) { 2 } else { 1 } {
        let name = name_of(random.word(NAMES));
        message.add_query(Query::query(name, *random.pick(KINDS)));
    }
    if random.once_in(2) {
        let mut edns = Edns::new();
        edns.set_max_payload(*random.pick(&[0, 512, 700, 1232, 4096, u16::MAX]));
        edns.set_dnssec_ok(random.once_in(3));
        message.set_edns(edns);
    }
    message
}

fn record(random: &mut Random) -> Record {
    let name = name_of(random.word(NAMES));
    let target = name_of(random.word(NAMES));
    let data = match random.below(7) {
        0 => RData::AAAA(AAAA(Ipv6Addr::LOCALHOST)),
        1 => RData::CNAME(CNAME(target)),
        2 => RData::SRV(SRV::new(0, 1, 80, target)),
        3 => RData::TXT(TXT::new(vec!["x".repeat(random.below(200))])),
        4 => RData::SOA(SOA::new(target.clone(), target, 1, 2, 3, 4, 5)),
        _ => RData::A(A(Ipv4Addr::LOCALHOST)),
    };
    Record::from_rdata(name, 30, data)
}

fn name_of(text: &str) -> Name {
    Name::from_ascii(text).unwrap_or_else(|_| Name::root())
}

fn zone() -> Zone {
    let addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    Zone::new(name_of("cluster.local."), addresses, false)
}

fn records() -> Records {
    let port = |name: &str| Port {
        name: name.into(),
        protocol: "tcp".into(),
        number: 80,
    };
    let pod = |n: u8| {
        let host = Host {
            addresses: vec![IpAddr::V4([10, 1, 0, n].into())],
            ports: vec![port("http"), port("")].into(),
            alias: n % 2 == 1,
        };
        (format!("pod-{n}").into(), host)
    };
    let service = |target, hosts| ServiceRecords {
        target,
        ports: vec![port("http")],
        hosts,
    };
    let own = ["10.96.0.7", "fd01::7"].map(|text| text.parse().expect("invariant: an address"));
    let mut records = Records::default();
    records.set_namespace("default", true);
    for (name, known) in [
        ("web", service(Stands::Addresses(own.to_vec()), [].into())),
        (
            "many",
            service(Stands::Headless, (0..250).map(pod).collect()),
        ),
        (
            "outside",
            service(Stands::External("www.example.org".into()), [].into()),
        ),
        (
            "circle",
            service(
                Stands::External("circle.default.svc.cluster.local".into()),
                [].into(),
            ),
        ),
    ] {
        let key = ServiceName {
            namespace: "default".into(),
            name: name.into(),
        };
        records.set_service(&key, Some(known));
    }
    records.set_complete();
    records
}
