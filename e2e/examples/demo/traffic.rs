//! The walk-through's curl: real packets through an unmodified kube-proxy that reads the API
//! through `edgegrid wrapper`. Needs root, for network namespaces.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use edgegrid_testkit::edgegrid::{WRAPPER_ACCOUNT, binary};
use edgegrid_testkit::lab::{Lab, ProxyMode};
use edgegrid_testkit::{Cluster, eventually, node};
use edgegrid_upstream::{Program, locate};

const SERVICE: &str = "servicegrid-demo-svc";
const REQUESTS: usize = 20;

/// Adds a node, in a namespace of its own if there is a lab.
pub(crate) async fn add_node(
    cluster: &Cluster,
    lab: Option<&Lab>,
    name: &str,
    labels: &[(&str, &str)],
) -> Result<()> {
    let mut node = node(name);
    for (key, value) in labels {
        node = node.label(key, value);
    }
    if let Some(lab) = lab {
        let made = lab.add_node(name).await?;
        node = node.address(made.address).pod_cidr(&made.pod_cidr);
    }
    cluster.add_nodes([node]).await
}

/// Asks the Service from a node of each site and shows who answers.
pub(crate) async fn stays_at_home(cluster: &Cluster, lab: &Lab) -> Result<()> {
    let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/wrapper/rbac.yaml");
    let rights = rights.to_str().context("the project's path is not text")?;
    cluster.kubectl(["apply", "-f", rights]).await?;
    let (namespace, name) = WRAPPER_ACCOUNT;
    let account = cluster.kubeconfig_as_service_account(namespace, name);
    let (account, through) = (account.await?, lab.wrapper_kubeconfig()?);
    let address = [
        "get",
        "service",
        SERVICE,
        "-o",
        "jsonpath={.spec.clusterIP}",
    ];
    let url = format!("http://{}/", cluster.kubectl(address).await?);
    for node in ["bj-1", "gz-1"] {
        let _wrapper = lab.wrapper(node, &binary()?, &account).await?;
        let kube_proxy = locate(&Program::parse("kube-proxy@1.37")?)?;
        let mode = ProxyMode::Iptables;
        let _proxy = lab.kube_proxy(node, &kube_proxy, &through, mode).await?;
        let nodes = eventually("the Service answers", async || {
            let mut nodes = BTreeSet::new();
            for _ in 0..REQUESTS {
                nodes.insert(answering(&lab.curl(node, &url).await?)?);
            }
            Ok(nodes)
        })
        .await?;
        let nodes: Vec<String> = nodes.into_iter().collect();
        println!(
            "{node}$ curl {url}   # {REQUESTS} times: {}",
            nodes.join(", ")
        );
        let is_home = |name: &String| name.starts_with(&node[..3]);
        ensure!(nodes.iter().all(is_home), "another site answered {node}");
    }
    Ok(())
}

/// Name of the node that gave an answer.
fn answering(answer: &str) -> Result<String> {
    let mut lines = answer.lines();
    let name = lines.find_map(|line| line.strip_prefix("node name:"));
    Ok(name.context("an answer without a node")?.trim().to_owned())
}
