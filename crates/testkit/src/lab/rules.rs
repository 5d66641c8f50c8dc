//! Reads from kube-proxy's rules where a node sends connections to the `ClusterIP` of a service port.
//!
//! Packets prove what is reachable only by many tries; the rules say it at once, and what is not. Both
//! readers do what the kernel does: start at the rule for the service's address, follow jumps, and collect
//! the destinations. A service port is written as kube-proxy does: `default/web:http`, without a port name
//! `default/web`. No endpoints and no such service are the same here: an empty set.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

/// Endpoints of a service port in the output of `iptables-save -t nat`.
pub fn iptables_endpoints(saved: &str, service_port: &str) -> BTreeSet<SocketAddrV4> {
    let comment = format!("--comment \"{service_port} cluster IP\"");
    let mut chains = Chains::new();
    let mut starts = Vec::new();
    for rule in saved.lines().filter_map(|line| line.strip_prefix("-A ")) {
        let Some((name, rule)) = rule.split_once(' ') else {
            continue;
        };
        let target = rule.rsplit_once(" -j ").map(|(_, action)| action);
        let chain = chains.entry(name).or_default();
        if let Some(destination) =
            target.and_then(|action| action.strip_prefix("DNAT --to-destination "))
        {
            chain
                .destinations
                .extend(destination.trim().parse::<SocketAddrV4>());
        } else if let Some(jump) = target {
            chain.jumps.push(jump);
            if name == "KUBE-SERVICES" && rule.contains(&comment) {
                starts.push(jump);
            }
        }
    }
    reachable(&chains, starts)
}

/// Endpoints of a service port in the output of `nft list table ip kube-proxy`.
pub fn nftables_endpoints(listed: &str, service_port: &str) -> BTreeSet<SocketAddrV4> {
    let mut chains = Chains::new();
    let mut starts = Vec::new();
    for (header, body) in blocks(listed) {
        if header == "map service-ips" {
            let jumps = nft_chain(&body).jumps.into_iter();
            starts.extend(jumps.filter(|chain| is_cluster_ip_chain(chain, service_port)));
        } else if let Some(name) = header.strip_prefix("chain ") {
            chains.insert(name, nft_chain(&body));
        }
    }
    reachable(&chains, starts)
}

type Chains<'a> = BTreeMap<&'a str, Chain<'a>>;

#[derive(Debug, Default)]
struct Chain<'a> {
    jumps: Vec<&'a str>,
    destinations: Vec<SocketAddrV4>,
}

fn reachable<'a>(chains: &Chains<'a>, starts: Vec<&'a str>) -> BTreeSet<SocketAddrV4> {
    let (mut found, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), starts);
    while let Some(name) = open.pop() {
        if let Some(chain) = chains.get(name)
            && seen.insert(name)
        {
            found.extend(&chain.destinations);
            open.extend(&chain.jumps);
        }
    }
    found
}

/// The blocks inside a table (`chain x { … }`) as their header and their words.
fn blocks(listed: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks = Vec::new();
    for line in listed.lines() {
        // nft indents by depth: one tab is a block of the table, more is its content.
        let Some(line) = line.strip_prefix('\t') else {
            continue;
        };
        if !line.starts_with('\t') {
            blocks.extend(line.strip_suffix(" {").map(|header| (header, Vec::new())));
        } else if let Some((_, words)) = blocks.last_mut() {
            words.extend(
                line.split_whitespace()
                    .map(|word| word.trim_end_matches(',')),
            );
        }
    }
    blocks
}

fn nft_chain<'a>(words: &[&'a str]) -> Chain<'a> {
    let mut chain = Chain::default();
    for (at, word) in words.iter().enumerate() {
        let rest = &words[at + 1..];
        match (*word, rest) {
            ("goto" | "jump", [target, ..]) => chain.jumps.push(*target),
            // One endpoint: dnat to 198.19.1.17:8080
            ("to", [destination, ..]) => chain
                .destinations
                .extend(destination.parse::<SocketAddrV4>()),
            // Several: dnat ip to numgen random mod 2 map { 0 : 198.19.1.17 . 8080, 1 : … }
            (":", [address, ".", port, ..]) => {
                if let (Ok(address), Ok(port)) = (address.parse::<Ipv4Addr>(), port.parse()) {
                    chain.destinations.push(SocketAddrV4::new(address, port));
                }
            }
            _ => {}
        }
    }
    chain
}

/// Whether a chain is the one behind the `ClusterIP`: `service-<hash>-<namespace>/<name>/<protocol>/<port name>`,
/// or `local-…` with `internalTrafficPolicy: Local`. Other addresses of the service lead to `external-…`.
fn is_cluster_ip_chain(chain: &str, service_port: &str) -> bool {
    let (service, port) = service_port.split_once(':').unwrap_or((service_port, ""));
    let hashed = chain
        .strip_prefix("service-")
        .or_else(|| chain.strip_prefix("local-"));
    let Some((_, name)) = hashed.and_then(|hashed| hashed.split_once('-')) else {
        return false;
    };
    let rest = name
        .strip_prefix(service)
        .and_then(|rest| rest.strip_prefix('/'));
    rest.and_then(|rest| rest.split_once('/'))
        .is_some_and(|(_, name)| name == port)
}

#[cfg(test)]
mod tests;
