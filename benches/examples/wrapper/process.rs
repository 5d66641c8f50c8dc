//! The wrapper as a process of its own, and what the kernel counts for it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_benches::usage::{Usage, usage};
use edgegrid_testkit::{Patience, eventually_within};
use http::Request;
use kube::{Client, Config};
use tokio::time::{Instant, sleep};

const ADDRESS: &str = "127.0.0.1:18392";
const TIMEOUT: Patience = Patience {
    limit: Duration::from_mins(5),
    pause: Duration::from_millis(2),
};

/// An uplink is at rest when nothing has come for this long.
const REST: Duration = Duration::from_millis(500);

/// `edgegrid wrapper`, ended with us.
pub(crate) struct Wrapper {
    child: Child,
    pub(crate) client: Client,
    /// From the start until the view was complete.
    pub(crate) ready_after: Duration,
}

impl Drop for Wrapper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Wrapper {
    /// Starts the program and waits until its view is complete.
    pub(crate) async fn start(
        program: &Path,
        kubeconfig: &Path,
        state: Option<PathBuf>,
    ) -> Result<Self> {
        let state = state.unwrap_or_default();
        let started = Instant::now();
        let child = Command::new(program)
            .args([
                "wrapper",
                "--hostname",
                &super::cluster::node_name(0),
                "--log-level=warn",
            ])
            .args(["--bind-address", ADDRESS, "--state-folder"])
            .arg(state)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let client = Client::try_from(Config::new(format!("http://{ADDRESS}").parse()?))?;
        let mut wrapper = Self {
            child,
            client,
            ready_after: Duration::ZERO,
        };
        eventually_within(TIMEOUT, "the view is complete", async || {
            wrapper.text("/readyz").await.map(drop)
        })
        .await?;
        wrapper.ready_after = started.elapsed();
        Ok(wrapper)
    }

    /// What it has used so far.
    pub(crate) fn usage(&self) -> Result<Usage> {
        usage(&[self.child.id()])
    }

    /// Bytes that have come over the uplink, once no more come.
    pub(crate) async fn uplink_at_rest(&self) -> Result<u64> {
        let name = "edgegrid_wrapper_upstream_bytes_total";
        let mut bytes = self.metric(name).await?;
        loop {
            sleep(REST).await;
            let now = self.metric(name).await?;
            if now == bytes {
                return Ok(bytes);
            }
            bytes = now;
        }
    }

    /// A number of `/metrics`.
    async fn metric(&self, name: &str) -> Result<u64> {
        let text = self.text("/metrics").await?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.with_context(|| format!("no {name}"))?.trim().parse()?)
    }

    /// Ends it as a service manager does, so that it writes what it knows.
    pub(crate) fn terminate(mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    async fn text(&self, path: &str) -> Result<String> {
        Ok(self
            .client
            .request_text(Request::get(path).body(Vec::new())?)
            .await?)
    }
}
