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
    /// The program itself.
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
        let node = self.node(node)?;
        let kubeconfig = kubeconfig.canonicalize();
        let kubeconfig =
            kubeconfig.with_context(|| format!("kubeconfig of CoreDNS on {}", node.name))?;
        let (address, ready) = (
            SocketAddrV4::new(node.address, 53),
            SocketAddrV4::new(node.address, 8181),
        );
        let name = format!("coredns-{}", node.name);
        let file = self.folder().join(format!("{name}.corefile"));
        let text = format!(
            ".:53 {{\n  bind {}\n  errors\n  ready {ready}\n  \
             kubernetes {cluster_domain} in-addr.arpa ip6.arpa {{\n    kubeconfig {}\n  }}\n}}\n",
            node.address,
            kubeconfig.display()
        );
        std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
        let process = self.run(
            &node.name,
            &name,
            Command::new(program).arg("-conf").arg(&file),
        )?;
        wait_for_ok(&node.namespace, ready, "/ready", &process).await?;
        let dns = CoreDns { process, address };
        self.wait_for_answer(
            &node.name,
            &dns,
            &format!("kubernetes.default.svc.{cluster_domain}"),
        )
        .await?;
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
