//! Faults on the link to the embedded server do what they say, and kube's watcher survives them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use edgegrid_testkit::Cluster;
use edgegrid_testkit::faults::Fault;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, ResourceExt};

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn is_create(method: &str, path: &str) -> bool {
    method == "POST" && path.contains("/configmaps")
}

fn is_watch(_: &str, path: &str) -> bool {
    path.contains("/configmaps") && path.contains("watch=")
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_leaves_nothing_and_a_lost_answer_leaves_the_object() {
    let cluster = Cluster::embedded().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let faults = cluster.faults().unwrap();
    faults.inject(1, Fault::LoseRequest, is_create);
    maps.create(&PostParams::default(), &map("a"))
        .await
        .unwrap_err();
    assert!(maps.get_opt("a").await.unwrap().is_none());
    faults.inject(1, Fault::LoseAnswer, is_create);
    maps.create(&PostParams::default(), &map("a"))
        .await
        .unwrap_err();
    assert!(maps.get_opt("a").await.unwrap().is_some());
    faults.inject(1, Fault::Conflict, is_create);
    let refusal = maps.create(&PostParams::default(), &map("b")).await;
    assert!(matches!(refusal, Err(kube::Error::Api(status)) if status.is_conflict()));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_can_be_given_up() {
    let cluster = Cluster::embedded().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    cluster
        .faults()
        .unwrap()
        .inject(1, Fault::Hang, |method, _| method == "GET");
    let hour = Duration::from_hours(1);
    tokio::time::timeout(hour, maps.get_opt("a"))
        .await
        .unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_watcher_ends_with_the_servers_state_whatever_befalls_its_watches() {
    let cluster = Cluster::embedded().await.unwrap();
    let faults = cluster.faults().unwrap();
    faults.inject(1, Fault::Cut(1), is_watch);
    faults.inject(2, Fault::Expire, is_watch);
    faults.inject(3, Fault::Lag(Duration::from_secs(5)), is_watch);
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let (store, writer) = reflector::store();
    let stream = watcher(maps.clone(), watcher::Config::default()).default_backoff();
    let stream = reflector::reflector(writer, stream);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(stream.for_each(async |_| {}));
    store.wait_until_ready().await.unwrap();
    for number in 0..20 {
        maps.create(&PostParams::default(), &map(&format!("m-{number:02}")))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    edgegrid_testkit::eventually("the cache has everything", async || {
        let mut names: Vec<_> = store.state().iter().map(|map| map.name_any()).collect();
        names.sort();
        let wanted: Vec<_> = (0..20).map(|number| format!("m-{number:02}")).collect();
        anyhow::ensure!(names == wanted, "{names:?}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(faults.pending(), 0, "every fault has happened: {faults:?}");
}
