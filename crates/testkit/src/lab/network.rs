//! The bridge, namespaces and servers of one lab, and their removal.
//!
//! Everything here blocks. A change is entered in the books first and made afterwards without holding them,
//! so that many pods can come and go at once and each name and address is used once.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail, ensure};
use parking_lot::{Mutex, MutexGuard};

use super::books::{Books, Phase};
use super::echo::Echo;
use super::namespace::{inside, ip, ip_in, remove_overlay};
use super::subnet::{MAX_NODES, POD_GATEWAY, Subnet};
use super::{LabNode, LabPod};
use crate::command;
use crate::leftovers;
use crate::run::{Run, RunFolder};

/// Labs that one machine can hold at once.
const NUMBERS: std::ops::RangeInclusive<u8> = 1..=250;

/// One lab. Dropping it removes everything that carries its name.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) subnet: Subnet,
    books: Mutex<Books>,
    pub(super) folder: RunFolder,
    // Last, so that the number is free only after all has been removed.
    _number: File,
}

impl Network {
    pub(super) fn start() -> Result<Network> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "the network lab makes namespaces: run it as root"
        );
        command::require("ip", "iproute2 iptables nftables curl")?;
        let run = Run::current()?;
        let (subnet, number) = free_subnet(run)?;
        let folder = run.folder("lab")?;
        let network = Network {
            subnet,
            books: Mutex::default(),
            folder,
            _number: number,
        };
        // From here on dropping the value removes what was made.
        let (bridge, subnet) = (network.subnet.bridge(), &network.subnet);
        let mut batch = format!(
            "link add {bridge} address {} type bridge\n",
            subnet.bridge_mac()
        );
        writeln!(
            batch,
            "addr add {}/24 dev {bridge}\nlink set {bridge} up",
            subnet.gateway()
        )?;
        for position in 1..=MAX_NODES {
            writeln!(
                batch,
                "route add {} via {}",
                subnet.pod_cidr(position),
                subnet.node_address(position)
            )?;
        }
        ip(&batch)?;
        Ok(network)
    }

    pub(super) fn add_node(&self, name: &str) -> Result<LabNode> {
        let (node, position) = self.books().enter_node(&self.subnet, name)?;
        if let Err(error) = self.make_node(&node, position) {
            let _ = ip(&format!("netns del {}\n", node.namespace));
            self.books().nodes.remove(name);
            return Err(error.context(format!("add node {name}")));
        }
        if let Some(node) = self.books().nodes.get_mut(name) {
            node.up = true;
        }
        Ok(node)
    }

    /// Makes a node's namespace anew. What ran in it ends; its pods are cut off, as a reboot ends them.
    pub(super) fn reboot_node(&self, name: &str) -> Result<()> {
        let (node, position) = self.books().node_with_position(name)?;
        leftovers::kill_inside(std::slice::from_ref(&node.namespace))?;
        // The veth first: a namespace frees its devices only some time after its end.
        let device = self.subnet.node_device(position);
        ip(&format!(
            "link del {device}\nnetns del {}\n",
            node.namespace
        ))
        .and_then(|()| self.make_node(&node, position))
        .with_context(|| format!("reboot node {name}"))
    }

    pub(super) fn add_pod(
        &self,
        node: &str,
        name: &str,
        address: Option<Ipv4Addr>,
        ports: &[u16],
    ) -> Result<LabPod> {
        let (pod, node) = self
            .books()
            .enter_pod(&self.subnet, (node, name), address, ports)?;
        let made = make_pod(&pod, &node);
        let mut books = self.books();
        match (made, books.pods.get_mut(name)) {
            (Ok(servers), Some(entry)) if matches!(entry.phase, Phase::Starting) => {
                entry.phase = Phase::Up(servers);
                Ok(pod)
            }
            (made, _) => {
                drop(books);
                let failure = made.map_or_else(
                    |error| error,
                    |_| anyhow!("removed while it was being added"),
                );
                // Half a pod: that some of it is missing says less than why it could not be made.
                let _ = self.unmake_pod(&pod, Vec::new());
                Err(failure.context(format!("add pod {name}")))
            }
        }
    }

    pub(super) fn remove_pod(&self, name: &str) -> Result<()> {
        let (pod, servers) = {
            let mut books = self.books();
            let Some(entry) = books.pods.get_mut(name) else {
                return Ok(());
            };
            match std::mem::replace(&mut entry.phase, Phase::Ending) {
                Phase::Up(servers) => (entry.lab.clone(), servers),
                // Whoever makes or removes it at this moment sees the new phase, and removes it.
                Phase::Starting | Phase::Ending => return Ok(()),
            }
        };
        self.unmake_pod(&pod, servers)
    }

    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }

    fn make_node(&self, node: &LabNode, position: u8) -> Result<()> {
        let (subnet, namespace) = (&self.subnet, &node.namespace);
        let (device, bridge) = (subnet.node_device(position), subnet.bridge());
        ip(&format!(
            "netns add {namespace}\n\
             link add {device} type veth peer name eth0 netns {namespace}\n\
             link set {device} master {bridge} up\n"
        ))?;
        let mut batch = format!(
            "link set lo up\naddr add {}/24 dev eth0\nlink set eth0 up\n",
            node.address
        );
        writeln!(batch, "route add default via {}", subnet.gateway())?;
        // Otherwise a packet for a pod that is gone would travel between the node and the gateway.
        writeln!(batch, "route add unreachable {}", node.pod_cidr)?;
        for other in (1..=MAX_NODES).filter(|other| *other != position) {
            writeln!(
                batch,
                "route add {} via {}",
                subnet.pod_cidr(other),
                subnet.node_address(other)
            )?;
        }
        ip_in(namespace, &batch)?;
        // This file shows the namespace of the thread that opens it.
        inside(namespace, || {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1")
        })?
        .context("set net.ipv4.ip_forward")
    }

    fn unmake_pod(&self, pod: &LabPod, servers: Vec<Echo>) -> Result<()> {
        // An open socket would keep the namespace, and with it the veth, alive.
        drop(servers);
        let node = self.books().node(&pod.node)?.namespace.clone();
        // The veth before the namespace, which frees its devices only some time later. Both may be missing.
        let _ = ip_in(&node, &format!("link del {}\n", pod_device(pod)));
        leftovers::kill_inside(std::slice::from_ref(&pod.namespace))?;
        let removed = ip(&format!("netns del {}\n", pod.namespace));
        remove_overlay(&pod.namespace)?;
        self.books().pods.remove(&pod.name);
        removed.with_context(|| format!("remove pod {}", pod.name))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The echo servers' sockets would keep their namespaces alive.
        drop(std::mem::take(&mut *self.books()));
        if let Err(error) = leftovers::remove(self.subnet.prefix()) {
            tracing::warn!("the next run removes what is left of a lab: {error:#}");
        }
    }
}

/// A number that no lab uses, and whose addresses this machine does not use for anything else.
fn free_subnet(run: &Run) -> Result<(Subnet, File)> {
    // Runs start at different places, so that a subnet rests before its reuse.
    let start = std::process::id() as usize % NUMBERS.count();
    for number in NUMBERS.cycle().skip(start).take(NUMBERS.count()) {
        let Some(lock) = run.try_lease(&format!("lab-{number}"))? else {
            continue;
        };
        let subnet = Subnet::new(run.id(), number);
        let mut addresses = Command::new("ip");
        addresses.args(["-4", "-o", "addr", "show", "to", &subnet.node_cidr()]);
        if command::output(&mut addresses)?.is_empty() {
            return Ok((subnet, lock));
        }
    }
    bail!(
        "no free subnet in 198.18.0.0/16 for a lab: end other runs, or remove their devices (ip link)"
    )
}

/// Sets up the pod's namespace and its server.
fn make_pod(pod: &LabPod, node: &LabNode) -> Result<Vec<Echo>> {
    let (namespace, device, address) = (&pod.namespace, pod_device(pod), pod.address);
    ip(&format!("netns add {namespace}\n"))?;
    // Scope link: otherwise masquerading could choose this address, which no other node can answer to.
    ip_in(
        &node.namespace,
        &format!(
            "link add {device} type veth peer name eth0 netns {namespace}\n\
             addr add {POD_GATEWAY}/32 dev {device} scope link\n\
             link set {device} up\n\
             route add {address}/32 dev {device}\n"
        ),
    )?;
    ip_in(
        namespace,
        &format!(
            "link set lo up\n\
             addr add {address}/32 dev eth0\n\
             link set eth0 up\n\
             route add default via {POD_GATEWAY} dev eth0 onlink\n"
        ),
    )?;
    pod.ports
        .iter()
        .map(|port| Echo::start(namespace, *port, &pod.name, &node.name))
        .collect()
}

/// Name of the node's end of a pod's veth.
fn pod_device(pod: &LabPod) -> String {
    format!("pod{}", pod.address.octets()[3])
}
