//! What kube-apiserver does where our own server is kinder: a watch from a revision of the future is silent, and so
//! is a server that hangs with its connections alive.

use std::time::Duration;

use anyhow::{Result, ensure};
use edgegrid_testkit::edgegrid::{Settings, Wrapper};
use edgegrid_testkit::{Cluster, Patience, eventually_within};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

/// So long a view may be of another history.
const TWO_MINUTES: Patience = Patience {
    limit: Duration::from_mins(2),
    pause: Duration::from_millis(500),
};
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const AGE: &str = "edgegrid_wrapper_age_seconds ";

async fn start(settings: &Settings, node: &str) -> Wrapper {
    let settings = Settings {
        node: node.to_owned(),
        ..settings.clone()
    };
    Wrapper::start(settings).await.unwrap()
}

/// Gives the pod of a unit another address.
async fn move_pod(cluster: &Cluster, unit: &str, address: &str) {
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client(), "default");
    let endpoint = json!({ "addresses": [address], "nodeName": format!("{unit}-0") });
    let patch = json!({ "endpoints": [endpoint] });
    let name = format!("web-{unit}");
    let params = PatchParams::default();
    slices
        .patch(&name, &params, &Patch::Merge(&patch))
        .await
        .unwrap();
}

/// Waits until a wrapper shows an address, and is sure of it.
async fn shows(wrapper: &Wrapper, address: &str) {
    let what = format!("{address} is shown");
    let look = async || -> Result<()> {
        let text = wrapper.get(SLICES).await?;
        ensure!(text.contains(address), "{text}");
        let age = age(wrapper).await?;
        ensure!(age == 0, "{age} s old");
        Ok(())
    };
    eventually_within(TWO_MINUTES, &what, look).await.unwrap();
}

async fn age(wrapper: &Wrapper) -> Result<u64> {
    let metrics = wrapper.get("/metrics").await?;
    let line = metrics.lines().find_map(|line| line.strip_prefix(AGE));
    Ok(line.unwrap_or_default().parse()?)
}

#[tokio::test]
async fn after_a_restore_from_backup_running_and_restarted_wrappers_show_the_new_pods() {
    let cluster = Cluster::upstream().await.unwrap();
    crate::two_units(&cluster).await;
    for unit in ["a", "b"] {
        let name = format!("web-{unit}");
        cluster
            .apply::<EndpointSlice>(crate::slice(&name, 1))
            .await
            .unwrap();
    }
    // The wrappers' account is in the backup too: its token is good for nothing else.
    let settings = Settings::for_node(&cluster, "a-0").await.unwrap();
    let backup = cluster.folder().unwrap().join("backup");
    cluster.back_up(&backup).await.unwrap();
    let running = start(&settings, "a-0").await;
    let restarted = start(&settings, "b-0").await;
    for number in 1..=150 {
        for unit in ["a", "b"] {
            move_pod(&cluster, unit, &format!("10.9.0.{number}")).await;
        }
    }
    shows(&running, "10.9.0.150").await;
    shows(&restarted, "10.9.0.150").await;
    // Its snapshot is written within seconds.
    tokio::time::sleep(Duration::from_secs(5)).await;

    cluster.restore(&backup).await.unwrap();
    let restarted = restarted.restart().await.unwrap();
    let started = Instant::now();
    for unit in ["a", "b"] {
        move_pod(&cluster, unit, "10.9.9.9").await;
    }
    shows(&running, "10.9.9.9").await;
    shows(&restarted, "10.9.9.9").await;
    println!("both show the new pods after {:.0?}", started.elapsed());
}

/// Minutes of waiting, so it is run by hand (`--run-ignored only`); docs/wrapper.md has the result. The rule is tested in virtual
/// time too.
#[tokio::test]
#[ignore = "waits for four minutes, run by hand"]
async fn an_api_server_that_hangs_is_an_outage_and_its_watches_are_renewed() {
    let cluster = Cluster::upstream().await.unwrap();
    crate::two_units(&cluster).await;
    cluster
        .apply::<EndpointSlice>(crate::slice("web-a", 1))
        .await
        .unwrap();
    let settings = Settings::for_node(&cluster, "a-0").await.unwrap();
    let wrapper = start(&settings, "a-0").await;
    // The first look is answered by then.
    shows(&wrapper, "10.1.0.2").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    cluster.pause_api_server().unwrap();
    let (started, mut noticed) = (Instant::now(), None);
    while noticed.is_none() && started.elapsed() < Duration::from_mins(4) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        noticed = Some(age(&wrapper).await.unwrap()).filter(|age| *age > 0);
    }
    println!("age {noticed:?} after {:.0?}", started.elapsed());
    assert!(noticed.is_some_and(|age| age >= 140), "{noticed:?}");
    cluster.resume_api_server().unwrap();
    move_pod(&cluster, "a", "10.9.9.9").await;
    shows(&wrapper, "10.9.9.9").await;
}
