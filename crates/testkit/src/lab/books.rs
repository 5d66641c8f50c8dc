//! Who is in the lab: which names and addresses are taken. Decides, and does nothing to the network.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};

use super::echo::Echo;
use super::subnet::{MAX_NODES, PODS_PER_NODE, Subnet};
use super::{LabNode, LabPod};

/// All nodes and pods of a lab by name.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) pods: BTreeMap<String, Pod>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) lab: LabNode,
    /// Whether its namespace is ready for pods.
    pub(super) up: bool,
    position: u8,
    /// The next pod's address is looked for from here on, so that an address rests before its reuse.
    handed_out: usize,
}

#[derive(Debug)]
pub(super) struct Pod {
    pub(super) lab: LabPod,
    pub(super) phase: Phase,
}

/// A pod keeps its name and address until it has ended.
#[derive(Debug)]
pub(super) enum Phase {
    Starting,
    Up(Vec<Echo>),
    Ending,
}

impl Books {
    /// Takes the first free position for a node.
    pub(super) fn enter_node(&mut self, subnet: &Subnet, name: &str) -> Result<(LabNode, u8)> {
        ensure!(
            is_name(name),
            "{name:?} is no node name: use lower case letters, digits, '-' and '.'"
        );
        ensure!(
            !self.nodes.contains_key(name),
            "node {name} is in the lab already"
        );
        let is_free = |position: &u8| self.nodes.values().all(|node| node.position != *position);
        let position = (1..=MAX_NODES).find(is_free);
        let position = position
            .with_context(|| format!("no room for node {name}: a lab holds {MAX_NODES}"))?;
        let lab = LabNode {
            name: name.to_owned(),
            namespace: subnet.namespace(name),
            address: subnet.node_address(position),
            pod_cidr: subnet.pod_cidr(position),
        };
        let node = Node {
            lab: lab.clone(),
            up: false,
            position,
            handed_out: 0,
        };
        self.nodes.insert(name.to_owned(), node);
        Ok((lab, position))
    }

    /// Takes the name and an address for a pod: the `wanted` one, or one that is free on `node`.
    pub(super) fn enter_pod(
        &mut self,
        subnet: &Subnet,
        (node, name): (&str, &str),
        wanted: Option<Ipv4Addr>,
        ports: &[u16],
    ) -> Result<(LabPod, LabNode)> {
        let valid = name
            .split_once('/')
            .is_some_and(|(namespace, name)| is_name(namespace) && is_name(name));
        ensure!(valid, "{name:?} is no pod: write it as namespace/name");
        ensure!(
            !self.pods.contains_key(name),
            "pod {name} is in the lab already"
        );
        let address = self
            .free_address(subnet, node, wanted)
            .with_context(|| format!("add pod {name}"))?;
        let entry = self.nodes.get_mut(node).with_context(|| no_node(node))?;
        entry.handed_out += 1;
        let lab = LabPod {
            name: name.to_owned(),
            node: node.to_owned(),
            namespace: subnet.namespace(name),
            address,
            ports: ports.to_vec(),
        };
        self.pods.insert(
            name.to_owned(),
            Pod {
                lab: lab.clone(),
                phase: Phase::Starting,
            },
        );
        Ok((lab, entry.lab.clone()))
    }

    pub(super) fn node(&self, name: &str) -> Result<&LabNode> {
        self.nodes
            .get(name)
            .map(|node| &node.lab)
            .with_context(|| no_node(name))
    }

    /// A node, and its position in the subnet.
    pub(super) fn node_with_position(&self, name: &str) -> Result<(LabNode, u8)> {
        let node = self.nodes.get(name).with_context(|| no_node(name))?;
        Ok((node.lab.clone(), node.position))
    }

    /// Namespace of the node or pod called `at`.
    pub(super) fn namespace_of(&self, at: &str) -> Result<String> {
        if !at.contains('/') {
            return Ok(self.node(at)?.namespace.clone());
        }
        let pod = self
            .pods
            .get(at)
            .with_context(|| format!("no pod {at} in the lab: add it first"))?;
        Ok(pod.lab.namespace.clone())
    }

    fn free_address(
        &self,
        subnet: &Subnet,
        node: &str,
        wanted: Option<Ipv4Addr>,
    ) -> Result<Ipv4Addr> {
        let node = self
            .nodes
            .get(node)
            .filter(|node| node.up)
            .with_context(|| no_node(node))?;
        let is_free =
            |address: &Ipv4Addr| self.pods.values().all(|pod| pod.lab.address != *address);
        let mut all = subnet.pod_addresses(node.position);
        let (name, cidr) = (&node.lab.name, &node.lab.pod_cidr);
        if let Some(wanted) = wanted {
            ensure!(
                all.any(|one| one == wanted),
                "{wanted} is not among the addresses of node {name}: {cidr}"
            );
            ensure!(is_free(&wanted), "{wanted} is taken by another pod");
            return Ok(wanted);
        }
        let start = node.handed_out % usize::from(PODS_PER_NODE);
        let found = all
            .cycle()
            .skip(start)
            .take(PODS_PER_NODE.into())
            .find(is_free);
        found.with_context(|| format!("node {name} is full: it holds {PODS_PER_NODE} pods"))
    }
}

fn no_node(name: &str) -> String {
    format!("no node {name} in the lab: add it first")
}

/// Names become part of file names.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.'
    };
    !name.is_empty() && name.len() <= 100 && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab_with_a_node() -> (Books, Subnet) {
        let (mut books, subnet) = (Books::default(), Subnet::new("1", 7));
        books.enter_node(&subnet, "bj-1").unwrap();
        books.nodes.get_mut("bj-1").unwrap().up = true;
        (books, subnet)
    }

    #[test]
    fn an_address_rests_before_its_reuse() {
        let (mut books, subnet) = lab_with_a_node();
        let add = |books: &mut Books| {
            books
                .enter_pod(&subnet, ("bj-1", "default/a"), None, &[])
                .unwrap()
                .0
                .address
        };
        let first = add(&mut books);
        for _ in 1..PODS_PER_NODE {
            books.pods.clear();
            assert_ne!(add(&mut books), first);
        }
        books.pods.clear();
        assert_eq!(add(&mut books), first);
    }

    #[test]
    fn every_address_is_given_once_and_then_the_node_is_full() {
        let (mut books, subnet) = lab_with_a_node();
        let wanted = Some(Ipv4Addr::new(198, 19, 7, 18));
        books
            .enter_pod(&subnet, ("bj-1", "default/wanted"), wanted, &[])
            .unwrap();
        for number in 1..PODS_PER_NODE {
            books
                .enter_pod(&subnet, ("bj-1", &format!("default/{number}")), None, &[])
                .unwrap();
        }
        let addresses: std::collections::BTreeSet<_> =
            books.pods.values().map(|pod| pod.lab.address).collect();
        assert_eq!(addresses.len(), usize::from(PODS_PER_NODE));
        for wanted in [None, wanted] {
            assert!(
                books
                    .enter_pod(&subnet, ("bj-1", "default/more"), wanted, &[])
                    .is_err()
            );
        }
    }

    #[test]
    fn names_that_would_be_paths_or_ambiguous_are_refused() {
        let (mut books, subnet) = lab_with_a_node();
        for name in ["", "a/b", "a_b", "A", "../x"] {
            assert!(books.enter_node(&subnet, name).is_err(), "{name}");
        }
        for name in ["web", "/web", "default/", "default/../x", "default/a_b"] {
            assert!(
                books.enter_pod(&subnet, ("bj-1", name), None, &[]).is_err(),
                "{name}"
            );
        }
    }
}
