//! What stands behind a pod that the simulated kubelet runs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Mutex;

use anyhow::{Context, Result};
use futures::future::BoxFuture;

/// A pod as the runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodPlace {
    /// Node it is bound to.
    pub node: String,
    /// `namespace/name`.
    pub pod: String,
}

/// Brings pods to life on simulated nodes.
pub trait PodRuntime: Send + Sync {
    /// Starts a pod and gives its address. Called again for a running pod it gives the same.
    fn start<'a>(&'a self, place: &'a PodPlace) -> BoxFuture<'a, Result<Ipv4Addr>>;
    /// Ends a pod; no error when there is none.
    fn stop<'a>(&'a self, place: &'a PodPlace) -> BoxFuture<'a, Result<()>>;
    /// Takes note of a pod that already has an address, from before a restart.
    fn adopt(&self, place: &PodPlace, address: Ipv4Addr);
}

/// Pods that have an address of their own and nothing behind it.
#[derive(Debug, Default)]
pub struct SimulatedPods {
    addresses: Mutex<Addresses>,
}

/// Nodes get a /24 each, in the order in which they are first seen.
#[derive(Debug, Default)]
struct Addresses {
    nodes: BTreeMap<String, u16>,
    pods: BTreeMap<PodPlace, Ipv4Addr>,
    used: BTreeSet<Ipv4Addr>,
}

impl Addresses {
    fn of(&mut self, place: &PodPlace) -> Option<Ipv4Addr> {
        if let Some(address) = self.pods.get(place) {
            return Some(*address);
        }
        let next = u16::try_from(self.nodes.len()).ok()?;
        let node = *self.nodes.entry(place.node.clone()).or_insert(next);
        let [high, low] = node.to_be_bytes();
        // 10.128.0.0/9: apart from the addresses of Services and of nodes.
        let second = 128u8.checked_add(high)?;
        let free = (1..255).map(|last| Ipv4Addr::new(10, second, low, last));
        let address = free
            .into_iter()
            .find(|address| !self.used.contains(address))?;
        self.take(place, address);
        Some(address)
    }

    fn take(&mut self, place: &PodPlace, address: Ipv4Addr) {
        self.used.insert(address);
        self.pods.insert(place.clone(), address);
    }

    fn free(&mut self, place: &PodPlace) {
        if let Some(address) = self.pods.remove(place) {
            self.used.remove(&address);
        }
    }
}

impl SimulatedPods {
    fn addresses(&self) -> std::sync::MutexGuard<'_, Addresses> {
        self.addresses
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl PodRuntime for SimulatedPods {
    fn start<'a>(&'a self, place: &'a PodPlace) -> BoxFuture<'a, Result<Ipv4Addr>> {
        let address = self
            .addresses()
            .of(place)
            .with_context(|| format!("node {} has no free pod address", place.node));
        Box::pin(std::future::ready(address))
    }

    fn stop<'a>(&'a self, place: &'a PodPlace) -> BoxFuture<'a, Result<()>> {
        self.addresses().free(place);
        Box::pin(std::future::ready(Ok(())))
    }

    fn adopt(&self, place: &PodPlace, address: Ipv4Addr) {
        self.addresses().take(place, address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(node: &str, pod: &str) -> PodPlace {
        PodPlace {
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
                .map(|n| addresses.of(&place(node, &format!("p{n}"))).unwrap())
                .collect();
            let ranges: BTreeSet<_> = of_node.iter().map(|a| a.octets()[2]).collect();
            assert_eq!(ranges.len(), 1);
            seen.extend(of_node);
        }
        assert_eq!(seen.len(), 600);
    }

    #[test]
    fn a_pod_keeps_its_address_and_a_gone_pods_address_is_used_again() {
        let mut addresses = Addresses::default();
        let (first, second) = (place("a", "one"), place("a", "two"));
        let address = addresses.of(&first).unwrap();
        assert_eq!(addresses.of(&first), Some(address));
        addresses.free(&first);
        assert_eq!(addresses.of(&second), Some(address));
    }

    #[test]
    fn an_adopted_address_is_not_given_again() {
        let mut addresses = Addresses::default();
        let address = addresses.of(&place("a", "one")).unwrap();
        let mut restarted = Addresses::default();
        restarted.take(&place("a", "one"), address);
        assert_ne!(restarted.of(&place("a", "two")), Some(address));
    }
}
