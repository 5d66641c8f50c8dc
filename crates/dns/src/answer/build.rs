//! Records as they are sent.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hickory_proto::rr::rdata::{A, AAAA, CNAME, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::{Answer, Decision, TTL};

/// A zone's serial is of use to nobody who cannot transfer it.
const SERIAL: u32 = 1;
const REFRESH: i32 = 7200;
const RETRY: i32 = 1800;
const EXPIRE: i32 = 86400;

pub(super) fn record(name: &Name, data: RData) -> Record {
    Record::from_rdata(name.clone(), TTL, data)
}

/// What a negative answer carries, so that it can be kept for a while: RFC 2308.
pub(super) fn soa(zone: &Name) -> Record {
    negative(zone, zone)
}

/// The SOA of a zone, its name in a question's spelling.
pub(super) fn negative(spelled: &Name, zone: &Name) -> Record {
    let master = name_server(zone);
    let person = below(&["hostmaster"], zone).unwrap_or_else(|| zone.clone());
    let soa = SOA::new(master, person, SERIAL, REFRESH, RETRY, EXPIRE, TTL);
    record(spelled, RData::SOA(soa))
}

/// Where a zone's server is said to be; the specification leaves the name open, this is CoreDNS'.
pub(super) fn name_server(zone: &Name) -> Name {
    below(&["ns", "dns"], zone).unwrap_or_else(|| zone.clone())
}

/// A name below another; none if it is none by the rules of DNS.
pub(super) fn below(labels: &[&str], parent: &Name) -> Option<Name> {
    let labels = labels.iter().map(|label| label.as_bytes());
    let name = Name::from_labels(labels).ok()?;
    name.append_domain(parent).ok()
}

/// The addresses of the family that a type stands for, each once.
pub(super) fn address_records<'a>(
    name: &Name,
    addresses: impl IntoIterator<Item = &'a IpAddr>,
    kind: RecordType,
) -> Vec<Record> {
    let mut seen = BTreeSet::new();
    let mut records = Vec::new();
    for address in addresses {
        let data = match (kind, address) {
            (RecordType::A, IpAddr::V4(address)) => RData::A(A(*address)),
            (RecordType::AAAA, IpAddr::V6(address)) => RData::AAAA(AAAA(*address)),
            _ => continue,
        };
        if seen.insert(address) {
            records.push(record(name, data));
        }
    }
    records
}

/// An answer that leads to another name: alone where it was asked for itself.
pub(super) fn alias(name: &Name, target: Name, kind: RecordType) -> Decision {
    let record = record(name, RData::CNAME(CNAME(target.clone())));
    if kind == RecordType::CNAME {
        return Decision::Answer(Answer {
            records: vec![record],
            additional: Vec::new(),
        });
    }
    Decision::Alias { record, target }
}
