//! Many nodes on one machine, with real packets: a network namespace per node and per pod.
//!
//! Claims about kube-proxy and CoreDNS are claims about traffic, so they are tested with traffic. Needs root.
//!
//! ```text
//!  root namespace      bridge 198.18.n.1/24 = gateway: the API server binds here
//!                        │ veth           │ veth
//!  node namespaces     198.18.n.11      198.18.n.12        kube-proxy and CoreDNS run here
//!                        │ veth per pod   │
//!  pod namespaces      198.19.n.17/32   198.19.n.33/32     an echo server in each
//! ```
//!
//! `n` is leased, so that several labs live side by side. A place in the lab is named by a string: a node by
//! its name (`bj-1`), a pod by namespace and name (`default/web-0`).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::command;
use crate::process::Process;
use books::Phase;
use network::Network;

mod books;
mod coredns;
mod dns;
mod echo;
mod kube_proxy;
mod namespace;
mod network;
pub mod rules;
mod runtime;
mod subnet;
mod wrapper;

pub use coredns::CoreDns;
pub use dns::RecordType;
pub use kube_proxy::ProxyMode;

/// Port of the echo server in pods that ask for no other.
pub const ECHO_PORT: u16 = 8080;

/// A bridge with nodes and pods on it; dropping it removes all of them and the processes inside.
#[derive(Debug)]
pub struct Lab {
    // Work that goes on while the lab is dropped holds on to the network, so nothing is made after the removal.
    network: Arc<Network>,
}

/// A node: a network namespace on the bridge that forwards for its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabNode {
    /// Name of the Node object this stands for.
    pub name: String,
    /// Name of the network namespace, as `ip netns` lists it.
    pub namespace: String,
    /// Address on the bridge: the Node's `InternalIP`.
    pub address: Ipv4Addr,
    /// Range of the addresses of its pods: the Node's `podCIDR`.
    pub pod_cidr: String,
}

/// A pod: a network namespace behind its node, with an echo server in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabPod {
    /// Namespace and name of the Pod object this stands for.
    pub name: String,
    /// Name of its node.
    pub node: String,
    /// Name of the network namespace, as `ip netns` lists it.
    pub namespace: String,
    /// The pod's address in the network of its node.
    pub address: Ipv4Addr,
    /// Ports the echo server listens on.
    pub ports: Vec<u16>,
}

impl Lab {
    /// Sets up an empty lab: a bridge with an address that no other lab of this machine uses.
    pub async fn start() -> Result<Lab> {
        let network = tokio::task::spawn_blocking(Network::start)
            .await
            .context("set up a lab")??;
        Ok(Lab {
            network: Arc::new(network),
        })
    }

    /// Address of the machine as all nodes and pods see it: what the API server binds to and advertises.
    pub fn gateway(&self) -> Ipv4Addr {
        self.network.subnet.gateway()
    }

    /// Range of all pod addresses of this lab.
    pub fn cluster_cidr(&self) -> String {
        self.network.subnet.cluster_cidr()
    }

    /// Folder of the logs and configuration files of this lab.
    pub fn folder(&self) -> &Path {
        &self.network.folder
    }

    /// Adds a node: a network namespace of its own, connected to the others.
    pub async fn add_node(&self, name: &str) -> Result<LabNode> {
        let name = name.to_owned();
        self.blocking(move |network| network.add_node(&name)).await
    }

    /// Reboots a node: a fresh network namespace of the same name and addresses, with nothing in it.
    pub async fn reboot_node(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.blocking(move |network| network.reboot_node(&name))
            .await
    }

    /// Adds a pod that echoes on [`ECHO_PORT`]; it gets a free address of its node when `address` is none.
    pub async fn add_pod(
        &self,
        node: &str,
        name: &str,
        address: Option<Ipv4Addr>,
    ) -> Result<LabPod> {
        self.add_pod_with_ports(node, name, address, &[ECHO_PORT])
            .await
    }

    /// [`add_pod`](Lab::add_pod) that echoes on `ports`.
    pub async fn add_pod_with_ports(
        &self,
        node: &str,
        name: &str,
        address: Option<Ipv4Addr>,
        ports: &[u16],
    ) -> Result<LabPod> {
        let (node, name, ports) = (node.to_owned(), name.to_owned(), ports.to_vec());
        self.blocking(move |network| network.add_pod(&node, &name, address, &ports))
            .await
    }

    /// Removes a pod and waits until its address is free; a pod that does not exist is no error.
    pub async fn remove_pod(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.blocking(move |network| network.remove_pod(&name))
            .await
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<LabNode> {
        let books = self.network.books();
        books
            .nodes
            .values()
            .filter(|node| node.up)
            .map(|node| node.lab.clone())
            .collect()
    }

    /// All pods that are up, by name.
    pub fn pods(&self) -> Vec<LabPod> {
        let books = self.network.books();
        let up = books
            .pods
            .values()
            .filter(|pod| matches!(pod.phase, Phase::Up(_)));
        up.map(|pod| pod.lab.clone()).collect()
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Result<LabNode> {
        self.network.books().node(name).cloned()
    }

    /// Starts a long-running program in a node or pod; its log is `<folder>/<name>.log`.
    pub fn run(&self, at: &str, name: &str, command: &Command) -> Result<Process> {
        let mut command = namespace::command(&self.namespace_of(at)?, command)?;
        Process::start(name, &mut command, self.folder())
    }

    /// Runs a short command in a node or pod to its end and gives what it printed.
    pub async fn exec<I>(&self, at: &str, words: I) -> Result<String>
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        self.exec_with_input(at, words, "").await
    }

    /// Body of `url` as a node or pod gets it; fails on no answer within five seconds and on HTTP errors.
    pub async fn curl(&self, at: &str, url: &str) -> Result<String> {
        command::require("curl", "curl")?;
        // The machine's proxy settings are not meant for addresses that exist only in here.
        let words = [
            "curl",
            "--silent",
            "--show-error",
            "--fail",
            "--max-time",
            "5",
            "--noproxy",
            "*",
            url,
        ];
        self.exec(at, words).await
    }

    /// Gives programs started from now on in a node or pod a `resolv.conf` of their own.
    pub fn set_dns(&self, at: &str, nameserver: Ipv4Addr, search: &[&str]) -> Result<()> {
        namespace::write_resolv_conf(&self.namespace_of(at)?, nameserver, search)
    }

    /// Asks `server` from within a node or pod, without search list; sorted, empty when there is no such record.
    pub async fn resolve(
        &self,
        at: &str,
        server: SocketAddrV4,
        name: &str,
        kind: RecordType,
    ) -> Result<Vec<String>> {
        let (namespace, name) = (self.namespace_of(at)?, name.to_owned());
        self.blocking(move |_| namespace::inside(&namespace, || dns::resolve(server, &name, kind))?)
            .await
    }

    /// The node's NAT rules as `iptables-save` prints them.
    pub async fn nat_rules(&self, node: &str) -> Result<String> {
        command::require("iptables-save", "iptables")?;
        self.exec(node, ["iptables-save", "-t", "nat"]).await
    }

    /// kube-proxy's nftables rules for IPv4 on the node; empty when it has written none.
    pub async fn nft_rules(&self, node: &str) -> Result<String> {
        command::require("nft", "nftables")?;
        let tables = self.exec(node, ["nft", "list", "tables", "ip"]).await?;
        if !tables.lines().any(|table| table == "table ip kube-proxy") {
            return Ok(String::new());
        }
        self.exec(node, ["nft", "list", "table", "ip", "kube-proxy"])
            .await
    }

    /// Where the node sends connections to a service port (`default/web:http`), read from its rules.
    pub async fn endpoints(
        &self,
        node: &str,
        mode: ProxyMode,
        service_port: &str,
    ) -> Result<BTreeSet<SocketAddrV4>> {
        match mode {
            ProxyMode::Iptables => Ok(rules::iptables_endpoints(
                &self.nat_rules(node).await?,
                service_port,
            )),
            ProxyMode::Nftables => Ok(rules::nftables_endpoints(
                &self.nft_rules(node).await?,
                service_port,
            )),
        }
    }

    async fn exec_with_input<I>(&self, at: &str, words: I, input: &str) -> Result<String>
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().context("a command to run")?);
        command.args(words);
        let command = namespace::command(&self.namespace_of(at)?, &command)?;
        command::output_async(command, input.to_owned()).await
    }

    fn namespace_of(&self, at: &str) -> Result<String> {
        self.network.books().namespace_of(at)
    }

    /// Runs `work` on a thread that may block; it ends even when the caller stops waiting for it.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Network) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let network = Arc::clone(&self.network);
        tokio::task::spawn_blocking(move || work(&network))
            .await
            .context("work on the lab")?
    }
}
