//! A real kube-proxy in a node's namespace, set up to touch nothing outside of it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::namespace::wait_for_ok;
use super::{Lab, LabNode};
use crate::command;
use crate::process::Process;

/// How kube-proxy programs the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyMode {
    /// `--proxy-mode=iptables`: rules written by `iptables-restore`.
    Iptables,
    /// `--proxy-mode=nftables`: rules written by `nft`.
    Nftables,
}

const HEALTHZ: std::net::SocketAddrV4 =
    std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 10256);

impl Lab {
    /// Starts kube-proxy in the node and waits until it says it is healthy. Its Node object must exist with
    /// the node's address. To change the mode, drop it and call [`flush_rules`](Lab::flush_rules) first.
    pub async fn kube_proxy(
        &self,
        node: &str,
        program: &Path,
        kubeconfig: &Path,
        mode: ProxyMode,
    ) -> Result<Process> {
        match mode {
            ProxyMode::Iptables => command::require("iptables", "iptables")?,
            ProxyMode::Nftables => command::require("nft", "nftables")?,
        };
        let node = self.node(node)?;
        let kubeconfig = kubeconfig.canonicalize();
        let kubeconfig =
            kubeconfig.with_context(|| format!("kubeconfig of kube-proxy on {}", node.name))?;
        let name = format!("kube-proxy-{}", node.name);
        let file = self.folder().join(format!("{name}.json"));
        let text = config(&node, &self.cluster_cidr(), &kubeconfig, mode).to_string();
        // Replaced, not overwritten: a kube-proxy that still ends would see the change and complain.
        std::fs::write(file.with_extension("new"), text)
            .and_then(|()| std::fs::rename(file.with_extension("new"), &file))
            .with_context(|| format!("write {}", file.display()))?;
        let process = self.run(
            &node.name,
            &name,
            Command::new(program).arg("--config").arg(&file).arg("-v=2"),
        )?;
        wait_for_ok(&node.namespace, HEALTHZ, "/healthz", &process).await?;
        Ok(process)
    }

    /// Removes all packet filter rules of a node: kube-proxy leaves its rules when it ends.
    pub async fn flush_rules(&self, node: &str) -> Result<()> {
        let empty = "*mangle\nCOMMIT\n*nat\nCOMMIT\n*filter\nCOMMIT\n";
        // Restoring empty tables also empties those of iptables-legacy, which nft does not see.
        for program in ["iptables-restore", "ip6tables-restore"] {
            if command::find(program.as_ref()).is_some() {
                self.exec_with_input(node, [program], empty).await?;
            }
        }
        command::require("nft", "nftables")?;
        self.exec(node, ["nft", "flush", "ruleset"]).await.map(drop)
    }
}

/// A `KubeProxyConfiguration`, as JSON, which is YAML too.
fn config(node: &LabNode, cluster_cidr: &str, kubeconfig: &Path, mode: ProxyMode) -> Value {
    let sync = json!({ "minSyncPeriod": "100ms", "syncPeriod": "30s" });
    let mut iptables = sync.clone();
    // True would set route_localnet.
    iptables["localhostNodePorts"] = false.into();
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig },
        "hostnameOverride": node.name,
        "bindAddress": node.address,
        "mode": match mode {
            ProxyMode::Iptables => "iptables",
            ProxyMode::Nftables => "nftables",
        },
        "clusterCIDR": cluster_cidr,
        "detectLocalMode": "ClusterCIDR",
        // Zero means "leave alone": these settings are not writable outside the root namespace.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "iptables": iptables,
        "nftables": sync,
        "nodePortAddresses": ["primary"],
        "healthzBindAddress": HEALTHZ,
        "metricsBindAddress": "127.0.0.1:10249",
    })
}
