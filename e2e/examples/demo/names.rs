//! The walk-through's short names: `edgegrid agent` in two sites, and the same name in both. Needs root,
//! for network namespaces.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use edgegrid_testkit::edgegrid::{AGENT_ACCOUNT, binary};
use edgegrid_testkit::lab::{ECHO_PORT, Lab};
use edgegrid_testkit::{Cluster, eventually};

const NAME: &str = "statefulsetgrid-demo-0.servicegrid-demo-svc.default.svc.cluster.local";

/// Shows the hosts file of a node of each site, and who answers under the short name there.
pub(crate) async fn are_local(cluster: &Cluster, lab: &Lab) -> Result<()> {
    let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/agent/rbac.yaml");
    let rights = rights.to_str().context("the project's path is not text")?;
    cluster.kubectl(["apply", "-f", rights]).await?;
    let (namespace, name) = AGENT_ACCOUNT;
    let account = cluster.kubeconfig_as_service_account(namespace, name);
    let account = account.await?;
    for (node, site) in [("bj-1", "beijing"), ("gz-1", "guangzhou")] {
        let _agent = lab.agent(node, &binary()?, &account).await?;
        let line = eventually("the hosts file has the name", async || {
            let file = std::fs::read_to_string(lab.hosts_file(node))?;
            let mut lines = file.lines();
            let line = lines.find(|line| line.ends_with(NAME));
            line.map(str::to_owned).context(file.clone())
        });
        let line = line.await?;
        let hosts = lab.hosts_file(node);
        println!("{node}$ grep {NAME} {}\n{line}", hosts.display());
        let (address, _) = line.split_once(' ').context("a line without a name")?;
        let known = format!("{NAME}:{ECHO_PORT}:{address}");
        let url = format!("http://{NAME}:{ECHO_PORT}/");
        let words = [
            "curl",
            "-sS",
            "-f",
            "-m5",
            "--noproxy",
            "*",
            "--resolve",
            &known,
            &url,
        ];
        let answer = lab.exec(node, words).await?;
        let pod = answer
            .lines()
            .find_map(|line| line.strip_prefix("pod name:"));
        let pod = pod.context("an answer without a pod")?.trim();
        println!("{node}$ curl --resolve {known} {url}   # {pod}");
        let wanted = format!("statefulsetgrid-demo-{site}-0");
        ensure!(pod.ends_with(&wanted), "{pod} answered, not {wanted}");
    }
    Ok(())
}
