//! The controller as a process of its own, and what the kernel counts for it.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use edgegrid_benches::usage::{Usage, usage};
use edgegrid_testkit::eventually;

/// Where the controller says that it is ready.
const ADDRESS: &str = "127.0.0.1:18391";

/// `edgegrid controller`, ended with us.
pub(crate) struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Controller {
    /// Starts the program and waits until its caches have synced.
    pub(crate) async fn start(program: &Path, kubeconfig: &Path) -> Result<Self> {
        let child = Command::new(program)
            .args([
                "controller",
                "--leader-elect=false",
                "--log-level=warn",
                "--bind-address",
                ADDRESS,
                "--kubeconfig",
            ])
            .arg(kubeconfig)
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let controller = Self(child);
        eventually("the controller is ready", async || ready().await).await?;
        Ok(controller)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// What it has used so far.
    pub(crate) fn usage(&self) -> Result<Usage> {
        usage(&[self.pid()])
    }
}

async fn ready() -> Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(ADDRESS).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {ADDRESS}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    anyhow::ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(())
}
