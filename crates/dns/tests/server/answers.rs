//! The rules of names, as a table.

use edgegrid_dns::answer::{Decision, TTL, To, Zone, decide};
use edgegrid_dns::server::exchange::take;
use edgegrid_dns::server::wire::Transport;
use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};

use crate::names::{addresses, cluster, headless, host, service};

fn zone() -> Zone {
    zone_of("cluster.local.", false)
}

fn with_cluster_dns() -> Zone {
    zone_of("cluster.local.", true)
}

fn zone_of(domain: &str, has_cluster_dns: bool) -> Zone {
    let domain = Name::from_ascii(domain).unwrap();
    Zone::new(domain, addresses(&["169.254.20.10"]), has_cluster_dns)
}

fn query(name: &str, kind: RecordType) -> Query {
    Query::query(Name::from_ascii(name).unwrap(), kind)
}

fn kind_of(text: &str) -> RecordType {
    text.parse().unwrap()
}

fn list<'a>(data: impl IntoIterator<Item = &'a RData>) -> String {
    let data: Vec<String> = data.into_iter().map(ToString::to_string).collect();
    data.join(", ")
}

/// A decision in short.
fn said(decision: &Decision) -> String {
    match decision {
        Decision::Answer(answer) if answer.additional.is_empty() => list(&answer.data),
        Decision::Answer(answer) => {
            let additional = answer.additional.iter().map(|record| &record.data);
            format!("{} + {}", list(&answer.data), list(additional))
        }
        Decision::Alias { target, .. } => format!("→ {target}"),
        Decision::NoData(soa) => format!("NODATA {}", soa.name),
        Decision::NxDomain(soa) => format!("NXDOMAIN {}", soa.name),
        Decision::Forward(To::Cluster) => "cluster".to_owned(),
        Decision::Forward(To::Resolvers) => "resolvers".to_owned(),
        Decision::NotReady => "not ready".to_owned(),
        Decision::Refused => "refused".to_owned(),
    }
}

fn check(zone: &Zone, table: &[(&str, &str, &str)]) {
    let records = cluster();
    for (name, kind, expected) in table {
        let decision = decide(&records, zone, &query(name, kind_of(kind)));
        assert_eq!(said(&decision), *expected, "{kind} of {name}");
    }
}

#[test]
fn a_service_with_addresses_is_its_addresses_and_its_ports() {
    check(
        &zone(),
        &[
            ("web.default.svc.cluster.local.", "A", "10.96.0.7"),
            ("web.default.svc.cluster.local.", "AAAA", "fd01::7"),
            (
                "web.default.svc.cluster.local.",
                "TXT",
                "NODATA cluster.local.",
            ),
            (
                "only-v4.default.svc.cluster.local.",
                "AAAA",
                "NODATA cluster.local.",
            ),
            (
                "_http._tcp.web.default.svc.cluster.local.",
                "SRV",
                "0 100 80 web.default.svc.cluster.local. + 10.96.0.7, fd01::7",
            ),
            (
                "_http._tcp.web.default.svc.cluster.local.",
                "A",
                "NODATA cluster.local.",
            ),
            (
                "_http._udp.web.default.svc.cluster.local.",
                "SRV",
                "NXDOMAIN cluster.local.",
            ),
            (
                "web.default.svc.cluster.local.",
                "SRV",
                "0 50 53 web.default.svc.cluster.local., 0 50 80 web.default.svc.cluster.local. + 10.96.0.7, fd01::7",
            ),
            (
                "nobody.web.default.svc.cluster.local.",
                "A",
                "NXDOMAIN cluster.local.",
            ),
        ],
    );
}

#[test]
fn a_headless_service_is_its_pods_each_once_and_under_their_full_names() {
    check(
        &zone(),
        &[
            (
                "demo-svc.default.svc.cluster.local.",
                "A",
                "10.1.0.1, 10.1.0.2",
            ),
            ("demo-svc.default.svc.cluster.local.", "AAAA", "fd00::1"),
            (
                "_http._tcp.demo-svc.default.svc.cluster.local.",
                "SRV",
                "0 50 8080 demo-beijing-0.demo-svc.default.svc.cluster.local., \
          0 50 8080 demo-beijing-1.demo-svc.default.svc.cluster.local. + 10.1.0.1, fd00::1, 10.1.0.2",
            ),
            (
                "demo-beijing-1.demo-svc.default.svc.cluster.local.",
                "A",
                "10.1.0.2",
            ),
            (
                "demo-beijing-1.demo-svc.default.svc.cluster.local.",
                "AAAA",
                "NODATA cluster.local.",
            ),
            (
                "demo-beijing-1.demo-svc.default.svc.cluster.local.",
                "SRV",
                "0 50 8080 demo-beijing-1.demo-svc.default.svc.cluster.local., \
          0 50 9999 demo-beijing-1.demo-svc.default.svc.cluster.local. + 10.1.0.2",
            ),
            (
                "demo-guangzhou-0.demo-svc.default.svc.cluster.local.",
                "A",
                "NXDOMAIN cluster.local.",
            ),
        ],
    );
}

#[test]
fn a_short_name_is_the_pods_address_and_nothing_else() {
    check(
        &zone(),
        &[
            (
                "demo-0.demo-svc.default.svc.cluster.local.",
                "A",
                "10.1.0.1",
            ),
            (
                "demo-0.demo-svc.default.svc.cluster.local.",
                "AAAA",
                "fd00::1",
            ),
            (
                "demo-0.demo-svc.default.svc.cluster.local.",
                "SRV",
                "NODATA cluster.local.",
            ),
            (
                "1.0.1.10.in-addr.arpa.",
                "PTR",
                "demo-beijing-0.demo-svc.default.svc.cluster.local.",
            ),
        ],
    );
}

#[test]
fn a_headless_service_without_a_ready_pod_has_no_name() {
    check(
        &zone(),
        &[
            (
                "idle.default.svc.cluster.local.",
                "A",
                "NXDOMAIN cluster.local.",
            ),
            (
                "idle.default.svc.cluster.local.",
                "SRV",
                "NXDOMAIN cluster.local.",
            ),
            (
                "_http._tcp.idle.default.svc.cluster.local.",
                "SRV",
                "NXDOMAIN cluster.local.",
            ),
        ],
    );
}

#[test]
fn names_with_something_below_them_exist() {
    check(
        &zone(),
        &[
            ("cluster.local.", "A", "NODATA cluster.local."),
            ("svc.cluster.local.", "A", "NODATA cluster.local."),
            (
                "default.svc.cluster.local.",
                "AAAA",
                "NODATA cluster.local.",
            ),
            (
                "_tcp.web.default.svc.cluster.local.",
                "SRV",
                "NODATA cluster.local.",
            ),
            (
                "_udp.demo-svc.default.svc.cluster.local.",
                "SRV",
                "NXDOMAIN cluster.local.",
            ),
            (
                "_sctp.web.default.svc.cluster.local.",
                "SRV",
                "NXDOMAIN cluster.local.",
            ),
            ("dns.cluster.local.", "A", "NODATA cluster.local."),
        ],
    );
}

#[test]
fn the_zone_says_who_it_is() {
    check(
        &zone(),
        &[
            ("dns-version.cluster.local.", "TXT", "1.1.0"),
            ("dns-version.cluster.local.", "A", "NODATA cluster.local."),
            (
                "cluster.local.",
                "NS",
                "ns.dns.cluster.local. + 169.254.20.10",
            ),
            ("ns.dns.cluster.local.", "A", "169.254.20.10"),
            (
                "cluster.local.",
                "SOA",
                "ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5",
            ),
        ],
    );
}

#[test]
fn addresses_have_the_names_of_services_and_pods_in_one_spelling() {
    let table = [
        (
            "7.0.96.10.in-addr.arpa.",
            "PTR",
            "web.default.svc.cluster.local.",
        ),
        (
            "7.0.96.10.IN-ADDR.arpa.",
            "PTR",
            "web.default.svc.cluster.local.",
        ),
        (
            "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.d.f.ip6.arpa.",
            "PTR",
            "web.default.svc.cluster.local.",
        ),
        ("7.0.96.10.in-addr.arpa.", "TXT", "NODATA in-addr.arpa."),
        ("07.0.96.10.in-addr.arpa.", "PTR", "resolvers"),
        ("0.96.10.in-addr.arpa.", "PTR", "resolvers"),
        ("1.2.0.192.in-addr.arpa.", "PTR", "resolvers"),
    ];
    check(&zone(), &table);
    let with_cluster = with_cluster_dns();
    check(
        &with_cluster,
        &[("1.2.0.192.in-addr.arpa.", "PTR", "cluster")],
    );
}

#[test]
fn an_external_name_leads_elsewhere() {
    check(
        &zone(),
        &[
            (
                "outside.default.svc.cluster.local.",
                "A",
                "→ www.example.org.",
            ),
            (
                "outside.default.svc.cluster.local.",
                "CNAME",
                "www.example.org.",
            ),
            (
                "inside.default.svc.cluster.local.",
                "AAAA",
                "→ web.default.svc.cluster.local.",
            ),
        ],
    );
}

#[test]
fn what_is_no_service_is_asked_of_the_cluster_if_it_can_be() {
    let unknown = [
        ("10-1-0-1.default.pod.cluster.local.", "A"),
        ("anything.cluster.local.", "A"),
    ];
    let with_cluster = with_cluster_dns();
    for (name, kind) in unknown {
        check(&with_cluster, &[(name, kind, "cluster")]);
        check(&zone(), &[(name, kind, "NXDOMAIN cluster.local.")]);
    }
}

// A service that is too new for the view may be a closed one.
#[test]
fn nobody_is_asked_about_services_known_or_not() {
    let with_cluster = with_cluster_dns();
    for name in [
        "demo-guangzhou-0.demo-svc.default",
        "a.b.demo-svc.default",
        "_a._tcp.demo-svc.default",
        "idle.default",
        "other.default",
        "a.other.default",
        "_http._tcp.other.default",
        "web.elsewhere",
        "elsewhere",
    ] {
        let name = format!("{name}.svc.cluster.local.");
        for kind in ["A", "AAAA", "SRV"] {
            check(&with_cluster, &[(&name, kind, "NXDOMAIN cluster.local.")]);
        }
    }
}

#[test]
fn everything_else_is_for_the_nodes_resolvers() {
    check(
        &zone(),
        &[
            ("www.example.org.", "A", "resolvers"),
            ("local.", "A", "resolvers"),
            ("notcluster.local.", "A", "resolvers"),
            (".", "NS", "resolvers"),
            (
                "web.default.svc.cluster.local.example.org.",
                "A",
                "resolvers",
            ),
        ],
    );
}

#[test]
fn transfers_and_other_classes_are_refused() {
    for kind in [RecordType::AXFR, RecordType::IXFR] {
        let decision = decide(&cluster(), &zone(), &query("cluster.local.", kind));
        assert_eq!(decision, Decision::Refused);
    }
    let mut chaos = query("version.bind.", RecordType::TXT);
    chaos.set_query_class(DNSClass::CH);
    assert_eq!(decide(&cluster(), &zone(), &chaos), Decision::Refused);
}

#[test]
fn any_is_answered_with_one_small_record_where_there_is_a_name() {
    check(
        &zone(),
        &[
            ("web.default.svc.cluster.local.", "ANY", "RFC8482 "),
            ("outside.default.svc.cluster.local.", "ANY", "RFC8482 "),
            ("7.0.96.10.in-addr.arpa.", "ANY", "RFC8482 "),
            (
                "nobody.web.default.svc.cluster.local.",
                "ANY",
                "NXDOMAIN cluster.local.",
            ),
        ],
    );
}

#[test]
fn the_questions_spelling_is_kept_and_makes_no_difference() {
    let name = Name::from_ascii("WeB.dEfault.SVC.CLUSTER.LOCAL.").unwrap();
    let mut asked = Message::query();
    asked.add_query(Query::query(name.clone(), RecordType::A));
    let (packet, mut answer) = (asked.to_vec().unwrap(), Vec::new());
    take((&zone(), &cluster()), &packet, Transport::Udp, &mut answer);
    let heard = Message::from_vec(&answer).unwrap();
    assert_eq!(heard.answers.len(), 1);
    assert!(heard.answers[0].name.eq_case(&name));
    assert_eq!(heard.answers[0].ttl, TTL);
    assert_eq!(heard.answers[0].data.to_string(), "10.96.0.7");
}

#[test]
fn no_odd_byte_makes_two_labels_of_one() {
    for label in [&b"web.default"[..], b"web\0", b"we\xffb", b"web "] {
        let labels: Vec<&[u8]> = vec![label, b"svc", b"cluster", b"local"];
        let name = Name::from_labels(labels).unwrap();
        let decision = decide(&cluster(), &zone(), &Query::query(name, RecordType::A));
        assert_eq!(said(&decision), "NXDOMAIN cluster.local.", "{label:?}");
    }
}

#[test]
fn nothing_is_said_about_services_before_the_view_is_complete() {
    let mut records = edgegrid_dns::records::Records::default();
    records.set_namespace("default", true);
    let pods = headless(&[("a-0", host(&["10.1.0.1"], false))]);
    records.set_service(&service("default", "a"), Some(pods));
    let with_cluster = with_cluster_dns();
    for name in [
        "a.default",
        "b.default",
        "a-0.a.default",
        "default",
        "x.y.z",
    ] {
        let name = format!("{name}.svc.cluster.local.");
        let decision = decide(&records, &with_cluster, &query(&name, RecordType::A));
        assert_eq!(decision, Decision::NotReady, "{name}");
    }
    let decision = decide(&records, &zone(), &query("example.org.", RecordType::A));
    assert_eq!(decision, Decision::Forward(To::Resolvers));
}

#[test]
fn the_domain_is_the_operators() {
    let zone = zone_of("k8s.corp.example.", false);
    check(
        &zone,
        &[
            ("web.default.svc.k8s.corp.example.", "A", "10.96.0.7"),
            ("x.k8s.corp.example.", "A", "NXDOMAIN k8s.corp.example."),
            ("web.default.svc.cluster.local.", "A", "resolvers"),
        ],
    );
}
