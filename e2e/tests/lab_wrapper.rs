//! The wrapper with real packets: unmodified kube-proxy and CoreDNS read the API through it, and
//! traffic stays in its site.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_testkit::lab::{ECHO_PORT, Lab, ProxyMode, RecordType};
use edgegrid_testkit::process::Process;
use edgegrid_testkit::{Cluster, Patience, eventually, eventually_within, node, service, workload};
use edgegrid_upstream::{Program, locate};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const NODES: [&str; 4] = ["bj-1", "bj-2", "gz-1", "gz-2"];
/// How often a service is asked: a rule that lets one foreign endpoint in would be found out.
const REQUESTS: usize = 200;
/// In this time a change upstream must be in a node's rules.
const FOLLOWED: Patience = Patience {
    limit: Duration::from_secs(2),
    pause: Duration::from_millis(50),
};

/// Two sites of two nodes, each with two pods, and a wrapper and a kube-proxy on every node.
struct Sites {
    lab: Arc<Lab>,
    cluster: Cluster,
    mode: ProxyMode,
    wrappers: Vec<Process>,
    proxies: Vec<Process>,
}

fn program(name: &str) -> PathBuf {
    locate(&Program::parse(name).unwrap()).unwrap()
}

/// The program under test, built beside this one.
fn edgegrid() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.ancestors().nth(2).unwrap().join("edgegrid")
}

async fn two_sites() -> (Arc<Lab>, Cluster) {
    let lab = Arc::new(Lab::start().await.unwrap());
    let cluster = Cluster::upstream()
        .listen_on(lab.gateway())
        .with_controllers()
        .pods(lab.clone())
        .await
        .unwrap();
    let rights = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/rbac/wrapper.yaml");
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
        let web = workload(app)
            .labelled("web")
            .replicas(2)
            .on_nodes("location", site);
        cluster.apply::<Deployment>(web).await.unwrap();
    }
    eventually("two pods run in each site", async || {
        let counts = ["bj", "gz"].map(|site| pods(&lab, site).len());
        ensure!(counts == [2, 2], "{counts:?}");
        Ok(())
    })
    .await
    .unwrap();
    (lab, cluster)
}

/// Addresses of the pods on nodes whose name starts with a site's.
fn pods(lab: &Lab, site: &str) -> BTreeSet<SocketAddrV4> {
    let pods = lab
        .pods()
        .into_iter()
        .filter(|pod| pod.node.starts_with(site));
    pods.map(|pod| SocketAddrV4::new(pod.address, ECHO_PORT))
        .collect()
}

fn closed(keys: &str) -> Value {
    json!({ "metadata": { "annotations": { "topologyKeys": keys } } })
}

async fn web_service(cluster: &Cluster, keys: &str) -> String {
    let web = cluster
        .apply::<Service>(service("web", "web").port(80, ECHO_PORT))
        .await
        .unwrap();
    annotate(cluster, &closed(keys)).await;
    web.spec.and_then(|spec| spec.cluster_ip).unwrap()
}

async fn annotate(cluster: &Cluster, patch: &Value) {
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let params = PatchParams::default();
    services
        .patch("web", &params, &Patch::Merge(patch))
        .await
        .unwrap();
}

impl Sites {
    async fn start(version: &str, mode: ProxyMode) -> (Self, String) {
        let (lab, cluster) = two_sites().await;
        let address = web_service(&cluster, r#"["location"]"#).await;
        let mut sites = Self {
            lab,
            cluster,
            mode,
            wrappers: Vec::new(),
            proxies: Vec::new(),
        };
        for node in NODES {
            let wrapper = sites.wrapper(node).await;
            sites.wrappers.push(wrapper);
            let proxy = sites.proxy(node, version).await;
            sites.proxies.push(proxy);
        }
        (sites, address)
    }

    async fn wrapper(&self, node: &str) -> Process {
        let identity = "system:serviceaccount:edge-system:edgegrid-wrapper";
        let kubeconfig = self.cluster.kubeconfig_as(identity, None).unwrap();
        self.lab
            .wrapper(node, &edgegrid(), &kubeconfig)
            .await
            .unwrap()
    }

    async fn proxy(&self, node: &str, version: &str) -> Process {
        let kubeconfig = self.lab.wrapper_kubeconfig().unwrap();
        let kube_proxy = program(&format!("kube-proxy@{version}"));
        let proxy = self
            .lab
            .kube_proxy(node, &kube_proxy, &kubeconfig, self.mode);
        proxy.await.unwrap()
    }

    async fn endpoints(&self, node: &str) -> Result<BTreeSet<SocketAddrV4>> {
        self.lab.endpoints(node, self.mode, "default/web").await
    }

    async fn rules_are(&self, patience: Patience, node: &str, wanted: &BTreeSet<SocketAddrV4>) {
        let what = format!("the rules of {node} lead to {wanted:?}");
        eventually_within(patience, &what, async || {
            let found = self.endpoints(node).await?;
            if found != *wanted {
                let view = self
                    .lab
                    .ask_wrapper(node, "/debug/view?service=default/web")
                    .await?;
                anyhow::bail!("{found:?}; the wrapper says {view}");
            }
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Every node's rules lead to its own site and nowhere else.
    async fn everybody_is_at_home(&self, patience: Patience) {
        for node in NODES {
            self.rules_are(patience, node, &pods(&self.lab, &node[..2]))
                .await;
        }
    }

    async fn relabel(&self, node: &str, site: &str) {
        let nodes: Api<Node> = Api::all(self.cluster.client());
        let patch = json!({ "metadata": { "labels": { "location": site } } });
        let params = PatchParams::default();
        nodes
            .patch(node, &params, &Patch::Merge(patch))
            .await
            .unwrap();
    }

    fn nobody_has_ended(&self) {
        for process in self.proxies.iter().chain(&self.wrappers) {
            process.expect_alive().unwrap();
        }
    }
}

/// Names of the nodes that answer requests for `url` made at `from`.
async fn answering(lab: &Lab, from: &str, url: &str) -> Result<BTreeSet<String>> {
    let range = format!("{url}?n=[1-{REQUESTS}]");
    let words = [
        "curl",
        "--silent",
        "--show-error",
        "--fail",
        "--max-time",
        "5",
        "--noproxy",
        "*",
        &range,
    ];
    let answers = lab.exec(from, words).await?;
    let names = answers
        .lines()
        .filter_map(|line| line.strip_prefix("node name:"));
    let names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    ensure!(
        names.len() == REQUESTS,
        "{} answers to {REQUESTS} requests",
        names.len()
    );
    Ok(names.into_iter().collect())
}

async fn only_ever_answered_at_home(sites: &Sites, address: &str) {
    sites.everybody_is_at_home(Patience::default()).await;
    let url = format!("http://{address}/");
    let pod_of = |site: &str| {
        let pod = sites
            .lab
            .pods()
            .into_iter()
            .find(|pod| pod.node.starts_with(site));
        pod.context("a pod of the site").unwrap().name
    };
    for (site, from) in [
        ("bj", "bj-1".to_owned()),
        ("bj", pod_of("bj")),
        ("gz", "gz-2".to_owned()),
        ("gz", pod_of("gz")),
    ] {
        let nodes = answering(&sites.lab, &from, &url).await.unwrap();
        assert!(
            nodes.iter().all(|node| node.starts_with(site)),
            "{from} was answered by {nodes:?}"
        );
    }
}

/// A node moves, a pod goes, the service is opened and closed again, one site is left empty.
async fn changes_are_followed(sites: &Sites, address: &str) {
    let (lab, cluster) = (&sites.lab, &sites.cluster);
    sites.relabel("gz-2", "bj").await;
    let of_bj: BTreeSet<_> = ["bj", "gz-2"]
        .iter()
        .flat_map(|site| pods(lab, site))
        .collect();
    sites.rules_are(FOLLOWED, "bj-1", &of_bj).await;
    sites.rules_are(FOLLOWED, "gz-2", &of_bj).await;
    sites.rules_are(FOLLOWED, "gz-1", &pods(lab, "gz-1")).await;
    sites.relabel("gz-2", "gz").await;
    sites.everybody_is_at_home(FOLLOWED).await;

    let all: BTreeSet<_> = ["bj", "gz"]
        .iter()
        .flat_map(|site| pods(lab, site))
        .collect();
    annotate(cluster, &closed("[]")).await;
    sites.rules_are(FOLLOWED, "bj-1", &all).await;
    annotate(cluster, &closed(r#"["location"]"#)).await;
    sites.everybody_is_at_home(FOLLOWED).await;

    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "default");
    deployments
        .delete("web-gz", &DeleteParams::default())
        .await
        .unwrap();
    eventually("the pods of one site are gone", async || {
        let left: Api<Pod> = Api::namespaced(cluster.client(), "default");
        let left = left.list(&Default::default()).await?;
        let of_gz = left
            .iter()
            .filter(|pod| pod.name_any().starts_with("web-gz"))
            .count();
        ensure!(of_gz == 0 && pods(lab, "gz").is_empty(), "{of_gz} are left");
        Ok(())
    })
    .await
    .unwrap();
    let nothing = BTreeSet::new();
    sites.rules_are(FOLLOWED, "gz-1", &nothing).await;
    let refused = lab
        .curl("gz-1", &format!("http://{address}/"))
        .await
        .unwrap_err();
    let text = format!("{refused:#}");
    assert!(
        text.contains("refused") || text.contains("unreachable") || text.contains("connect"),
        "{text}"
    );
    annotate(cluster, &closed(r#"["location","*"]"#)).await;
    sites.rules_are(FOLLOWED, "gz-1", &pods(lab, "bj")).await;
    sites.nobody_has_ended();
}

async fn walk_through(version: &str, mode: ProxyMode) {
    let (sites, address) = Sites::start(version, mode).await;
    only_ever_answered_at_home(&sites, &address).await;
    changes_are_followed(&sites, &address).await;
}

#[tokio::test]
async fn with_iptables_a_closed_service_is_only_ever_answered_at_home() {
    walk_through("1.37", ProxyMode::Iptables).await;
}

#[tokio::test]
async fn with_nftables_a_closed_service_is_only_ever_answered_at_home() {
    walk_through("1.37", ProxyMode::Nftables).await;
}

#[tokio::test]
async fn an_older_kube_proxy_is_served_as_well() {
    let (sites, address) = Sites::start("1.33", ProxyMode::Iptables).await;
    only_ever_answered_at_home(&sites, &address).await;
}

#[tokio::test]
async fn restarts_and_a_cut_uplink_leave_the_rules_as_they_are() {
    let (mut sites, _) = Sites::start("1.37", ProxyMode::Iptables).await;
    sites.everybody_is_at_home(Patience::default()).await;
    let home = pods(&sites.lab, "bj");
    let lab = Arc::clone(&sites.lab);

    // The wrapper restarts, with what it kept and without.
    for keep in [true, false] {
        drop(sites.wrappers.remove(0));
        if !keep {
            std::fs::remove_dir_all(lab.wrapper_state("bj-1")).unwrap();
        }
        assert_eq!(sites.endpoints("bj-1").await.unwrap(), home);
        let wrapper = sites.wrapper("bj-1").await;
        sites.wrappers.insert(0, wrapper);
        ready(&lab, "bj-1").await;
        sites.rules_are(FOLLOWED, "bj-1", &home).await;
    }
    // It writes what it knows within a second or two.
    eventually("the view is on disk", async || {
        let file = lab.wrapper_state("bj-1").join("view.snapshot");
        ensure!(file.exists(), "no {}", file.display());
        Ok(())
    })
    .await
    .unwrap();

    // Cut off: nothing changes. Rebooted while cut off: the same rules come from disk.
    lab.cut_off("bj-1", true).await.unwrap();
    assert_eq!(sites.endpoints("bj-1").await.unwrap(), home);
    drop(sites.proxies.remove(0));
    drop(sites.wrappers.remove(0));
    lab.flush_rules("bj-1").await.unwrap();
    assert!(sites.endpoints("bj-1").await.unwrap().is_empty());
    let wrapper = sites.wrapper("bj-1").await;
    let proxy = sites.proxy("bj-1", "1.37").await;
    sites.wrappers.insert(0, wrapper);
    sites.proxies.insert(0, proxy);
    sites.rules_are(Patience::default(), "bj-1", &home).await;
    let metrics = lab.ask_wrapper("bj-1", "/metrics").await.unwrap();
    let age = metrics
        .lines()
        .find_map(|line| line.strip_prefix("edgegrid_wrapper_age_seconds "));
    assert!(age.is_some_and(|age| age != "0"), "{age:?}");

    // What happened meanwhile arrives with the uplink.
    sites.relabel("gz-2", "bj").await;
    lab.cut_off("bj-1", false).await.unwrap();
    let of_bj = ["bj", "gz-2"]
        .iter()
        .flat_map(|site| pods(&lab, site))
        .collect();
    sites.rules_are(Patience::default(), "bj-1", &of_bj).await;
    sites.nobody_has_ended();
}

async fn ready(lab: &Lab, node: &str) {
    eventually("the wrapper's view is complete", async || {
        lab.ask_wrapper(node, "/readyz").await.map(drop)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn coredns_answers_a_headless_name_with_the_pods_at_home() {
    let (lab, cluster) = two_sites().await;
    let headless = service("web", "web").port(80, ECHO_PORT).headless();
    cluster.apply::<Service>(headless).await.unwrap();
    annotate(&cluster, &closed(r#"["location"]"#)).await;
    let kubeconfig = lab.wrapper_kubeconfig().unwrap();
    let identity = "system:serviceaccount:edge-system:edgegrid-wrapper";
    let own = cluster.kubeconfig_as(identity, None).unwrap();
    for (node, site) in [("bj-1", "bj"), ("gz-2", "gz")] {
        let _wrapper = lab.wrapper(node, &edgegrid(), &own).await.unwrap();
        ready(&lab, node).await;
        let dns = lab
            .coredns(node, &program("coredns"), &kubeconfig, "cluster.local")
            .await
            .unwrap();
        let home: BTreeSet<String> = pods(&lab, site)
            .iter()
            .map(|at| at.ip().to_string())
            .collect();
        eventually("the headless name has the pods at home", async || {
            let name = "web.default.svc.cluster.local";
            let found = lab.resolve(node, dns.address, name, RecordType::A).await?;
            ensure!(
                found.iter().cloned().collect::<BTreeSet<_>>() == home,
                "{node}: {found:?}, not {home:?}"
            );
            Ok(())
        })
        .await
        .unwrap();
        annotate(
            &cluster,
            &json!({ "metadata": { "annotations": { "edgegrid.io/headless": "open" } } }),
        )
        .await;
        eventually("the opened name has everybody", async || {
            let name = "web.default.svc.cluster.local";
            let found = lab.resolve(node, dns.address, name, RecordType::A).await?;
            ensure!(found.len() == 4, "{found:?}");
            Ok(())
        })
        .await
        .unwrap();
        annotate(
            &cluster,
            &json!({ "metadata": { "annotations": { "edgegrid.io/headless": null } } }),
        )
        .await;
    }
}
