//! The uplink is gone, and then everything on the node that reads the API starts anew.

use std::time::Duration;

use anyhow::ensure;
use edgegrid_testkit::edgegrid::{AGENT_ACCOUNT, binary};
use edgegrid_testkit::lab::{CoreDns, ECHO_PORT, Lab, ProxyMode, RecordType};
use edgegrid_testkit::process::Process;
use edgegrid_testkit::{Cluster, Patience, eventually, eventually_within, service};
use k8s_openapi::api::core::v1::Service;
use tokio::time::Instant;

use super::sites::{close, pods, program, two_sites};

const NODE: &str = "bj-1";
const NAME: &str = "web.default.svc.cluster.local";
/// What programs ask an API server for before any object.
const DISCOVERY: [&str; 6] = [
    "/version",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/discovery.k8s.io/v1",
    "/apis/networking.k8s.io/v1",
];
/// Five seconds are meant; a machine that does other things besides gets more.
const SOON: Patience = Patience {
    limit: Duration::from_secs(20),
    pause: Duration::from_millis(50),
};

/// Everything on the node that reads the API, and the agent that it reads it through.
struct Programs {
    agent: Process,
    proxy: Process,
    dns: CoreDns,
}

impl Programs {
    async fn start(lab: &Lab, cluster: &Cluster) -> Self {
        let (namespace, account) = AGENT_ACCOUNT;
        let kubeconfig = cluster.kubeconfig_as_service_account(namespace, account);
        let (kubeconfig, edgegrid) = (kubeconfig.await.unwrap(), binary().unwrap());
        let agent = lab.agent(NODE, &edgegrid, &kubeconfig).await.unwrap();
        let through = lab.wrapper_kubeconfig().unwrap();
        let (kube_proxy, coredns) = (program("kube-proxy@1.37"), program("coredns"));
        let proxy = lab.kube_proxy(NODE, &kube_proxy, &through, ProxyMode::Iptables);
        let dns = lab.coredns(NODE, &coredns, &through, "cluster.local");
        let (proxy, dns) = tokio::join!(proxy, dns);
        Self {
            agent,
            proxy: proxy.unwrap(),
            dns: dns.unwrap(),
        }
    }

    /// Waits until the Service is answered by its address from the own site, and found by its name.
    async fn answer(&self, lab: &Lab, patience: Patience, address: &str) {
        let found = eventually_within(patience, "address and name answer", async || {
            let answer = lab.curl(NODE, &format!("http://{address}/")).await?;
            ensure!(answer.contains("node name:\tbj-"), "{answer}");
            let server = self.dns.address;
            let found = lab.resolve(NODE, server, NAME, RecordType::A).await?;
            ensure!(found == [address], "{found:?}");
            Ok(())
        });
        found.await.unwrap();
    }
}

#[tokio::test]
async fn cut_off_with_everything_restarted_addresses_and_names_answer_again() {
    let (lab, cluster) = two_sites().await;
    let rights = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/agent/rbac.yaml");
    cluster.kubectl(["apply", "-f", rights]).await.unwrap();
    let web = service("web", "web").port(80, ECHO_PORT);
    let web = cluster.apply::<Service>(web).await.unwrap();
    let address = web.spec.and_then(|spec| spec.cluster_ip).unwrap();
    close(&cluster, r#"["location"]"#).await;
    let before = Programs::start(&lab, &cluster).await;
    before.answer(&lab, Patience::default(), &address).await;
    is_on_disk(&lab).await;

    lab.cut_off(NODE, true).await.unwrap();
    drop(before);
    // Rules outlive kube-proxy: what answers from here on was made while cut off.
    lab.flush_rules(NODE).await.unwrap();
    let none = lab
        .endpoints(NODE, ProxyMode::Iptables, "default/web")
        .await;
    assert!(none.unwrap().is_empty());
    let start = Instant::now();
    let again = Programs::start(&lab, &cluster).await;
    println!(
        "agent, kube-proxy and CoreDNS are up after {:?}",
        start.elapsed()
    );
    again.answer(&lab, SOON, &address).await;
    println!("address and name answer after {:?}", start.elapsed());
    for path in DISCOVERY {
        let answer = lab.ask_wrapper(NODE, path).await.unwrap();
        assert!(answer.starts_with('{'), "{path}: {answer}");
    }
    let home = pods(&lab, &["bj"]);
    let rules = lab
        .endpoints(NODE, ProxyMode::Iptables, "default/web")
        .await;
    assert_eq!(rules.unwrap(), home);
    for process in [&again.agent, &again.proxy, &again.dns.process] {
        process.expect_alive().unwrap();
    }
}

/// The view, with the version and the groups in it.
async fn is_on_disk(lab: &Lab) {
    eventually("all of it is on disk", async || {
        let metrics = lab.ask_wrapper(NODE, "/metrics").await?;
        let outdated = metrics.contains("edgegrid_wrapper_snapshot_outdated 1");
        let file = std::fs::read(lab.wrapper_state(NODE).join("view.snapshot"))?;
        let has = |text: &[u8]| file.windows(text.len()).any(|window| window == text);
        ensure!(!outdated && has(b"/apis/events.k8s.io/v1"), "not yet");
        Ok(())
    })
    .await
    .unwrap();
}
