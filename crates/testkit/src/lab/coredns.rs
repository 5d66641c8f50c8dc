//! A real CoreDNS in a node's namespace that knows the cluster's names and nothing else.

use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::namespace::wait_for_ok;
use super::{Lab, RecordType};
use crate::process::Process;

/// A running CoreDNS; dropping it ends it.
#[derive(Debug)]
pub struct CoreDns {
    /// The running program, to look at or to end.
    pub process: Process,
    /// Where it answers, to nodes and pods alike.
    pub address: SocketAddrV4,
}

impl Lab {
    /// Starts CoreDNS on port 53 of the node's address and waits until it has read the cluster's Services.
    pub async fn coredns(
        &self,
        node: &str,
        program: &Path,
        kubeconfig: &Path,
        cluster_domain: &str,
    ) -> Result<CoreDns> {
        let plugins = kubernetes(kubeconfig, cluster_domain)?;
        let probe = format!("kubernetes.default.svc.{cluster_domain}");
        self.start_coredns(node, program, &plugins, &probe).await
    }

    /// The same with the names of a hosts file before those of the cluster, as SuperEdge sets CoreDNS up; with
    /// nothing but that file if there is no kubeconfig. It is there when it knows `probe`.
    pub async fn coredns_with_hosts(
        &self,
        (node, probe): (&str, &str),
        program: &Path,
        hosts: &Path,
        cluster: Option<(&Path, &str)>,
    ) -> Result<CoreDns> {
        let mut plugins = format!(
            "  hosts {} {{\n    reload 300ms\n    no_reverse\n    fallthrough\n  }}\n",
            hosts.display()
        );
        if let Some((kubeconfig, domain)) = cluster {
            plugins.push_str(&kubernetes(kubeconfig, domain)?);
        }
        self.start_coredns(node, program, &plugins, probe).await
    }

    async fn start_coredns(
        &self,
        node: &str,
        program: &Path,
        plugins: &str,
        probe: &str,
    ) -> Result<CoreDns> {
        let node = self.node(node)?;
        let (address, ready) = (
            SocketAddrV4::new(node.address, 53),
            SocketAddrV4::new(node.address, 8181),
        );
        let name = format!("coredns-{}", node.name);
        let file = self.folder().join(format!("{name}.corefile"));
        let text = format!(
            ".:53 {{\n  bind {}\n  errors\n  ready {ready}\n{plugins}}}\n",
            node.address,
        );
        std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
        let process = self.run(
            &node.name,
            &name,
            Command::new(program).arg("-conf").arg(&file),
        )?;
        wait_for_ok(&node.namespace, ready, "/ready", &process).await?;
        let dns = CoreDns { process, address };
        self.wait_for_answer(&node.name, &dns, probe).await?;
        Ok(dns)
    }

    /// CoreDNS says it is ready shortly before it opens its port.
    async fn wait_for_answer(&self, node: &str, dns: &CoreDns, name: &str) -> Result<()> {
        let mut last = String::new();
        for _ in 0..100 {
            dns.process.expect_alive()?;
            match self.resolve(node, dns.address, name, RecordType::A).await {
                Ok(_) => return Ok(()),
                Err(error) => last = format!("{error:#}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!(
            "CoreDNS on {node} is ready but does not answer ({last}):\n{}",
            dns.process.tail(20)
        )
    }
}

/// The plugin that answers for a cluster's names.
fn kubernetes(kubeconfig: &Path, cluster_domain: &str) -> Result<String> {
    let kubeconfig = kubeconfig.canonicalize();
    let kubeconfig = kubeconfig.context("kubeconfig of CoreDNS")?;
    Ok(format!(
        "  kubernetes {cluster_domain} in-addr.arpa ip6.arpa {{\n    kubeconfig {}\n  }}\n",
        kubeconfig.display()
    ))
}
