//! Two sites of two nodes with two pods each; on every node the wrapper, and a kube-proxy that
//! reads the API through it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_testkit::edgegrid::{WRAPPER_ACCOUNT, binary};
use edgegrid_testkit::lab::{ECHO_PORT, Lab, ProxyMode};
use edgegrid_testkit::process::Process;
use edgegrid_testkit::{Cluster, Patience, eventually, eventually_within, node, service, workload};
use edgegrid_upstream::{Program, locate};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

pub(crate) const NODES: [&str; 4] = ["bj-1", "bj-2", "gz-1", "gz-2"];
/// How often a service is asked: a rule that lets one foreign endpoint in would be found out.
const REQUESTS: usize = 200;
/// In this time a change upstream must be in a node's rules.
pub(crate) const FOLLOWED: Patience = Patience {
    limit: Duration::from_secs(2),
    pause: Duration::from_millis(50),
};

pub(crate) struct Sites {
    pub(crate) lab: Arc<Lab>,
    pub(crate) cluster: Cluster,
    /// Address of the closed service.
    pub(crate) address: String,
    mode: ProxyMode,
    version: &'static str,
    wrappers: BTreeMap<String, Process>,
    proxies: BTreeMap<String, Process>,
}

pub(crate) fn program(name: &str) -> PathBuf {
    locate(&Program::parse(name).unwrap()).unwrap()
}

/// The cluster alone, and the rights of the wrapper.
pub(crate) async fn two_sites() -> (Arc<Lab>, Cluster) {
    let lab = Arc::new(Lab::start().await.unwrap());
    let cluster = Cluster::upstream()
        .listen_on(lab.gateway())
        .with_controllers()
        .pods(lab.clone())
        .await
        .unwrap();
    let rights = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/wrapper/rbac.yaml");
    cluster.kubectl(["apply", "-f", rights]).await.unwrap();
    for name in NODES {
        let made = lab.add_node(name).await.unwrap();
        let node = node(name)
            .label("location", &name[..2])
            .address(made.address)
            .pod_cidr(&made.pod_cidr);
        cluster.add_nodes([node]).await.unwrap();
    }
    for (app, site) in [("web-bj", "bj"), ("web-gz", "gz")] {
        let web = workload(app).labelled("web").replicas(2);
        let web = web.on_nodes("location", site);
        cluster.apply::<Deployment>(web).await.unwrap();
    }
    eventually("two pods run in each site", async || {
        let counts = ["bj", "gz"].map(|site| pods(&lab, &[site]).len());
        ensure!(counts == [2, 2], "{counts:?}");
        Ok(())
    })
    .await
    .unwrap();
    (lab, cluster)
}

/// Addresses of the pods on nodes whose name starts with one of some words.
pub(crate) fn pods(lab: &Lab, sites: &[&str]) -> BTreeSet<SocketAddrV4> {
    let at = |node: &str| sites.iter().any(|site| node.starts_with(site));
    let pods = lab.pods().into_iter().filter(|pod| at(&pod.node));
    let address = |address| SocketAddrV4::new(address, ECHO_PORT);
    pods.map(|pod| address(pod.address)).collect()
}

/// Closes the service to other sites by some keys.
pub(crate) async fn close(cluster: &Cluster, keys: &str) {
    annotate(cluster, &json!({ "topologyKeys": keys })).await;
}

pub(crate) async fn annotate(cluster: &Cluster, annotations: &Value) {
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    let params = PatchParams::default();
    services.patch("web", &params, &patch).await.unwrap();
}

/// Starts the wrapper in a node, with the rights it is shipped with.
pub(crate) async fn wrapper(lab: &Lab, cluster: &Cluster, node: &str) -> Process {
    let (namespace, account) = WRAPPER_ACCOUNT;
    let kubeconfig = cluster.kubeconfig_as_service_account(namespace, account);
    let kubeconfig = kubeconfig.await.unwrap();
    let program = binary().unwrap();
    lab.wrapper(node, &program, &kubeconfig).await.unwrap()
}

pub(crate) async fn ready(lab: &Lab, node: &str) {
    eventually("the wrapper's view is complete", async || {
        lab.ask_wrapper(node, "/readyz").await.map(drop)
    })
    .await
    .unwrap();
}

impl Sites {
    pub(crate) async fn start(version: &'static str, mode: ProxyMode) -> Self {
        let (lab, cluster) = two_sites().await;
        let web = service("web", "web").port(80, ECHO_PORT);
        let web = cluster.apply::<Service>(web).await.unwrap();
        close(&cluster, r#"["location"]"#).await;
        let mut sites = Self {
            lab,
            cluster,
            address: web.spec.and_then(|spec| spec.cluster_ip).unwrap(),
            mode,
            version,
            wrappers: BTreeMap::new(),
            proxies: BTreeMap::new(),
        };
        for node in NODES {
            sites.start_wrapper(node).await;
            sites.start_proxy(node).await;
        }
        sites.everybody_is_at_home(Patience::default()).await;
        sites
    }

    pub(crate) async fn start_wrapper(&mut self, node: &str) {
        let process = wrapper(&self.lab, &self.cluster, node).await;
        self.wrappers.insert(node.to_owned(), process);
    }

    pub(crate) async fn start_proxy(&mut self, node: &str) {
        let kubeconfig = self.lab.wrapper_kubeconfig().unwrap();
        let program = program(&format!("kube-proxy@{}", self.version));
        let process = self.lab.kube_proxy(node, &program, &kubeconfig, self.mode);
        self.proxies.insert(node.to_owned(), process.await.unwrap());
    }

    pub(crate) fn stop_wrapper(&mut self, node: &str) {
        drop(self.wrappers.remove(node).unwrap());
    }

    pub(crate) fn stop_proxy(&mut self, node: &str) {
        drop(self.proxies.remove(node).unwrap());
    }

    pub(crate) async fn endpoints(&self, node: &str) -> Result<BTreeSet<SocketAddrV4>> {
        self.lab.endpoints(node, self.mode, "default/web").await
    }

    pub(crate) async fn rules_are(
        &self,
        patience: Patience,
        node: &str,
        wanted: &BTreeSet<SocketAddrV4>,
    ) {
        let what = format!("the rules of {node} lead to {wanted:?}");
        eventually_within(patience, &what, async || {
            let found = self.endpoints(node).await?;
            if found != *wanted {
                let path = "/debug/view?service=default/web";
                let view = self.lab.ask_wrapper(node, path).await?;
                anyhow::bail!("{found:?}; the wrapper says {view}");
            }
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Every node's rules lead to its own site and nowhere else.
    pub(crate) async fn everybody_is_at_home(&self, patience: Patience) {
        for node in NODES {
            let home = pods(&self.lab, &[&node[..2]]);
            self.rules_are(patience, node, &home).await;
        }
    }

    pub(crate) async fn relabel(&self, node: &str, site: &str) {
        let nodes: Api<Node> = Api::all(self.cluster.client());
        let patch = Patch::Merge(json!({ "metadata": { "labels": { "location": site } } }));
        let params = PatchParams::default();
        nodes.patch(node, &params, &patch).await.unwrap();
    }

    /// kube-proxy exits when its Node is gone, so a wrapper's mistake would show here.
    pub(crate) fn nobody_has_ended(&self) {
        for process in self.proxies.values().chain(self.wrappers.values()) {
            process.expect_alive().unwrap();
        }
    }

    pub(crate) async fn only_ever_answered_at_home(&self) {
        let pod_of = |site: &str| {
            let mut pods = self.lab.pods().into_iter();
            let pod = pods.find(|pod| pod.node.starts_with(site));
            pod.context("a pod of the site").unwrap().name
        };
        for (site, from) in [
            ("bj", "bj-1".to_owned()),
            ("bj", pod_of("bj")),
            ("gz", "gz-2".to_owned()),
            ("gz", pod_of("gz")),
        ] {
            let nodes = self.answering(&from).await.unwrap();
            let at_home = nodes.iter().all(|node| node.starts_with(site));
            assert!(at_home, "{from} was answered by {nodes:?}");
        }
    }

    /// Names of the nodes that answer requests made at `from`.
    async fn answering(&self, from: &str) -> Result<BTreeSet<String>> {
        let urls = format!("http://{}/?n=[1-{REQUESTS}]", self.address);
        let options = "--silent --show-error --fail --max-time 5 --noproxy *".split(' ');
        let words = std::iter::once("curl").chain(options).chain([&*urls]);
        let answers = self.lab.exec(from, words).await?;
        let lines = answers.lines();
        let names = lines.filter_map(|line| line.strip_prefix("node name:"));
        let names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
        let answers = names.len();
        ensure!(answers == REQUESTS, "{answers} answers to {REQUESTS}");
        Ok(names.into_iter().collect())
    }
}
