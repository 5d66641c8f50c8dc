//! `edgegrid wrapper` and `edgegrid agent` on loopback, as a node has it, but without the node.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use edgegrid_api::names;

use super::{binary, get, project};
use crate::cluster::Cluster;
use crate::eventually::eventually;
use crate::process::Process;
use crate::run::{PortLease, Run};

/// Namespace and name of the account that `deploy/wrapper` grants its rights to.
pub const WRAPPER_ACCOUNT: (&str, &str) = (names::SYSTEM_NAMESPACE, "edgegrid-wrapper");

/// The same of `deploy/agent`.
pub const AGENT_ACCOUNT: (&str, &str) = (names::SYSTEM_NAMESPACE, "edgegrid-agent");

/// A running `edgegrid wrapper` or `edgegrid agent`, with exactly the rights that `deploy` gives it.
pub struct Wrapper {
    process: Process,
    address: String,
    settings: Settings,
    port: PortLease,
}

/// What a wrapper is started with. What it keeps and its log go by the node's name.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The subcommand, `wrapper` or `agent`.
    pub command: &'static str,
    /// Name of the node it is for.
    pub node: String,
    /// Folder for its log and for what it keeps.
    pub folder: PathBuf,
    /// How it reaches the API server.
    pub kubeconfig: PathBuf,
    /// Arguments behind those that every wrapper is started with.
    pub arguments: Vec<String>,
}

impl Settings {
    /// Grants the shipped rights, and gives the settings of a wrapper with them.
    pub async fn for_node(cluster: &Cluster, node: &str) -> Result<Self> {
        Self::with_account(cluster, node, "wrapper", WRAPPER_ACCOUNT).await
    }

    /// The same of an agent, whose hosts file is in the folder too.
    pub async fn of_agent(cluster: &Cluster, node: &str) -> Result<Self> {
        let settings = Self::with_account(cluster, node, "agent", AGENT_ACCOUNT).await?;
        let hosts = settings.folder.join(format!("edge-{node}/hosts"));
        let hosts = hosts.to_str().context("the folder's path is not text")?;
        Ok(settings.clone().with(["--hostpath", hosts]))
    }

    async fn with_account(
        cluster: &Cluster,
        node: &str,
        command: &'static str,
        (namespace, name): (&str, &str),
    ) -> Result<Self> {
        for file in ["rbac.yaml", "rbac-tokens.yaml"] {
            let manifest = project().join("deploy").join(command).join(file);
            let manifest = manifest
                .to_str()
                .context("the project's path is not text")?;
            cluster
                .kubectl(["apply", "--server-side", "-f", manifest])
                .await?;
        }
        Ok(Self {
            command,
            node: node.to_owned(),
            folder: cluster.folder()?.to_owned(),
            kubeconfig: cluster
                .kubeconfig_as_service_account(namespace, name)
                .await?,
            arguments: Vec::new(),
        })
    }

    /// Folder for what outlives the process.
    pub fn state_folder(&self) -> PathBuf {
        self.folder.join(format!("wrapper-{}", self.node))
    }

    /// The same with further arguments.
    #[must_use]
    pub fn with<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.arguments
            .extend(arguments.into_iter().map(str::to_owned));
        self
    }
}

impl Wrapper {
    /// Starts the program and waits until it listens.
    pub async fn start(settings: Settings) -> Result<Self> {
        let port = Run::current()?.lease_port()?;
        Self::start_at(settings, port).await
    }

    /// Ends it as a crash does and starts it again at the same address.
    pub async fn restart(self) -> Result<Self> {
        self.process.kill();
        Self::start_at(self.settings, self.port).await
    }

    async fn start_at(settings: Settings, port: PortLease) -> Result<Self> {
        let address = format!("127.0.0.1:{}", port.port());
        let mut command = Command::new(binary()?);
        command
            .args([settings.command, "--hostname", &settings.node])
            .args(["--bind-address", &address])
            .arg("--kubeconfig")
            .arg(&settings.kubeconfig)
            .arg("--state-folder")
            .arg(settings.state_folder())
            .args(&settings.arguments);
        let name = format!("{}-{}", settings.command, settings.node);
        let process = Process::start(&name, &mut command, &settings.folder)?;
        eventually("edgegrid listens", async || {
            process.expect_alive()?;
            let connected = tokio::net::TcpStream::connect(&address).await;
            connected.map(drop).context("it does not")
        })
        .await?;
        Ok(Self {
            process,
            address,
            settings,
            port,
        })
    }

    /// Host and port it listens on.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The process, to look at or to end as a test wishes.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// What it answers over plain HTTP, if that is a success.
    pub async fn get(&self, path: &str) -> Result<String> {
        get(&self.address, path).await
    }

    /// Waits until its view is complete.
    pub async fn wait_until_ready(&self) -> Result<()> {
        eventually("the view is complete", async || {
            self.process.expect_alive()?;
            self.get("/readyz").await.map(drop)
        })
        .await
    }
}
