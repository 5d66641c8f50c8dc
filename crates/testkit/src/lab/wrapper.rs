//! edgegrid's wrapper or agent in a node's namespace, where kube-proxy and CoreDNS find it on loopback.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::Lab;
use super::namespace::wait_for_ok;
use crate::process::Process;

const DNS_PORT: u16 = 53;
const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 51006);

impl Lab {
    /// Starts `edgegrid wrapper` in the node and waits until it listens; that its view is complete
    /// is for its clients to wait for. What it keeps is in a folder of the node, over restarts.
    pub async fn wrapper(&self, node: &str, program: &Path, kubeconfig: &Path) -> Result<Process> {
        let mut command = Command::new(program);
        command.arg("wrapper");
        self.start_wrapper(node, command, kubeconfig).await
    }

    /// The same with `edgegrid agent`, which keeps [`hosts_file`](Lab::hosts_file) besides.
    pub async fn agent(&self, node: &str, program: &Path, kubeconfig: &Path) -> Result<Process> {
        let mut command = Command::new(program);
        command
            .arg("agent")
            .arg("--hostpath")
            .arg(self.hosts_file(node));
        self.start_wrapper(node, command, kubeconfig).await
    }

    /// An agent that answers DNS questions itself, at the node's address, for all pods.
    pub async fn agent_with_dns(
        &self,
        node: &str,
        program: &Path,
        kubeconfig: &Path,
    ) -> Result<(Process, SocketAddrV4)> {
        let address = SocketAddrV4::new(self.node(node)?.address, DNS_PORT);
        let mut command = Command::new(program);
        command
            .args(["agent", "--hostpath="])
            .args(["--dns-listen", &address.to_string()])
            .args(["--dns-allow", &self.cluster_cidr()]);
        let process = self.start_wrapper(node, command, kubeconfig).await?;
        Ok((process, address))
    }

    /// The hosts file of a node's agent.
    pub fn hosts_file(&self, node: &str) -> PathBuf {
        self.folder().join(format!("edge-{node}/hosts"))
    }

    async fn start_wrapper(
        &self,
        node: &str,
        mut command: Command,
        kubeconfig: &Path,
    ) -> Result<Process> {
        let node = self.node(node)?;
        let kubeconfig = kubeconfig.canonicalize();
        let kubeconfig =
            kubeconfig.with_context(|| format!("kubeconfig of the wrapper on {}", node.name))?;
        command
            .args(["--hostname", &node.name, "--debug"])
            .args(["--bind-address", &ADDRESS.to_string()])
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .arg("--state-folder")
            .arg(self.wrapper_state(&node.name));
        let process = self.run(&node.name, &format!("wrapper-{}", node.name), &command)?;
        wait_for_ok(&node.namespace, ADDRESS, "/healthz", &process).await?;
        Ok(process)
    }

    /// Where the wrapper of a node keeps what outlives it.
    pub fn wrapper_state(&self, node: &str) -> PathBuf {
        self.folder().join(format!("wrapper-{node}"))
    }

    /// The kubeconfig by which a program on any node talks to that node's wrapper.
    pub fn wrapper_kubeconfig(&self) -> Result<PathBuf> {
        let path = self.folder().join("wrapper.kubeconfig");
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "wrapper", "cluster": { "server": format!("http://{ADDRESS}") } }],
            "users": [{ "name": "nobody", "user": {} }],
            "contexts": [{ "name": "wrapper", "context": { "cluster": "wrapper", "user": "nobody" } }],
            "current-context": "wrapper",
        });
        std::fs::write(&path, config.to_string())
            .with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// What the wrapper of a node answers to a GET.
    pub async fn ask_wrapper(&self, node: &str, path: &str) -> Result<String> {
        self.curl(node, &format!("http://{ADDRESS}{path}")).await
    }

    /// Cuts the node off from the API server, or connects it again.
    pub async fn cut_off(&self, node: &str, cut: bool) -> Result<()> {
        let verb = if cut { "add" } else { "del" };
        let server = format!("{}/32", self.gateway());
        self.exec(node, ["ip", "route", verb, "blackhole", &server])
            .await
            .map(drop)
    }
}
