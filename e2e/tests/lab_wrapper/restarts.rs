//! Whatever ends and comes back, a node's rules never shrink, and in the end they are right.

use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use edgegrid_testkit::lab::{Lab, ProxyMode};
use edgegrid_testkit::{Patience, eventually};

use super::sites::{FOLLOWED, Sites, pods, ready};

const NODE: &str = "bj-1";
/// How long the uplink is cut; minutes of it find out more than CI can wait for.
const CUT_VARIABLE: &str = "EDGEGRID_CUT_SECONDS";
const CUT: Duration = Duration::from_secs(8);

#[tokio::test]
async fn restarts_of_wrapper_and_api_server_never_shrink_the_rules() {
    let mut sites = Sites::start("1.37", ProxyMode::Iptables).await;
    let lab = Arc::clone(&sites.lab);
    let home = pods(&lab, &["bj"]);
    let shrinks = shrinks(Arc::clone(&lab), home.clone());
    let story = async {
        for keep in [true, false] {
            sites.stop_wrapper(NODE);
            if !keep {
                std::fs::remove_dir_all(lab.wrapper_state(NODE)).unwrap();
            }
            sites.start_wrapper(NODE).await;
            ready(&lab, NODE).await;
            sites.rules_are(FOLLOWED, NODE, &home).await;
        }
        restart_api_server(&sites).await;
        moves_are_followed(&sites, &home).await;

        sites.stop_wrapper(NODE);
        restart_api_server(&sites).await;
        sites.start_wrapper(NODE).await;
        moves_are_followed(&sites, &home).await;
    };
    tokio::select! {
        () = story => {}
        shrunk = shrinks => panic!("{shrunk:?}"),
    }
    sites.nobody_has_ended();
}

#[tokio::test]
async fn cut_off_and_rebooted_while_cut_off_the_rules_are_those_of_before() {
    let mut sites = Sites::start("1.37", ProxyMode::Iptables).await;
    let lab = Arc::clone(&sites.lab);
    let home = pods(&lab, &["bj"]);
    eventually("the view is on disk", async || {
        let file = lab.wrapper_state(NODE).join("view.snapshot");
        ensure!(file.exists(), "no {}", file.display());
        Ok(())
    })
    .await
    .unwrap();
    lab.cut_off(NODE, true).await.unwrap();
    let seconds = std::env::var(CUT_VARIABLE).ok();
    let cut = seconds.and_then(|text| text.parse().ok());
    let shrinks = shrinks(Arc::clone(&lab), home.clone());
    let shrunk = tokio::time::timeout(cut.map_or(CUT, Duration::from_secs), shrinks);
    assert!(shrunk.await.is_err(), "the rules changed");
    sites.nobody_has_ended();

    // A reboot: no process, no rule, not even the namespace is left, and nobody to ask.
    sites.stop_proxy(NODE);
    sites.stop_wrapper(NODE);
    lab.reboot_node(NODE).await.unwrap();
    lab.cut_off(NODE, true).await.unwrap();
    assert!(sites.endpoints(NODE).await.unwrap().is_empty());
    sites.start_wrapper(NODE).await;
    sites.start_proxy(NODE).await;
    sites.rules_are(Patience::default(), NODE, &home).await;
    eventually("it says how old its view is", async || {
        let metrics = lab.ask_wrapper(NODE, "/metrics").await?;
        let mut lines = metrics.lines();
        let age = lines.find_map(|line| line.strip_prefix("edgegrid_wrapper_age_seconds "));
        ensure!(age.is_some_and(|age| age != "0"), "{age:?}");
        Ok(())
    })
    .await
    .unwrap();

    // What happened meanwhile arrives with the uplink.
    sites.relabel("gz-2", "bj").await;
    lab.cut_off(NODE, false).await.unwrap();
    let grown = pods(&lab, &["bj", "gz-2"]);
    sites.rules_are(Patience::default(), NODE, &grown).await;
    sites.nobody_has_ended();
}

async fn restart_api_server(sites: &Sites) {
    sites.cluster.stop_api_server().unwrap();
    sites.cluster.start_api_server().await.unwrap();
}

/// A node moves in and out again; the rules follow, so nothing is stuck.
async fn moves_are_followed(sites: &Sites, home: &BTreeSet<SocketAddrV4>) {
    sites.relabel("gz-2", "bj").await;
    let grown = pods(&sites.lab, &["bj", "gz-2"]);
    sites.rules_are(Patience::default(), NODE, &grown).await;
    sites.relabel("gz-2", "gz").await;
    sites.rules_are(Patience::default(), NODE, home).await;
}

/// Ends when a rule is missing.
async fn shrinks(lab: Arc<Lab>, home: BTreeSet<SocketAddrV4>) -> Result<()> {
    loop {
        let rules = lab.endpoints(NODE, ProxyMode::Iptables, "default/web");
        let rules = rules.await?;
        ensure!(rules.is_superset(&home), "{rules:?} is less than {home:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
