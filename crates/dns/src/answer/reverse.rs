//! Names of addresses.

use std::net::IpAddr;

use hickory_proto::rr::rdata::PTR;
use hickory_proto::rr::{Name, RData, RecordType};

use super::build::{below, soa};
use super::{Answer, Decision, To, Zone, minimal_any};
use crate::records::{Records, ServiceName, ServiceRecords, Target};

/// The address that a name below `in-addr.arpa` or `ip6.arpa` stands for.
pub(super) fn address(name: &Name) -> Option<IpAddr> {
    let address = name.parse_arpa_name().ok()?;
    // One spelling for each address: `010` and `+10` are no labels of one.
    let whole = address.prefix_len() == address.max_prefix_len();
    (whole && Name::from(address.addr()) == *name).then(|| address.addr())
}

/// Names of an address that this node knows; others may know more.
pub(super) fn decide(
    records: &Records,
    zone: &Zone,
    (name, address): (&Name, IpAddr),
    kind: RecordType,
) -> Decision {
    let names: Vec<Name> = records
        .at(address)
        .flat_map(|(service, known)| names(zone, service, known, address))
        .collect();
    if names.is_empty() {
        let to = if zone.has_cluster_dns {
            To::Cluster
        } else {
            To::Resolvers
        };
        return Decision::Forward(to);
    }
    match kind {
        RecordType::PTR => {
            let pointer = |target| RData::PTR(PTR(target));
            Decision::Answer(Answer::new(names.into_iter().map(pointer).collect()))
        }
        RecordType::ANY => minimal_any(),
        _ => Decision::NoData(soa(&name.trim_to(2))),
    }
}

/// A second, short name of a pod is not among them: the address has one name per service.
fn names(zone: &Zone, service: &ServiceName, known: &ServiceRecords, at: IpAddr) -> Vec<Name> {
    let (namespace, name) = (&*service.namespace, &*service.name);
    let is_own = matches!(&known.target, Target::Addresses(own) if own.contains(&at));
    let own = is_own.then(|| below(&[name, namespace, "svc"], &zone.domain));
    let hosts = known.hosts.iter();
    let hosts = hosts.filter(|(_, host)| !host.alias && host.addresses.contains(&at));
    let hosts = hosts.map(|(host, _)| below(&[host, name, namespace, "svc"], &zone.domain));
    own.into_iter().chain(hosts).flatten().collect()
}
