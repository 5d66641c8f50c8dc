//! Records as they are sent.

use std::net::IpAddr;

use hickory_proto::rr::rdata::{A, AAAA, CNAME, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::{Answer, Decision, TTL};

/// A zone's serial is of use to nobody who cannot transfer it.
const SERIAL: u32 = 1;
const REFRESH: i32 = 7200;
const RETRY: i32 = 1800;
const EXPIRE: i32 = 86400;

pub(crate) fn record(name: &Name, data: RData) -> Record {
    Record::from_rdata(name.clone(), TTL, data)
}

/// What a negative answer carries, so that it can be kept for a while: RFC 2308.
pub(super) fn soa(zone: &Name) -> Record {
    record(zone, soa_data(zone))
}

pub(super) fn soa_data(zone: &Name) -> RData {
    let master = name_server(zone);
    let person = below(&["hostmaster"], zone).unwrap_or_else(|| zone.clone());
    let soa = SOA::new(master, person, SERIAL, REFRESH, RETRY, EXPIRE, TTL);
    RData::SOA(soa)
}

/// The name of a zone's server; the specification leaves the name open, this is CoreDNS'.
pub(super) fn name_server(zone: &Name) -> Name {
    below(&["ns", "dns"], zone).unwrap_or_else(|| zone.clone())
}

/// A name below another; none if it is none by the rules of DNS.
pub(super) fn below(labels: &[&str], parent: &Name) -> Option<Name> {
    let labels = labels.iter().map(|label| label.as_bytes());
    let name = Name::from_labels(labels).ok()?;
    name.append_domain(parent).ok()
}

/// The addresses of the family that a type stands for, sorted and each once.
pub(super) fn address_data<'a>(
    addresses: impl IntoIterator<Item = &'a IpAddr>,
    kind: RecordType,
) -> Vec<RData> {
    let of_family = |address: &IpAddr| match kind {
        RecordType::A => address.is_ipv4(),
        RecordType::AAAA => address.is_ipv6(),
        _ => false,
    };
    let addresses = addresses.into_iter().copied();
    let mut addresses: Vec<IpAddr> = addresses.filter(of_family).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let data = |address| match address {
        IpAddr::V4(address) => RData::A(A(address)),
        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
    };
    addresses.into_iter().map(data).collect()
}

/// An answer that leads to another name: alone where it was asked for itself.
pub(super) fn alias(name: &Name, target: Name, kind: RecordType) -> Decision {
    let alias = RData::CNAME(CNAME(target.clone()));
    if kind == RecordType::CNAME {
        return Decision::Answer(Answer::new(vec![alias]));
    }
    let record = record(name, alias);
    Decision::Alias { record, target }
}
