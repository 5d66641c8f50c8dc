//! What stands behind a pod that the simulated kubelet runs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};

/// A pod as the runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodKey {
    /// Node it is bound to.
    pub node: String,
    /// Namespace and name of the pod, with a slash between.
    pub pod: String,
}

/// Brings pods to life on simulated nodes.
pub trait PodRuntime: Send + Sync {
    /// Starts a pod and gives its address. Called again for a running pod it gives the same.
    fn start<'a>(&'a self, pod: &'a PodKey) -> BoxFuture<'a, Result<Ipv4Addr>>;
    /// Ends a pod; no error when there is none.
    fn stop<'a>(&'a self, pod: &'a PodKey) -> BoxFuture<'a, Result<()>>;
    /// Takes note of a pod that already has an address, from before a restart.
    fn adopt(&self, pod: &PodKey, address: Ipv4Addr);
}

/// Pods that have an address of their own and nothing behind it.
#[derive(Debug, Default)]
pub struct SimulatedPods {
    addresses: Mutex<Addresses>,
}

/// Blocks of 254 addresses in 10.128.0.0/9.
const BLOCKS: u16 = 1 << 15;

/// Nodes get a /24 each, in the order in which they are first seen, and another one when it is full.
#[derive(Debug, Default)]
struct Addresses {
    blocks: BTreeMap<String, Vec<u16>>,
    pods: BTreeMap<PodKey, Ipv4Addr>,
    used: BTreeSet<Ipv4Addr>,
}

impl Addresses {
    fn allocate(&mut self, pod: &PodKey) -> Option<Ipv4Addr> {
        if let Some(address) = self.pods.get(pod) {
            return Some(*address);
        }
        loop {
            if let Some(address) = self.free_at(&pod.node) {
                self.take(pod, address);
                return Some(address);
            }
            self.extend(&pod.node)?;
        }
    }

    /// A free address in a node's blocks.
    fn free_at(&self, node: &str) -> Option<Ipv4Addr> {
        let blocks = self.blocks.get(node)?.iter();
        let mut all = blocks.flat_map(|block| (1..255).map(|last| address(*block, last)));
        all.find(|address| !self.used.contains(address))
    }

    /// Gives a node one more block, while there are any.
    fn extend(&mut self, node: &str) -> Option<()> {
        let next = self.blocks.values().map(Vec::len).sum::<usize>();
        let next = u16::try_from(next).ok().filter(|next| *next < BLOCKS)?;
        self.blocks.entry(node.to_owned()).or_default().push(next);
        Some(())
    }

    fn take(&mut self, pod: &PodKey, address: Ipv4Addr) {
        self.used.insert(address);
        self.pods.insert(pod.clone(), address);
    }

    fn free(&mut self, pod: &PodKey) {
        if let Some(address) = self.pods.remove(pod) {
            self.used.remove(&address);
        }
    }
}

/// In 10.128.0.0/9: apart from the addresses of Services and of nodes.
fn address(block: u16, last: u8) -> Ipv4Addr {
    let [high, low] = block.to_be_bytes();
    Ipv4Addr::new(10, 128 | high, low, last)
}

impl SimulatedPods {
    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.addresses.lock()
    }
}

impl PodRuntime for SimulatedPods {
    fn start<'a>(&'a self, pod: &'a PodKey) -> BoxFuture<'a, Result<Ipv4Addr>> {
        let address = self
            .addresses()
            .allocate(pod)
            .with_context(|| format!("node {} has no free pod address", pod.node));
        Box::pin(std::future::ready(address))
    }

    fn stop<'a>(&'a self, pod: &'a PodKey) -> BoxFuture<'a, Result<()>> {
        self.addresses().free(pod);
        Box::pin(std::future::ready(Ok(())))
    }

    fn adopt(&self, pod: &PodKey, address: Ipv4Addr) {
        self.addresses().take(pod, address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(node: &str, pod: &str) -> PodKey {
        PodKey {
            node: node.into(),
            pod: pod.into(),
        }
    }

    #[test]
    fn every_pod_has_an_address_of_its_own_in_its_nodes_range() {
        let mut addresses = Addresses::default();
        let mut seen = BTreeSet::new();
        for node in ["a", "b", "c"] {
            let of_node: Vec<_> = (0..200)
                .map(|n| addresses.allocate(&pod(node, &format!("p{n}"))).unwrap())
                .collect();
            let ranges: BTreeSet<_> = of_node.iter().map(|a| a.octets()[2]).collect();
            assert_eq!(ranges.len(), 1);
            seen.extend(of_node);
        }
        assert_eq!(seen.len(), 600);
    }

    #[test]
    fn a_node_with_more_pods_than_a_block_has_addresses_gets_another() {
        let mut addresses = Addresses::default();
        let pods = (0..1000).map(|n| pod("a", &format!("p{n}")));
        let seen: BTreeSet<_> = pods.map(|pod| addresses.allocate(&pod).unwrap()).collect();
        assert_eq!(seen.len(), 1000);
        assert_eq!(addresses.blocks["a"].len(), 4);
    }

    #[test]
    fn a_pod_keeps_its_address_and_a_gone_pods_address_is_used_again() {
        let mut addresses = Addresses::default();
        let (first, second) = (pod("a", "one"), pod("a", "two"));
        let address = addresses.allocate(&first).unwrap();
        assert_eq!(addresses.allocate(&first), Some(address));
        addresses.free(&first);
        assert_eq!(addresses.allocate(&second), Some(address));
    }

    #[test]
    fn an_adopted_address_is_not_given_again() {
        let mut addresses = Addresses::default();
        let address = addresses.allocate(&pod("a", "one")).unwrap();
        let mut restarted = Addresses::default();
        restarted.take(&pod("a", "one"), address);
        assert_ne!(restarted.allocate(&pod("a", "two")), Some(address));
    }
}
