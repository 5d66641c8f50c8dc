//! The samples are shortened output of the real programs with kube-proxy 1.37, on a node with pod .17 while
//! .33 is on another: `web` is plain, `plain` has an unnamed port and session affinity, `local` is a
//! `NodePort` service with both traffic policies Local, `none` has no endpoints.

use super::*;

const IPTABLES: &str = include_str!("iptables.txt");
const NFTABLES: &str = include_str!("nftables.txt");

fn both(service_port: &str) -> [Vec<String>; 2] {
    let found = [
        iptables_endpoints(IPTABLES, service_port),
        nftables_endpoints(NFTABLES, service_port),
    ];
    found.map(|endpoints| endpoints.iter().map(ToString::to_string).collect())
}

#[test]
fn endpoints_are_those_behind_the_cluster_ip() {
    let cases: [(&str, &[&str]); 7] = [
        (
            "default/web:http",
            &["198.19.7.17:8080", "198.19.7.33:8080"],
        ),
        ("default/plain", &["198.19.7.17:8080", "198.19.7.33:8080"]),
        ("default/local:http", &["198.19.7.17:8080"]),
        ("default/none:http", &[]),
        ("default/web", &[]),
        ("default/we:http", &[]),
        ("other/web:http", &[]),
    ];
    for (service_port, expected) in cases {
        assert_eq!(both(service_port), [expected, expected], "{service_port}");
    }
}

/// kube-proxy 1.33 has a chain per endpoint also without affinity.
#[test]
fn nftables_with_a_chain_per_endpoint_is_followed() {
    let listed = "table ip kube-proxy {\n\
        \tmap service-ips {\n\
        \t\telements = { 10.96.0.100 . tcp . 80 : goto service-A-default/web/tcp/http }\n\
        \t}\n\
        \tchain endpoint-B-default/web/tcp/http__198.19.7.17/8080 {\n\
        \t\tip saddr 198.19.7.17 jump mark-for-masquerade\n\
        \t\tmeta l4proto tcp dnat to 198.19.7.17:8080\n\
        \t}\n\
        \tchain service-A-default/web/tcp/http {\n\
        \t\tnumgen random mod 1 vmap { 0 : goto endpoint-B-default/web/tcp/http__198.19.7.17/8080 }\n\
        \t}\n\
        }\n";
    let found = nftables_endpoints(listed, "default/web:http");
    assert_eq!(found, BTreeSet::from(["198.19.7.17:8080".parse().unwrap()]));
}

#[test]
fn no_rules_means_no_endpoints() {
    assert!(iptables_endpoints("", "default/web:http").is_empty());
    assert!(nftables_endpoints("", "default/web:http").is_empty());
}
