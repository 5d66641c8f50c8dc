//! The two controllers, each a process of its own, without an election and without a limit of its rate.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use edgegrid_benches::usage::{Usage, usage};
use edgegrid_testkit::Cluster;
use edgegrid_testkit::process::Process;
use edgegrid_upstream::{Program, locate};

pub(crate) const THEIRS: &str = "kube-controller-manager";
pub(crate) const OURS: &str = "edgegrid";

/// A controller that is measured; it ends with this.
pub(crate) struct Contender(Process);

impl Contender {
    /// Starts one of the two; `edgegrid` is the program that is ours.
    pub(crate) fn start(name: &str, cluster: &Cluster, edgegrid: &Path) -> Result<Self> {
        let mut command = if name == THEIRS {
            theirs()?
        } else {
            ours(edgegrid)
        };
        command.arg("--kubeconfig").arg(cluster.kubeconfig()?);
        Ok(Self(Process::start(
            &format!("measured-{name}"),
            &mut command,
            cluster.folder()?,
        )?))
    }

    /// What it has used so far.
    pub(crate) fn usage(&self) -> Result<Usage> {
        self.0.expect_alive()?;
        usage(&[self.0.pid()])
    }
}

/// Nothing but the one controller.
fn theirs() -> Result<Command> {
    let mut command = Command::new(locate(&Program::parse("kube-controller-manager@1.37")?)?);
    command.args([
        "--controllers=statefulset-controller",
        "--concurrent-statefulset-syncs=10",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=100000",
        "--kube-api-burst=100000",
    ]);
    Ok(command)
}

fn ours(edgegrid: &Path) -> Command {
    let mut command = Command::new(edgegrid);
    command.args([
        "statefulset",
        "--take-over",
        "--leader-elect=false",
        "--bind-address=127.0.0.1:0",
        "--log-level=warn",
    ]);
    command
}
