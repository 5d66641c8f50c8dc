//! The program itself, as its users start it.

mod wrapper;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use edgegrid_api::names;

use crate::cluster::Cluster;
use crate::eventually::eventually;
use crate::process::Process;
use crate::run::{PortLease, Run};

pub use wrapper::{AGENT_ACCOUNT, Settings, WRAPPER_ACCOUNT, Wrapper};

/// A running `edgegrid controller` or `edgegrid statefulset`, with exactly the rights that `deploy/rbac`
/// gives it.
pub struct Controller {
    process: Process,
    address: String,
    _port: PortLease,
}

/// A subcommand that runs as a [`Controller`], and as whom.
pub struct Subcommand {
    words: &'static [&'static str],
    /// File in `deploy/rbac` with the command's rights.
    rights: &'static str,
    account: &'static str,
}

/// `edgegrid controller`.
pub const CONTROLLER: Subcommand = Subcommand {
    words: &["controller"],
    rights: "controller.yaml",
    account: names::CONTROLLER,
};

/// `edgegrid statefulset --take-over`.
pub const STATEFULSET: Subcommand = Subcommand {
    words: &["statefulset", "--take-over"],
    rights: "statefulset.yaml",
    account: names::STATEFULSET_CONTROLLER,
};

impl Subcommand {
    /// The user that the API server knows it as.
    pub fn user(&self) -> String {
        format!(
            "system:serviceaccount:{}:{}",
            names::SYSTEM_NAMESPACE,
            self.account
        )
    }

    /// Gives it the shipped rights.
    async fn grant(&self, cluster: &Cluster) -> Result<()> {
        let manifest = project().join("deploy/rbac").join(self.rights);
        let manifest = manifest
            .to_str()
            .context("the project's path is not text")?;
        let command = ["apply", "--server-side", "-f", manifest];
        cluster.kubectl(command).await.map(drop)
    }
}

impl Controller {
    /// Grants the shipped rights, starts `edgegrid controller` and waits until its caches have synced. Its
    /// log goes by `name`.
    pub async fn start(cluster: &Cluster, name: &str, arguments: &[&str]) -> Result<Self> {
        Self::run(cluster, &CONTROLLER, name, arguments).await
    }

    /// The same with `edgegrid statefulset --take-over`.
    pub async fn start_statefulset(
        cluster: &Cluster,
        name: &str,
        arguments: &[&str],
    ) -> Result<Self> {
        Self::run(cluster, &STATEFULSET, name, arguments).await
    }

    /// The same of either, with a client certificate instead of a token.
    pub async fn start_with_certificate(
        cluster: &Cluster,
        subcommand: &Subcommand,
    ) -> Result<Self> {
        subcommand.grant(cluster).await?;
        let kubeconfig = cluster.kubeconfig_as(&subcommand.user(), None)?;
        Self::launch(cluster, subcommand, subcommand.words[0], &kubeconfig, &[]).await
    }

    async fn run(
        cluster: &Cluster,
        subcommand: &Subcommand,
        name: &str,
        arguments: &[&str],
    ) -> Result<Self> {
        subcommand.grant(cluster).await?;
        let kubeconfig = cluster
            .kubeconfig_as_service_account(names::SYSTEM_NAMESPACE, subcommand.account)
            .await?;
        Self::launch(cluster, subcommand, name, &kubeconfig, arguments).await
    }

    async fn launch(
        cluster: &Cluster,
        subcommand: &Subcommand,
        name: &str,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> Result<Self> {
        let port = Run::current()?.lease_port()?;
        let address = format!("127.0.0.1:{}", port.port());
        let mut command = Command::new(binary()?);
        command.args(subcommand.words);
        command.args(["--bind-address", &address, "--kubeconfig"]);
        command.arg(kubeconfig).args(arguments);
        let process = Process::start(name, &mut command, cluster.folder()?)?;
        let controller = Self {
            process,
            address,
            _port: port,
        };
        eventually("edgegrid is ready", async || {
            controller.process.expect_alive()?;
            controller.get("/readyz").await
        })
        .await?;
        Ok(controller)
    }

    /// The process, to end it as a test wishes.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// What its health and metrics endpoint answers.
    pub async fn get(&self, path: &str) -> Result<String> {
        get(&self.address, path).await
    }
}

/// What a program of ours answers over plain HTTP, if that is a success.
async fn get(address: &str, path: &str) -> Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    Ok(answer)
}

/// The `edgegrid` that was built with the running test or example.
pub fn binary() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("EDGEGRID_BINARY") {
        return Ok(given.into());
    }
    let test = std::env::current_exe().context("find the running test")?;
    let folders = test.ancestors().skip(1).take(2);
    let found = folders
        .map(|folder| folder.join("edgegrid"))
        .find(|path| path.is_file());
    found.context("edgegrid is not built; `cargo build -p edgegrid` builds it")
}

fn project() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
