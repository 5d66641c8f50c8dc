//! Who may ask: this node, and whoever the operator names. A server that answers everybody is a tool
//! for attacks on others.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::IpNet;
use tokio::time::Instant;

/// The machine's addresses are looked up again for an unknown client, but not more often than this.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What never leaves the machine.
const LOOPBACK: [IpNet; 2] = [
    IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    IpNet::new_assert(IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
];

/// The networks that may ask, and the machine's own addresses.
#[derive(Debug)]
pub(super) struct Access {
    networks: Vec<IpNet>,
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Own {
    addresses: BTreeSet<IpAddr>,
    looked: Option<Instant>,
}

impl Access {
    pub(super) fn new(mut allow: Vec<IpNet>) -> Self {
        allow.extend(LOOPBACK);
        Self::only(allow)
    }

    /// For these networks and the machine's own addresses, without the rest of loopback.
    pub(super) fn only(networks: Vec<IpNet>) -> Self {
        Self {
            networks,
            own: Mutex::default(),
        }
    }

    /// Whether a client may ask.
    pub(super) fn admits(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        let mut networks = self.networks.iter();
        networks.any(|network| network.contains(&client)) || self.is_own(client)
    }

    fn is_own(&self, client: IpAddr) -> bool {
        let mut own = self.own.lock();
        if own.addresses.contains(&client) {
            return true;
        }
        if own.looked.is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
            return false;
        }
        own.looked = Some(Instant::now());
        own.addresses = machine_addresses();
        own.addresses.contains(&client)
    }
}

/// As the kernel lists them; what cannot be read has none.
fn machine_addresses() -> BTreeSet<IpAddr> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (v4, v6) = (
        read("/proc/self/net/fib_trie"),
        read("/proc/self/net/if_inet6"),
    );
    let v4 = local_v4(&v4).map(IpAddr::V4);
    v4.chain(local_v6(&v6).map(IpAddr::V6)).collect()
}

/// The leaves of the routing table that are marked `host LOCAL` in the line after them.
fn local_v4(table: &str) -> impl Iterator<Item = Ipv4Addr> {
    let lines = table.lines().zip(table.lines().skip(1));
    lines.filter_map(|(leaf, kind)| {
        let address = leaf.trim().strip_prefix("|--")?.trim().parse().ok()?;
        kind.trim().starts_with("/32 host LOCAL").then_some(address)
    })
}

/// The first column, in hexadecimal.
fn local_v6(table: &str) -> impl Iterator<Item = Ipv6Addr> {
    let columns = table.lines().filter_map(|line| line.split(' ').next());
    columns.filter_map(|digits| {
        let is_address = digits.len() == 32;
        let bits = is_address.then(|| u128::from_str_radix(digits, 16).ok())?;
        bits.map(Ipv6Addr::from_bits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_may_ask_and_a_stranger_only_when_allowed() {
        let access = Access::new(Vec::new());
        let stranger = "203.0.113.9".parse().unwrap();
        assert!(access.admits("127.0.0.1".parse().unwrap()));
        assert!(access.admits("::1".parse().unwrap()));
        assert!(access.admits("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!access.admits(stranger));
        let open = Access::new(vec!["203.0.113.0/24".parse().unwrap()]);
        assert!(open.admits(stranger));
        assert!(!open.admits("203.0.114.9".parse().unwrap()));
    }

    #[test]
    fn addresses_of_the_machine_are_read_and_those_of_its_networks_are_not() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     +-- 10.1.0.0/16 2 0 2\n        |-- 10.1.0.0\n           /16 link UNICAST\n        |-- 10.1.2.3\n           /32 host LOCAL\n        |-- 10.1.255.255\n           /32 link BROADCAST\n";
        let found: Vec<_> = local_v4(table).collect();
        assert_eq!(found, ["10.1.2.3".parse::<Ipv4Addr>().unwrap()]);
        let table = "fd000000000000000000000000000005 02 40 00 80     eth0\nnonsense\n";
        let found: Vec<_> = local_v6(table).collect();
        assert_eq!(found, ["fd00::5".parse::<Ipv6Addr>().unwrap()]);
    }

    #[test]
    fn the_kernel_of_this_machine_is_understood() {
        let found = machine_addresses();
        assert!(
            found.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)),
            "{found:?}"
        );
    }
}
