//! What a question is answered with, decided from what this node knows and nothing else.
//!
//! ```text
//! question ─┬─ in the cluster's domain ─► a service's ─► its records, NODATA or NXDOMAIN
//!           │                          └► anything else ─► the cluster's DNS if there is one, else NXDOMAIN
//!           ├─ a known address backwards ─► its names
//!           └─ everything else ─► the node's resolvers
//! ```
//!
//! Names are compared without regard to case; an answer repeats the question's own spelling, which
//! resolvers use as a second secret beside the id.

mod build;
mod reverse;
mod service;

use std::net::IpAddr;

use hickory_proto::op::Query;
use hickory_proto::rr::rdata::{HINFO, NS, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

use crate::records::Records;
pub(crate) use build::record;
use build::{address_data, soa, soa_data};

/// Seconds for which an answer may be kept, a negative one too; CoreDNS' default.
pub const TTL: u32 = 5;
/// The version of the Kubernetes DNS specification that is followed, as `dns-version` answers it.
const SCHEMA: &str = "1.1.0";

/// What the server is an authority for.
#[derive(Debug, Clone)]
pub struct Zone {
    /// The cluster's domain, absolute.
    pub domain: Name,
    /// Where the server is asked: the addresses of `ns.dns.<domain>`.
    pub addresses: Vec<IpAddr>,
    /// Whether there is a DNS of the cluster that can be asked.
    pub has_cluster_dns: bool,
    /// What every negative answer carries; put together once, as most questions of a pod with search domains end in one.
    soa: Record,
}

impl Zone {
    /// The zone of a cluster's domain, asked at these addresses.
    pub fn new(domain: Name, addresses: Vec<IpAddr>, has_cluster_dns: bool) -> Self {
        Self {
            soa: soa(&domain),
            domain,
            addresses,
            has_cluster_dns,
        }
    }
}

/// What becomes of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// These records.
    Answer(Answer),
    /// Another name has the answer: this record, followed by what is asked for at its target.
    Alias {
        /// From the question's name to the target.
        record: Record,
        /// Where to look.
        target: Name,
    },
    /// The name exists without such records; with the zone's SOA.
    NoData(Record),
    /// There is no such name; with the zone's SOA.
    NxDomain(Record),
    /// Somebody else knows.
    Forward(To),
    /// The view is not complete yet, so that nothing is known about the cluster's names.
    NotReady,
    /// Not a question for this server.
    Refused,
}

/// The records of an answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// What is at the name that was asked for.
    pub data: Vec<RData>,
    /// What will be asked for next.
    pub additional: Vec<Record>,
}

impl Answer {
    fn new(data: Vec<RData>) -> Self {
        let additional = Vec::new();
        Self { data, additional }
    }
}

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// The DNS of the cluster.
    Cluster,
    /// The resolvers of the node.
    Resolvers,
}

/// Decides what becomes of a question.
pub fn decide(records: &Records, zone: &Zone, question: &Query) -> Decision {
    let kind = question.query_type();
    let is_transfer = matches!(kind, RecordType::AXFR | RecordType::IXFR);
    if question.query_class() != DNSClass::IN || is_transfer {
        return Decision::Refused;
    }
    let name = question.name();
    if zone.domain.zone_of(name) {
        return in_domain(records, zone, name, kind);
    }
    match reverse::address(name) {
        Some(address) => reverse::decide(records, zone, (name, address), kind),
        None => Decision::Forward(To::Resolvers),
    }
}

/// What is at a name.
#[derive(Debug)]
enum Found {
    /// The name exists with these records of the type asked for, maybe none.
    Here(Answer),
    /// The name stands for another.
    Elsewhere(Name),
    /// There is no such name.
    Nothing,
    /// It is no name of a service, and who else has it this node does not know.
    Unknown,
    /// This node does not know yet.
    NotReady,
}

impl Found {
    fn nothing_of_this_type() -> Self {
        Self::Here(Answer::default())
    }

    fn data(data: Vec<RData>) -> Self {
        Self::Here(Answer::new(data))
    }
}

fn in_domain(records: &Records, zone: &Zone, name: &Name, kind: RecordType) -> Decision {
    let Some(labels) = labels_below(&zone.domain, name) else {
        return Decision::NxDomain(zone.soa.clone());
    };
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let found = match labels[..] {
        [] => apex(zone, kind),
        ["dns-version"] => version(kind),
        ["ns", "dns"] => Found::data(address_data(&zone.addresses, kind)),
        [.., "svc"] if !records.is_complete() => Found::NotReady,
        ["dns" | "svc"] => Found::nothing_of_this_type(),
        [namespace, "svc"] if records.has_namespace(namespace) => Found::nothing_of_this_type(),
        [_, "svc"] => Found::Nothing,
        [ref below @ .., service, namespace, "svc"] => {
            let asked = service::Asked {
                kind,
                service: (namespace, service),
                below,
            };
            service::find(records, zone, &asked)
        }
        _ => Found::Unknown,
    };
    conclude(zone, name, kind, found)
}

fn conclude(zone: &Zone, name: &Name, kind: RecordType, found: Found) -> Decision {
    match found {
        Found::Here(_) | Found::Elsewhere(_) if kind == RecordType::ANY => minimal_any(),
        Found::Here(answer) if answer.data.is_empty() => Decision::NoData(zone.soa.clone()),
        Found::Here(answer) => Decision::Answer(answer),
        Found::Elsewhere(target) => build::alias(name, target, kind),
        Found::Unknown if zone.has_cluster_dns => Decision::Forward(To::Cluster),
        Found::Nothing | Found::Unknown => Decision::NxDomain(zone.soa.clone()),
        Found::NotReady => Decision::NotReady,
    }
}

/// One small record instead of all of them: RFC 8482, section 4.2.
fn minimal_any() -> Decision {
    let hint = HINFO::new("RFC8482".to_owned(), String::new());
    Decision::Answer(Answer::new(vec![RData::HINFO(hint)]))
}

fn apex(zone: &Zone, kind: RecordType) -> Found {
    match kind {
        RecordType::SOA => Found::data(vec![soa_data(&zone.domain)]),
        RecordType::NS => {
            let server = build::name_server(&zone.domain);
            let additional = [RecordType::A, RecordType::AAAA]
                .into_iter()
                .flat_map(|kind| address_data(&zone.addresses, kind))
                .map(|data| record(&server, data))
                .collect();
            Found::Here(Answer {
                data: vec![RData::NS(NS(server))],
                additional,
            })
        }
        _ => Found::nothing_of_this_type(),
    }
}

fn version(kind: RecordType) -> Found {
    match kind {
        RecordType::TXT => {
            let text = TXT::new(vec![SCHEMA.to_owned()]);
            Found::data(vec![RData::TXT(text)])
        }
        _ => Found::nothing_of_this_type(),
    }
}

/// A name's labels in front of a domain's, in lower case; none if one of them cannot be a name of
/// Kubernetes, so that no odd byte takes part in a comparison.
fn labels_below(domain: &Name, name: &Name) -> Option<Vec<String>> {
    let count = name.iter().len() - domain.iter().len();
    name.iter().take(count).map(plain_label).collect()
}

fn plain_label(label: &[u8]) -> Option<String> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !label.iter().all(is_plain) {
        return None;
    }
    let text = std::str::from_utf8(label).ok()?;
    Some(text.to_ascii_lowercase())
}
