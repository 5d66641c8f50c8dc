//! The names of one service: its own, those of its pods, those of its ports.
//!
//! | name below the service's | what it has |
//! |---|---|
//! | (itself) | A, AAAA, SRV of all ports; or a CNAME |
//! | `<host>` | A, AAAA, SRV of all ports |
//! | `_<protocol>` | nothing, but something below it |
//! | `_<port>._<protocol>` | SRV |

use std::collections::BTreeSet;
use std::net::IpAddr;

use hickory_proto::rr::rdata::SRV;
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::build::{address_data, below, record};
use super::{Answer, Found, Zone};
use crate::records::{Host, Port, Records, ServiceName, ServiceRecords, Target};

/// What the weights of an answer's targets add up to, as CoreDNS gives them.
const WEIGHTS: usize = 100;

/// A question about a service.
pub(super) struct Asked<'a> {
    pub(super) kind: RecordType,
    /// The service's namespace and name.
    pub(super) service: (&'a str, &'a str),
    /// The labels in front of the service's name.
    pub(super) below: &'a [&'a str],
}

/// A service this node knows, and where its names are.
struct Known<'a> {
    records: &'a ServiceRecords,
    zone: &'a Zone,
    service: (&'a str, &'a str),
}

/// Somebody who offers ports: the service itself, or one of its pods.
struct Offer<'a> {
    target: Name,
    addresses: &'a [IpAddr],
    ports: &'a [Port],
}

pub(super) fn find(records: &Records, zone: &Zone, asked: &Asked<'_>) -> Found {
    let (namespace, name) = asked.service;
    let service = ServiceName {
        namespace: namespace.into(),
        name: name.into(),
    };
    // The view has every service there is. One that is too new for it may be closed, and who has no view would say
    // where its other units are; so nobody is asked.
    let Some(records) = records.service(&service) else {
        return Found::Nothing;
    };
    let known = Known {
        records,
        zone,
        service: asked.service,
    };
    match *asked.below {
        [] => own(&known, asked),
        [label] => match label.strip_prefix('_') {
            Some(protocol) => protocol_only(&known, protocol),
            None => host(&known, label, asked),
        },
        [port, protocol] => match (port.strip_prefix('_'), protocol.strip_prefix('_')) {
            (Some(port), Some(protocol)) => ports(&known, asked, (port, protocol)),
            _ => Found::Nothing,
        },
        _ => Found::Nothing,
    }
}

fn own(known: &Known<'_>, asked: &Asked<'_>) -> Found {
    match &known.records.target {
        Target::External(target) => external(target),
        // As CoreDNS has it: without a pod to name, the name itself is not there.
        Target::Headless if known.pods().next().is_none() => Found::Nothing,
        _ if asked.kind == RecordType::SRV => services(&known.offers(), |_| true),
        Target::Headless => {
            let addresses = known.pods().flat_map(|(_, host)| &host.addresses);
            Found::data(address_data(addresses, asked.kind))
        }
        Target::Addresses(addresses) => Found::data(address_data(addresses, asked.kind)),
    }
}

fn external(target: &str) -> Found {
    let Ok(mut target) = Name::from_ascii(target) else {
        return Found::Nothing;
    };
    target.set_fqdn(true);
    Found::Elsewhere(target)
}

fn host(known: &Known<'_>, label: &str, asked: &Asked<'_>) -> Found {
    let Some(host) = known.records.hosts.get(label) else {
        return Found::Nothing;
    };
    if asked.kind == RecordType::SRV && !host.alias {
        let offer = known.offer(label, host);
        return services(offer.as_slice(), |_| true);
    }
    Found::data(address_data(&host.addresses, asked.kind))
}

/// Nothing is at `_tcp`, but names are below it if a port of that protocol has a name.
fn protocol_only(known: &Known<'_>, protocol: &str) -> Found {
    let is_it = |port: &Port| !port.name.is_empty() && *port.protocol == *protocol;
    if offered(&known.offers(), is_it) {
        Found::nothing_of_this_type()
    } else {
        Found::Nothing
    }
}

fn ports(known: &Known<'_>, asked: &Asked<'_>, (name, protocol): (&str, &str)) -> Found {
    let is_it =
        |port: &Port| !name.is_empty() && *port.name == *name && *port.protocol == *protocol;
    let offers = known.offers();
    if !offered(&offers, is_it) {
        return Found::Nothing;
    }
    if asked.kind == RecordType::SRV {
        services(&offers, is_it)
    } else {
        Found::nothing_of_this_type()
    }
}

fn offered(offers: &[Offer<'_>], wanted: impl Fn(&Port) -> bool + Copy) -> bool {
    offers.iter().any(|offer| offer.ports.iter().any(wanted))
}

/// SRV records of all offers' ports, and the addresses of their targets.
fn services(offers: &[Offer<'_>], wanted: impl Fn(&Port) -> bool + Copy) -> Found {
    let of_offer = |offer: &Offer<'_>| {
        let numbers = offer.ports.iter().filter(|port| wanted(port));
        numbers.map(|port| port.number).collect::<BTreeSet<u16>>()
    };
    let count: usize = offers.iter().map(|offer| of_offer(offer).len()).sum();
    let weight = u16::try_from(WEIGHTS / count.max(1)).unwrap_or(1).max(1);
    let mut answer = Answer::default();
    for offer in offers {
        let numbers = of_offer(offer);
        if numbers.is_empty() {
            continue;
        }
        answer.additional.extend(glue(offer));
        answer.data.extend(numbers.into_iter().map(|number| {
            let target = offer.target.clone();
            RData::SRV(SRV::new(0, weight, number, target))
        }));
    }
    Found::Here(answer)
}

fn glue(offer: &Offer<'_>) -> Vec<Record> {
    let of = |kind| address_data(offer.addresses, kind);
    let both = of(RecordType::A).into_iter().chain(of(RecordType::AAAA));
    both.map(|data| record(&offer.target, data)).collect()
}

impl<'a> Known<'a> {
    /// The pods under the names they go by.
    fn pods(&self) -> impl Iterator<Item = (&'a str, &'a Host)> {
        let hosts = self.records.hosts.iter().filter(|(_, host)| !host.alias);
        hosts.map(|(label, host)| (&**label, host))
    }

    fn offers(&self) -> Vec<Offer<'a>> {
        match &self.records.target {
            Target::External(_) => Vec::new(),
            Target::Headless => {
                let offers = self
                    .pods()
                    .filter_map(|(label, host)| self.offer(label, host));
                offers.collect()
            }
            Target::Addresses(addresses) => {
                let own = self.name_below(&[]).map(|target| Offer {
                    target,
                    addresses,
                    ports: &self.records.ports,
                });
                own.into_iter().collect()
            }
        }
    }

    fn offer(&self, label: &str, host: &'a Host) -> Option<Offer<'a>> {
        Some(Offer {
            target: self.name_below(&[label])?,
            addresses: &host.addresses,
            ports: &host.ports,
        })
    }

    fn name_below(&self, labels: &[&str]) -> Option<Name> {
        let (namespace, name) = self.service;
        below(
            &[labels, &[name, namespace, "svc"]].concat(),
            &self.zone.domain,
        )
    }
}
