//! Kubernetes' own conformance specs about StatefulSets, with our controller in the place of
//! kube-controller-manager's: `cargo run -p edgegrid-e2e --example statefulset_conformance`.
//!
//! Needs `cargo xtask upstream e2e.test@1.37` and `cargo build -p edgegrid`. Only the specs that need no kubelet with containers.

#![expect(clippy::print_stdout, reason = "the report is the purpose")]

use std::process::Stdio;

use anyhow::{Result, ensure};
use edgegrid_testkit::edgegrid::Controller;
use edgegrid_testkit::{Cluster, node};
use edgegrid_upstream::{Program, locate};
use tokio::process::Command;

/// What the names of the specs end with.
const SPECS: [&str; 4] = [
    "should have a working scale subresource",
    "should list, patch and delete a collection of StatefulSets",
    "should perform canary updates and phased rolling updates of template modifications",
    "should validate Statefulset Status endpoints",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let program = locate(&Program::parse("e2e.test@1.37")?)?;
    let cluster = Cluster::upstream()
        .with_controllers_but(["statefulset-controller"])
        .await?;
    cluster.add_nodes([node("n1"), node("n2")]).await?;
    let _ours = Controller::start_statefulset(&cluster, "ours", &[]).await?;
    let focus = format!(r"StatefulSet.*({}) \[Conformance\]", SPECS.join("|"));
    let status = Command::new(program)
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig()?)
        .args(["--provider=skeleton", "--disable-log-dump"])
        .arg("--ginkgo.no-color")
        .arg(format!("--ginkgo.focus={focus}"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .status()
        .await?;
    ensure!(status.success(), "the specs ended with {status}");
    println!("{} specs passed", SPECS.len());
    Ok(())
}
