//! kube-runtime's watcher through the wrapper, under churn, cuts and restarts: it misses nothing.

use crate::cloud::{Cloud, node, service, slice};
use crate::mirror::strip;
use crate::rule::expected_slices;
use crate::{Running, eventually};
use edgegrid_wrapper::ServedKind;
use futures::StreamExt;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tower::ServiceExt;

/// A client whose server can be replaced while it runs.
fn through(current: &Arc<Mutex<Client>>) -> Client {
    let current = Arc::clone(current);
    Client::new(
        tower::service_fn(move |request| {
            let client = current.lock().unwrap().clone();
            async move { client.send(request).await }
        })
        .boxed_clone(),
        "default",
    )
}

fn shown(store: &Store<EndpointSlice>) -> BTreeMap<String, Value> {
    let state = store.state();
    let named = |slice: &Arc<EndpointSlice>| {
        let value = strip(&serde_json::to_value(&**slice).unwrap());
        (crate::mirror::name(&value), value)
    };
    state.iter().map(named).collect()
}

/// Changes slices, and now and then removes one.
async fn churn(cloud: &Cloud, round: usize) {
    for n in 0..30 {
        let nodes: &[&str] = [&["a-0", "b-0"][..], &["a-1"], &["b-0"], &[]][(round + n) % 4];
        let name = format!("web-{}", n % 7);
        cloud.put(ServedKind::Slices, &slice(&name, "web", nodes));
        if n % 10 == 3 {
            let name = format!("web-{}", (n + 3) % 7);
            cloud.delete(ServedKind::Slices, Some("default"), &name);
        }
        tokio::task::yield_now().await;
    }
}

async fn holds_the_rule(store: &Store<EndpointSlice>, cloud: &Cloud) {
    let wanted = expected_slices("a-0", cloud);
    eventually("it holds what the rule says", async || {
        let shown = shown(store);
        if shown == wanted {
            Ok(())
        } else {
            Err(format!("{shown:#?}"))
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn kube_runtimes_watcher_misses_nothing() {
    let (cloud, disk) = (Cloud::default(), tempfile::tempdir().unwrap());
    for (name, unit) in [("a-0", "a"), ("a-1", "a"), ("b-0", "b")] {
        cloud.put(ServedKind::Nodes, &node(name, &[("unit", unit)]));
    }
    cloud.put(ServedKind::Services, &service("web", Some("[\"unit\"]")));
    let mut running = Running::start("a-0", cloud.client(), Some(disk.path()));
    let current = Arc::new(Mutex::new(running.client()));
    let mut stores = Vec::new();
    let mut tasks = tokio::task::JoinSet::new();
    let configs = [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ];
    for config in configs {
        let (store, writer) = reflector::store::<EndpointSlice>();
        let events = watcher(Api::all(through(&current)), config).default_backoff();
        tasks.spawn(events.reflect(writer).for_each(|_| async {}));
        stores.push(store);
    }
    for round in 0..40 {
        churn(&cloud, round).await;
        match round % 4 {
            0 => cloud.compact(),
            1 => {
                running.crash().await;
                running = Running::start("a-0", cloud.client(), Some(disk.path()));
                *current.lock().unwrap() = running.client();
            }
            2 => {
                cloud.cut(true);
                tokio::time::sleep(std::time::Duration::from_secs(3)).await;
                cloud.cut(false);
            }
            _ => {}
        }
        for store in &stores {
            holds_the_rule(store, &cloud).await;
        }
    }
}
