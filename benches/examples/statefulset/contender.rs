//! The two controllers, each a process of its own.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use edgegrid_benches::usage::{Usage, usage};
use edgegrid_statefulset::{Config, run};
use edgegrid_testkit::Cluster;
use edgegrid_testkit::process::Process;
use edgegrid_upstream::{Program, locate};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

pub(crate) const THEIRS: &str = "kube-controller-manager";
pub(crate) const OURS: &str = "edgegrid";

/// A controller that is measured; it ends with this.
pub(crate) struct Contender(Process);

impl Contender {
    pub(crate) fn start(name: &str, cluster: &Cluster) -> Result<Self> {
        let kubeconfig = cluster.kubeconfig()?;
        let mut command = if name == THEIRS {
            theirs(kubeconfig)?
        } else {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("--act").arg(kubeconfig);
            command
        };
        Ok(Self(Process::start(
            &format!("measured-{name}"),
            &mut command,
            cluster.folder()?,
        )?))
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        self.0.expect_alive()?;
        usage(&[self.0.pid()])
    }
}

/// Nothing but the one controller, and no limit of its rate.
fn theirs(kubeconfig: &Path) -> Result<Command> {
    let mut command = Command::new(locate(&Program::parse("kube-controller-manager@1.37")?)?);
    command.arg(format!("--kubeconfig={}", kubeconfig.display()));
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

/// Is the controller, until killed.
pub(crate) async fn act(kubeconfig: &Path) -> Result<()> {
    let config = Kubeconfig::read_from(kubeconfig).context("read the kubeconfig")?;
    let config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    run(client, Config::default(), std::future::pending()).await;
    Ok(())
}
