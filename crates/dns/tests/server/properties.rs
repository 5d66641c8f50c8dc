//! Rules that hold for whatever a node knows and whatever it is asked.

use std::collections::BTreeSet;
use std::net::IpAddr;

use edgegrid_dns::answer::{Decision, Zone, decide};
use edgegrid_dns::records::{Host, Records, ServiceRecords, Target};
use hickory_proto::op::Query;
use hickory_proto::rr::{Name, RData, RecordType};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::names::{port, service};

const LABELS: &[&str] = &["a", "a-0", "a-10", "b", "_http", "_tcp", "_udp", "10-1-0-1"];
const KINDS: &[RecordType] = &[
    RecordType::A,
    RecordType::AAAA,
    RecordType::SRV,
    RecordType::TXT,
    RecordType::ANY,
];

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0..9_u8).prop_map(|n| IpAddr::from([10, 1, 0, n])),
        (0..9_u16).prop_map(|n| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n])),
    ]
}

fn host() -> impl Strategy<Value = Host> {
    (vec(address(), 0..3), any::<bool>()).prop_map(|(addresses, alias)| Host {
        addresses,
        ports: vec![port("http", "tcp", 80), port("", "udp", 53)].into(),
        alias,
    })
}

fn known() -> impl Strategy<Value = ServiceRecords> {
    let target = prop_oneof![
        Just(Target::Headless),
        vec(address(), 0..3).prop_map(Target::Addresses),
    ];
    let name = prop::sample::select(&LABELS[..3]).prop_map(Box::from);
    (target, btree_map(name, host(), 0..4)).prop_map(|(target, hosts)| ServiceRecords {
        target,
        ports: vec![port("http", "tcp", 80)],
        hosts,
    })
}

fn question() -> impl Strategy<Value = (Vec<&'static str>, RecordType, u64)> {
    let labels = vec(prop::sample::select(LABELS), 0..4);
    (labels, prop::sample::select(KINDS), any::<u64>())
}

/// A name below the service `a`, spelled by the bits of a number.
fn spelled(labels: &[&str], spelling: u64) -> Name {
    let name = [labels, &["a.default.svc.cluster.local."]]
        .concat()
        .join(".");
    let letters = name.chars().zip((0..64).cycle());
    let name: String = letters
        .map(|(letter, bit)| match spelling >> bit & 1 {
            0 => letter,
            _ => letter.to_ascii_uppercase(),
        })
        .collect();
    Name::from_ascii(name).unwrap()
}

fn zone() -> Zone {
    Zone::new(
        Name::from_ascii("cluster.local.").unwrap(),
        Vec::new(),
        true,
    )
}

fn addresses<'a>(data: impl Iterator<Item = &'a RData>) -> BTreeSet<IpAddr> {
    let addresses = data.filter_map(|data| match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    });
    addresses.collect()
}

fn own_addresses(known: &ServiceRecords) -> BTreeSet<IpAddr> {
    let own = match &known.target {
        Target::Addresses(own) => own.clone(),
        Target::Headless | Target::External(_) => Vec::new(),
    };
    let hosts = known.hosts.values().flat_map(|host| host.addresses.clone());
    own.into_iter().chain(hosts).collect()
}

proptest! {
    #[test]
    fn a_known_service_is_nobody_elses_and_leads_nowhere_else(
        (known, other, (labels, kind, spelling)) in (known(), known(), question())
    ) {
        let mut records = Records::default();
        records.set_service(&service("default", "a"), Some(known.clone()));
        records.set_service(&service("default", "b"), Some(other));
        records.set_complete();
        let decided = |spelling| {
            let query = Query::query(spelled(&labels, spelling), kind);
            decide(&records, &zone(), &query)
        };
        let decision = decided(spelling);
        match &decision {
            Decision::Answer(answer) => {
                let additional = answer.additional.iter().map(|record| &record.data);
                let all = addresses(answer.data.iter().chain(additional));
                prop_assert!(all.is_subset(&own_addresses(&known)));
            }
            Decision::NoData(_) | Decision::NxDomain(_) => {}
            _ => prop_assert!(false, "{decision:?}"),
        }
        // Names are equal without regard to case, and so is everything about them.
        prop_assert_eq!(decision, decided(0));
    }
}
