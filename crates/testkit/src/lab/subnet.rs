//! Names and addresses of a lab: all follow from the run's id and the lab's number.
//!
//! Because a node's address and pod range follow from its position alone, routes between all possible nodes
//! can be set when a node is made, and need no change when others come.

use std::net::Ipv4Addr;

/// How many nodes fit: each has a sixteenth of a /24 for its pods, and the first is left out.
pub(super) const MAX_NODES: u8 = 15;
/// Pod addresses of a node.
pub(super) const PODS_PER_NODE: u8 = 14;
/// Next hop of every pod. It exists on the node's end of each pod's veth, so pods need no subnet.
pub(super) const POD_GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);

/// The names and addresses of one lab.
#[derive(Debug, Clone)]
pub(super) struct Subnet {
    prefix: String,
    number: u8,
}

impl Subnet {
    pub(super) fn new(run: &str, number: u8) -> Subnet {
        Subnet {
            prefix: format!("eg{run}-{number}-"),
            number,
        }
    }

    /// Start of the names of everything the lab makes.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Name of the bridge: at most the 15 characters that Linux allows, as pids have at most 6 hex digits.
    pub(super) fn bridge(&self) -> String {
        format!("{}br", self.prefix)
    }

    /// A fixed hardware address: a bridge without one takes its ports' and changes it when ports come and go.
    pub(super) fn bridge_mac(&self) -> String {
        format!("02:65:67:00:00:{:02x}", self.number)
    }

    /// Name of the bridge's end of a node's veth.
    pub(super) fn node_device(&self, position: u8) -> String {
        format!("{}{position}", self.prefix)
    }

    /// Namespace of a node, or of a pod (`default/web-0`): no node's name has an underscore.
    pub(super) fn namespace(&self, name: &str) -> String {
        format!("{}{}", self.prefix, name.replace('/', "_"))
    }

    pub(super) fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.number, 1)
    }

    pub(super) fn node_cidr(&self) -> String {
        format!("198.18.{}.0/24", self.number)
    }

    pub(super) fn cluster_cidr(&self) -> String {
        format!("198.19.{}.0/24", self.number)
    }

    pub(super) fn node_address(&self, position: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.number, 10 + position)
    }

    pub(super) fn pod_cidr(&self, position: u8) -> String {
        format!("198.19.{}.{}/28", self.number, position * 16)
    }

    /// All pod addresses of a node; the first and last of the range are left out, as people expect.
    pub(super) fn pod_addresses(
        &self,
        position: u8,
    ) -> impl DoubleEndedIterator<Item = Ipv4Addr> + Clone {
        let number = self.number;
        (1..=PODS_PER_NODE).map(move |host| Ipv4Addr::new(198, 19, number, position * 16 + host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_fit_into_what_linux_allows() {
        let subnet = Subnet::new(&format!("{:x}", 4_194_304 - 1), 250);
        assert_eq!(subnet.bridge(), "eg3fffff-250-br");
        assert!(subnet.bridge().len() <= 15 && subnet.node_device(MAX_NODES).len() <= 15);
    }

    #[test]
    fn the_last_node_is_inside_both_ranges() {
        let subnet = Subnet::new("1", 7);
        assert_eq!(
            subnet.node_address(MAX_NODES),
            Ipv4Addr::new(198, 18, 7, 25)
        );
        assert_eq!(subnet.pod_cidr(MAX_NODES), "198.19.7.240/28");
        assert_eq!(
            subnet.pod_addresses(MAX_NODES).last(),
            Some(Ipv4Addr::new(198, 19, 7, 254))
        );
    }
}
