//! The unfiltered world, with real packets: what plain Kubernetes does across sites, and what
//! edgegrid will change.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use edgegrid_testkit::lab::{ECHO_PORT, Lab, ProxyMode, RecordType};
use edgegrid_testkit::process::Process;
use edgegrid_testkit::{Cluster, eventually, node, service, workload};
use edgegrid_upstream::{Program, locate};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::Api;

const NODES: [&str; 2] = ["bj-1", "gz-1"];
/// With two pods on each of two nodes, the chance that so many random picks miss a node is 2^-39.
const REQUESTS: usize = 40;

/// Two nodes in a lab, a Deployment with pods on both.
async fn two_sites() -> (Arc<Lab>, Cluster) {
    let lab = Arc::new(Lab::start().await.unwrap());
    let cluster = Cluster::upstream()
        .listen_on(lab.gateway())
        .with_controllers()
        .pods(lab.clone())
        .await
        .unwrap();
    for name in NODES {
        let made = lab.add_node(name).await.unwrap();
        let node = node(name)
            .label("location", &name[..2])
            .address(made.address)
            .pod_cidr(&made.pod_cidr);
        cluster.add_nodes([node]).await.unwrap();
    }
    for (app, site) in [("web-bj", "bj"), ("web-gz", "gz")] {
        let web = workload(app)
            .labelled("web")
            .replicas(2)
            .on_nodes("location", site);
        cluster.apply::<Deployment>(web).await.unwrap();
    }
    eventually("two pods run on each node", async || {
        let on = |node: &str| lab.pods().iter().filter(|pod| pod.node == node).count();
        let counts = NODES.map(on);
        ensure!(counts == [2, 2], "{counts:?}");
        Ok(())
    })
    .await
    .unwrap();
    (lab, cluster)
}

fn program(name: &str) -> PathBuf {
    locate(&Program::parse(name).unwrap()).unwrap()
}

/// All pods of the lab, as a Service should find them.
fn everybody(lab: &Lab) -> BTreeSet<SocketAddrV4> {
    lab.pods()
        .iter()
        .map(|pod| SocketAddrV4::new(pod.address, ECHO_PORT))
        .collect()
}

/// Names of the nodes that answer requests for `url` made at `from`.
async fn answering_nodes(lab: &Lab, from: &str, url: &str) -> Result<BTreeSet<String>> {
    let mut nodes = BTreeSet::new();
    for _ in 0..REQUESTS {
        let answer = lab.curl(from, url).await?;
        let node = answer
            .lines()
            .find_map(|line| line.strip_prefix("node name:"));
        nodes.insert(node.context("the answer names no node")?.trim().to_owned());
    }
    Ok(nodes)
}

async fn balances_over_both_sites(lab: &Lab, cluster: &Cluster, version: &str, mode: ProxyMode) {
    let kube_proxy = program(&format!("kube-proxy@{version}"));
    let kubeconfig = cluster.kubeconfig_as("system:kube-proxy", None).unwrap();
    let mut proxies: Vec<Process> = Vec::new();
    for node in NODES {
        proxies.push(
            lab.kube_proxy(node, &kube_proxy, &kubeconfig, mode)
                .await
                .unwrap(),
        );
    }
    for node in NODES {
        eventually("the rules lead to all pods of both sites", async || {
            let found = lab.endpoints(node, mode, "default/web").await?;
            ensure!(
                found == everybody(lab),
                "{version} {mode:?} on {node}: {found:?}"
            );
            Ok(())
        })
        .await
        .unwrap();
    }
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let address = services
        .get("web")
        .await
        .unwrap()
        .spec
        .and_then(|spec| spec.cluster_ip)
        .unwrap();
    let pod = lab
        .pods()
        .into_iter()
        .find(|pod| pod.node == "bj-1")
        .unwrap()
        .name;
    for from in ["bj-1", "gz-1", &pod] {
        let nodes = answering_nodes(lab, from, &format!("http://{address}/"))
            .await
            .unwrap();
        assert_eq!(
            nodes,
            NODES.map(String::from).into(),
            "{version} {mode:?} from {from}"
        );
    }
    for proxy in &proxies {
        proxy.terminate();
    }
    drop(proxies);
    for node in NODES {
        lab.flush_rules(node).await.unwrap();
    }
}

#[tokio::test]
async fn plain_kube_proxy_balances_a_cluster_ip_over_both_sites() {
    let (lab, cluster) = two_sites().await;
    cluster
        .apply::<Service>(service("web", "web").port(80, ECHO_PORT))
        .await
        .unwrap();
    for (version, mode) in [
        ("1.37", ProxyMode::Iptables),
        ("1.37", ProxyMode::Nftables),
        ("1.33", ProxyMode::Iptables),
        ("1.33", ProxyMode::Nftables),
    ] {
        balances_over_both_sites(&lab, &cluster, version, mode).await;
    }
}

#[tokio::test]
async fn plain_coredns_answers_a_headless_name_with_the_pods_of_both_sites() {
    let (lab, cluster) = two_sites().await;
    cluster
        .apply::<Service>(service("web", "web").port(80, ECHO_PORT).headless())
        .await
        .unwrap();
    let reader = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: coredns}
rules:
- {apiGroups: [""], resources: [services, namespaces, pods], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: coredns}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: coredns}]
"#;
    cluster
        .kubectl_with_input(["apply", "-f", "-"], reader)
        .await
        .unwrap();
    let kubeconfig = cluster.kubeconfig_as("coredns", None).unwrap();
    let dns = lab
        .coredns("bj-1", &program("coredns"), &kubeconfig, "cluster.local")
        .await
        .unwrap();

    let pods: Vec<String> = {
        let mut addresses: Vec<_> = lab
            .pods()
            .iter()
            .map(|pod| pod.address.to_string())
            .collect();
        addresses.sort();
        addresses
    };
    let client = lab.pods()[0].name.clone();
    for from in ["bj-1", "gz-1", &client] {
        eventually("the headless name has the pods of both sites", async || {
            let name = "web.default.svc.cluster.local";
            let found = lab.resolve(from, dns.address, name, RecordType::A).await?;
            ensure!(found == pods, "from {from}: {found:?}, pods are {pods:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}
