//! A small cluster's names, as one node sees them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use edgegrid_dns::records::{Host, Port, Records, ServiceName, ServiceRecords, Target};

pub(crate) fn service(namespace: &str, name: &str) -> ServiceName {
    ServiceName {
        namespace: namespace.into(),
        name: name.into(),
    }
}

pub(crate) fn port(name: &str, protocol: &str, number: u16) -> Port {
    Port {
        name: name.into(),
        protocol: protocol.into(),
        number,
    }
}

pub(crate) fn addresses(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|text| text.parse().unwrap()).collect()
}

pub(crate) fn host(list: &[&str], alias: bool) -> Host {
    Host {
        addresses: addresses(list),
        ports: vec![port("http", "tcp", 8080), port("", "udp", 9999)].into(),
        alias,
    }
}

pub(crate) fn headless(hosts: &[(&str, Host)]) -> ServiceRecords {
    let hosts: BTreeMap<_, _> = hosts
        .iter()
        .map(|(name, host)| ((*name).into(), host.clone()))
        .collect();
    ServiceRecords {
        target: Target::Headless,
        ports: Vec::new(),
        hosts,
    }
}

pub(crate) fn with_addresses(list: &[&str]) -> ServiceRecords {
    ServiceRecords {
        target: Target::Addresses(addresses(list)),
        ports: vec![port("http", "tcp", 80), port("dns", "udp", 53)],
        hosts: BTreeMap::new(),
    }
}

pub(crate) fn external(target: &str) -> ServiceRecords {
    ServiceRecords {
        target: Target::External(target.into()),
        ..with_addresses(&[])
    }
}

/// One of each sort, in the namespace `default`.
pub(crate) fn cluster() -> Records {
    let mut records = Records::default();
    records.set_namespace("default", true);
    let demo = headless(&[
        ("demo-beijing-0", host(&["10.1.0.1", "fd00::1"], false)),
        ("demo-beijing-1", host(&["10.1.0.2"], false)),
        ("demo-0", host(&["10.1.0.1", "fd00::1"], true)),
        ("demo-1", host(&["10.1.0.2"], true)),
    ]);
    for (name, known) in [
        ("demo-svc", demo),
        ("idle", headless(&[])),
        ("web", with_addresses(&["10.96.0.7", "fd01::7"])),
        ("only-v4", with_addresses(&["10.96.0.8"])),
        ("outside", external("www.example.org")),
        ("inside", external("web.default.svc.cluster.local")),
        ("circle", external("circle.default.svc.cluster.local")),
    ] {
        records.set_service(&service("default", name), Some(known));
    }
    records.set_complete();
    records
}
