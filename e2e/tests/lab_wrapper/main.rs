//! The wrapper with real packets: unmodified kube-proxy and CoreDNS read the API through it, and
//! traffic stays in its site.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cut_off;
mod restarts;
mod sites;

use std::collections::BTreeSet;

use anyhow::ensure;
use edgegrid_testkit::lab::{ECHO_PORT, Lab, ProxyMode, RecordType};
use edgegrid_testkit::{Cluster, eventually, service};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use sites::{FOLLOWED, Sites, annotate, close, pods, program, ready, two_sites, wrapper};

#[tokio::test]
async fn with_iptables_a_closed_service_is_only_ever_answered_at_home() {
    walk_through(ProxyMode::Iptables).await;
}

#[tokio::test]
async fn with_nftables_a_closed_service_is_only_ever_answered_at_home() {
    walk_through(ProxyMode::Nftables).await;
}

#[tokio::test]
async fn older_kube_proxies_are_served_as_well() {
    for version in ["1.33", "1.35"] {
        let sites = Sites::start(version, ProxyMode::Iptables).await;
        sites.only_ever_answered_at_home().await;
        sites.nobody_has_ended();
    }
}

async fn walk_through(mode: ProxyMode) {
    let sites = Sites::start("1.37", mode).await;
    sites.only_ever_answered_at_home().await;
    moves_are_followed(&sites).await;
    a_service_is_opened_and_closed(&sites).await;
    an_empty_site_is_refused_or_falls_back(&sites).await;
    sites.nobody_has_ended();
}

async fn moves_are_followed(sites: &Sites) {
    sites.relabel("gz-2", "bj").await;
    let grown = pods(&sites.lab, &["bj", "gz-2"]);
    sites.rules_are(FOLLOWED, "bj-1", &grown).await;
    sites.rules_are(FOLLOWED, "gz-2", &grown).await;
    let left = pods(&sites.lab, &["gz-1"]);
    sites.rules_are(FOLLOWED, "gz-1", &left).await;
    sites.relabel("gz-2", "gz").await;
    sites.everybody_is_at_home(FOLLOWED).await;
}

async fn a_service_is_opened_and_closed(sites: &Sites) {
    close(&sites.cluster, "[]").await;
    let all = pods(&sites.lab, &["bj", "gz"]);
    sites.rules_are(FOLLOWED, "bj-1", &all).await;
    close(&sites.cluster, r#"["location"]"#).await;
    sites.everybody_is_at_home(FOLLOWED).await;
}

async fn an_empty_site_is_refused_or_falls_back(sites: &Sites) {
    let (lab, cluster) = (&sites.lab, &sites.cluster);
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "default");
    let params = DeleteParams::default();
    deployments.delete("web-gz", &params).await.unwrap();
    no_pods_are_left(lab, cluster, "gz").await;
    sites.rules_are(FOLLOWED, "gz-1", &BTreeSet::new()).await;
    let refused = lab
        .curl("gz-1", &format!("http://{}/", sites.address))
        .await;
    let text = format!("{:#}", refused.unwrap_err());
    assert!(text.contains("connect"), "{text}");
    close(cluster, r#"["location","*"]"#).await;
    sites.rules_are(FOLLOWED, "gz-1", &pods(lab, &["bj"])).await;
}

async fn no_pods_are_left(lab: &Lab, cluster: &Cluster, site: &str) {
    let all: Api<Pod> = Api::namespaced(cluster.client(), "default");
    eventually("the pods of one site are gone", async || {
        let left = all.list(&ListParams::default()).await?;
        let named = |pod: &&Pod| pod.name_any().starts_with(&format!("web-{site}"));
        let left = left.iter().filter(named).count();
        ensure!(
            left == 0 && pods(lab, &[site]).is_empty(),
            "{left} are left"
        );
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn coredns_answers_a_headless_name_with_the_pods_at_home() {
    let (lab, cluster) = two_sites().await;
    let headless = service("web", "web").port(80, ECHO_PORT).headless();
    cluster.apply::<Service>(headless).await.unwrap();
    close(&cluster, r#"["location"]"#).await;
    let kubeconfig = lab.wrapper_kubeconfig().unwrap();
    for (node, site) in [("bj-1", "bj"), ("gz-2", "gz")] {
        let _wrapper = wrapper(&lab, &cluster, node).await;
        ready(&lab, node).await;
        let coredns = program("coredns");
        let dns = lab.coredns(node, &coredns, &kubeconfig, "cluster.local");
        let dns = dns.await.unwrap();
        let resolves_to = async |sites: &[&str]| {
            let wanted: BTreeSet<String> = pods(&lab, sites)
                .iter()
                .map(|at| at.ip().to_string())
                .collect();
            eventually("the headless name has the pods it should", async || {
                let name = "web.default.svc.cluster.local";
                let found = lab.resolve(node, dns.address, name, RecordType::A).await?;
                let found: BTreeSet<String> = found.into_iter().collect();
                ensure!(found == wanted, "{node}: {found:?}, not {wanted:?}");
                Ok(())
            })
            .await
            .unwrap();
        };
        resolves_to(&[site]).await;
        annotate(&cluster, &json!({ "edgegrid.io/headless": "open" })).await;
        resolves_to(&["bj", "gz"]).await;
        annotate(&cluster, &json!({ "edgegrid.io/headless": null })).await;
    }
}
