//! The two servers, each as a process of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_benches::usage::{Usage, usage};
use edgegrid_testkit::process::Process;
use edgegrid_testkit::{Patience, eventually_within};
use edgegrid_upstream::{Program, locate};

use crate::load;
use crate::names::{self, DOMAIN};

const OURS: &str = "127.0.0.1:18530";
/// Where the agent shows its view, which nobody asks for.
const VIEW: &str = "127.0.0.1:18535";
const COREDNS: &str = "127.0.0.1:18531";
const TIMEOUT: Patience = Patience {
    limit: Duration::from_mins(1),
    pause: Duration::from_millis(50),
};

/// A server that is measured; dropping it ends it.
pub(crate) struct Contender {
    process: Process,
    pub(crate) address: SocketAddr,
}

impl Contender {
    /// The agent of a node.
    pub(crate) async fn ours(
        edgegrid: &Path,
        services: u32,
        folder: &Path,
        kubeconfig: &Path,
    ) -> Result<Self> {
        let mut command = Command::new(edgegrid);
        command.args(["agent", "--hostname", names::NODE, "--log-level=warn"]);
        command.args(["--dns-listen", OURS, "--dns-rate=0", "--bind-address", VIEW]);
        command.args(["--state-folder=", "--hostpath="]);
        command.arg("--kubeconfig").arg(kubeconfig);
        Self::start("edgegrid", &mut command, (OURS, services), folder).await
    }

    /// CoreDNS with the plugins that kubeadm gives it, but for those that only start and stop it.
    pub(crate) async fn coredns(services: u32, folder: &Path, kubeconfig: &Path) -> Result<Self> {
        let address: SocketAddr = COREDNS.parse()?;
        let corefile = folder.join("corefile");
        let text = format!(
            ".:{} {{\n  bind {}\n  errors\n  kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{\n    kubeconfig {}\n    ttl 5\n  }}\n  \
             prometheus 127.0.0.1:0\n  cache 30\n  loadbalance\n}}\n",
            address.port(),
            address.ip(),
            kubeconfig.display(),
        );
        fs::write(&corefile, text).context("write the Corefile")?;
        let program = locate(&Program::parse("coredns")?)?;
        let mut command = Command::new(program);
        command.arg("-conf").arg(&corefile);
        Self::start("coredns", &mut command, (COREDNS, services), folder).await
    }

    async fn start(
        name: &str,
        command: &mut Command,
        (address, services): (&str, u32),
        folder: &Path,
    ) -> Result<Self> {
        let process = Process::start(name, command, folder)?;
        let address = address.parse()?;
        let last = names::full_name(services - 1);
        eventually_within(TIMEOUT, "the server answers", async || {
            process.expect_alive()?;
            let message = load::ask(address, &load::question(&last, "A")?)?;
            ensure!(!message.answers.is_empty(), "no answer for {last} yet");
            Ok(())
        })
        .await?;
        Ok(Self { process, address })
    }

    /// What it has used so far.
    pub(crate) fn usage(&self) -> Result<Usage> {
        usage(&[self.process.pid()])
    }
}
