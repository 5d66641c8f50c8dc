//! Random sites, grids and pods: all ways say what the rule says, told a second time in a few lines.

use crate::agent::{Agent, Found};
use crate::site::{Pod, pod, put, service, set, slice};
use edgegrid_testkit::{Cluster, eventually};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use std::collections::BTreeMap;

/// Units and grids whose names are parts of each other.
const UNITS: [&str; 3] = ["a", "a-b", "db"];
const GRIDS: [&str; 4] = ["db", "db-a", "a", "my-db"];
const OWN: &str = "a";

#[derive(Debug, Clone)]
struct Scene {
    sets: Vec<(&'static str, &'static str)>,
    pods: Vec<Pod>,
    open: bool,
    headless: bool,
}

fn scene() -> impl Strategy<Value = Scene> {
    let sets = prop::collection::vec((select(&GRIDS), select(&UNITS)), 0..6);
    let some_pod = (
        select(&GRIDS),
        select(&UNITS),
        0..12_u32,
        select(&UNITS),
        0..6_u8,
        any::<bool>(),
    );
    let pods = prop::collection::btree_map(0..30_u8, some_pod, 0..12);
    (sets, pods, any::<bool>(), any::<bool>()).prop_map(|(sets, pods, open, headless)| {
        let pods = pods
            .into_iter()
            .map(|(at, (grid, unit, ordinal, node, state, is_real))| {
                // Some pods have no unit in their name: they are called like another's short name.
                let name = if is_real {
                    format!("{grid}-{unit}-{ordinal}")
                } else {
                    format!("{grid}-{ordinal}")
                };
                let mut one = pod(&name, &format!("10.0.0.{at}"), &format!("node-{node}"));
                one.ready = state != 0;
                one.terminating = state == 1;
                one.hostname = state != 2;
                one
            });
        Scene {
            pods: pods.collect(),
            sets,
            open,
            headless,
        }
    })
}

/// The rule: a seen pod of one of the own unit's sets, on one of its nodes, is `<grid>-<ordinal>` too,
/// unless a pod that is seen is called so.
fn short_names(scene: &Scene) -> Found {
    let at_home = |pod: &&Pod| pod.node == format!("node-{OWN}");
    let seen: Vec<&Pod> = scene
        .pods
        .iter()
        .filter(|pod| scene.open && scene.headless || at_home(pod))
        .collect();
    let mut names = Found::new();
    for pod in seen
        .iter()
        .filter(|pod| at_home(pod) && pod.ready && !pod.terminating && pod.hostname)
    {
        for (grid, _) in scene.sets.iter().filter(|(_, unit)| *unit == OWN) {
            let ordinal = pod.name.strip_prefix(&format!("{grid}-{OWN}-"));
            let Some(ordinal) = ordinal.filter(|rest| rest.parse::<u32>().is_ok()) else {
                continue;
            };
            let name = format!("{grid}-{ordinal}");
            if !seen
                .iter()
                .any(|other| other.hostname && other.name == name)
            {
                names.entry(name).or_default().insert(pod.address.clone());
            }
        }
    }
    names
}

async fn stage(scene: &Scene) -> Cluster {
    let cluster = Cluster::embedded().await.unwrap();
    for unit in UNITS {
        let node = json!({ "metadata": { "name": format!("node-{unit}"), "labels": { "location": unit } } });
        put::<Node>(&cluster, node).await.unwrap();
    }
    let mut notes = json!({ "topologyKeys": "[\"location\"]" });
    if scene.open {
        notes["edgegrid.io/headless"] = "open".into();
    }
    let address = if scene.headless { "None" } else { "10.96.0.10" };
    put::<Service>(&cluster, service("db-svc", address, &notes))
        .await
        .unwrap();
    for (grid, unit) in &scene.sets {
        put::<StatefulSet>(&cluster, set(grid, unit)).await.unwrap();
    }
    for (at, pods) in scene.pods.chunks(5).enumerate() {
        let slice = slice(&format!("db-svc-{at}"), "db-svc", pods);
        put::<EndpointSlice>(&cluster, slice).await.unwrap();
    }
    cluster
}

async fn holds(scene: Scene) {
    let (cluster, folder) = (stage(&scene).await, tempfile::tempdir().unwrap());
    let agent = Agent::start(&cluster, &format!("node-{OWN}"), folder.path()).unwrap();
    let wanted = short_names(&scene);
    eventually("the hosts file is the rule", async || {
        let file = agent.in_hosts_file("db-svc");
        anyhow::ensure!(
            file == wanted && agent.hosts_file().is_some(),
            "{file:?}, not {wanted:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    let (view, records) = (
        agent.in_view("db-svc").await.unwrap(),
        agent.in_records("db-svc"),
    );
    let homes: BTreeMap<&str, &str> = scene
        .pods
        .iter()
        .map(|pod| (&*pod.address, &*pod.node))
        .collect();
    for (name, addresses) in &wanted {
        assert_eq!(view.get(name), Some(addresses), "in the view");
        assert_eq!(records.get(name), Some(addresses), "in the records");
    }
    let strict = !(scene.open && scene.headless);
    for address in view
        .values()
        .chain(records.values())
        .flatten()
        .filter(|_| strict)
    {
        assert!(
            address.contains('-') || homes[&**address] == "node-a",
            "{address} is not at home"
        );
    }
    let real = |name: &String| {
        scene
            .pods
            .iter()
            .any(|pod| pod.hostname && pod.name == *name)
    };
    let extra = view
        .keys()
        .filter(|name| !wanted.contains_key(*name) && !real(name));
    assert_eq!(extra.count(), 0, "{view:?}");
    agent.stop().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn all_ways_say_what_the_rule_says(scene in scene()) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(holds(scene));
    }
}
