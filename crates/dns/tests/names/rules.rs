//! Who has a short name, and which.

use crate::agent::{Agent, found};
use crate::site::{
    annotate_service, both, delete, pod, put, relabel, service, set, slice, superedge_set,
    two_sites,
};
use edgegrid_testkit::eventually;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;

const BEIJING: [(&str, &str); 2] = [("db-0", "10.0.1.10"), ("db-1", "10.0.1.11")];
const GUANGZHOU: [(&str, &str); 2] = [("db-0", "10.0.2.10"), ("db-1", "10.0.2.11")];

#[tokio::test(start_paused = true)]
async fn a_short_name_is_the_pod_of_the_own_site_and_full_names_keep_working() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    for (node, wanted, full) in [
        ("bj-2", BEIJING, "db-beijing-0"),
        ("gz-1", GUANGZHOU, "db-guangzhou-0"),
    ] {
        let agent = Agent::start(&cluster, node, &folder.path().join(node)).unwrap();
        agent.short_names_are("db-svc", &wanted).await.unwrap();
        let view = agent.in_view("db-svc").await.unwrap();
        assert_eq!(view["db-0"], view[full]);
        assert_eq!(view.len(), 4, "{view:?}");
        assert_eq!(view, agent.in_records("db-svc"));
        agent.stop().await;
    }
}

// SuperEdge keeps names of dead pods, and of those whose set is gone.
#[tokio::test(start_paused = true)]
async fn a_name_follows_its_pod_and_goes_with_it_at_once() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    let agent = Agent::start(&cluster, "bj-1", folder.path()).unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    let mut pods = both();
    pods[0].ready = false;
    put::<EndpointSlice>(&cluster, slice("db-svc-x", "db-svc", &pods))
        .await
        .unwrap();
    agent
        .short_names_are("db-svc", &BEIJING[1..])
        .await
        .unwrap();
    (pods[0].ready, pods[0].terminating) = (true, true);
    put::<EndpointSlice>(&cluster, slice("db-svc-x", "db-svc", &pods))
        .await
        .unwrap();
    agent
        .short_names_are("db-svc", &BEIJING[1..])
        .await
        .unwrap();
    pods[0] = pod("db-beijing-0", "10.0.1.99", "bj-2");
    put::<EndpointSlice>(&cluster, slice("db-svc-x", "db-svc", &pods))
        .await
        .unwrap();
    let moved = [("db-0", "10.0.1.99"), BEIJING[1]];
    agent.short_names_are("db-svc", &moved).await.unwrap();
    delete::<StatefulSet>(&cluster, "db-beijing").await.unwrap();
    agent.short_names_are("db-svc", &[]).await.unwrap();
    put::<StatefulSet>(&cluster, set("db", "beijing"))
        .await
        .unwrap();
    agent.short_names_are("db-svc", &moved).await.unwrap();
    delete::<Service>(&cluster, "db-svc").await.unwrap();
    agent.short_names_are("db-svc", &[]).await.unwrap();
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_opened_service_shows_all_sites_and_short_names_stay_local() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    annotate_service(
        &cluster,
        "db-svc",
        &json!({ "edgegrid.io/headless": "open" }),
    )
    .await
    .unwrap();
    let agent = Agent::start(&cluster, "gz-1", folder.path()).unwrap();
    agent.short_names_are("db-svc", &GUANGZHOU).await.unwrap();
    let view = agent.in_view("db-svc").await.unwrap();
    assert!(view.contains_key("db-beijing-0") && view.contains_key("db-guangzhou-0"));
    // A pod whose node has left the site is no local one any more, whatever its set has.
    relabel(&cluster, "gz-1", "shanghai").await.unwrap();
    agent.short_names_are("db-svc", &[]).await.unwrap();
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_without_keys_has_no_short_names() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    put::<Service>(&cluster, service("plain", "None", &json!({})))
        .await
        .unwrap();
    put::<EndpointSlice>(&cluster, slice("plain-x", "plain", &both()))
        .await
        .unwrap();
    let keys = json!({ "topologyKeys": "[\"rack\"]" });
    put::<Service>(&cluster, service("racks", "None", &keys))
        .await
        .unwrap();
    put::<EndpointSlice>(&cluster, slice("racks-x", "racks", &both()))
        .await
        .unwrap();
    let agent = Agent::start(&cluster, "bj-1", folder.path()).unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    agent.short_names_are("plain", &[]).await.unwrap();
    agent.short_names_are("racks", &[]).await.unwrap();
    assert_eq!(agent.in_view("plain").await.unwrap().len(), 4);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_called_like_a_short_name_keeps_it_and_that_is_reported() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    let real = slice("db-svc-y", "db-svc", &[pod("db-0", "10.0.1.50", "bj-1")]);
    let later = real.clone();
    put::<EndpointSlice>(&cluster, real).await.unwrap();
    let agent = Agent::start(&cluster, "bj-1", folder.path()).unwrap();
    eventually("the real one is there and the other left out", async || {
        let view = agent.in_view("db-svc").await?;
        anyhow::ensure!(
            view.get("db-0") == Some(&["10.0.1.50".to_owned()].into()),
            "{view:?}"
        );
        anyhow::ensure!(view.contains_key("db-1"), "{view:?}");
        let file = agent.in_hosts_file("db-svc");
        anyhow::ensure!(file == found(&BEIJING[1..]), "{file:?}");
        Ok(())
    })
    .await
    .unwrap();
    let said = agent
        .get("/debug/view?service=default/db-svc")
        .await
        .unwrap();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        said["shortNames"],
        json!({ "shown": ["db-1"], "leftOut": ["db-0"] })
    );
    let metrics = agent.get("/metrics").await.unwrap();
    for line in [
        "edgegrid_wrapper_aliases 1",
        "edgegrid_wrapper_aliases_left_out 1",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{metrics}");
    }
    delete::<EndpointSlice>(&cluster, "db-svc-y").await.unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    put::<EndpointSlice>(&cluster, later).await.unwrap();
    eventually("a pod that comes later has its name too", async || {
        let file = agent.in_hosts_file("db-svc");
        anyhow::ensure!(file == found(&BEIJING[1..]), "{file:?}");
        Ok(())
    })
    .await
    .unwrap();
    agent.stop().await;
}

// A set that has no owner ends SuperEdge's daemon.
#[tokio::test(start_paused = true)]
async fn sets_of_superedge_count_by_labels_and_node_selector_until_they_are_taken_over() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    for unit in ["beijing", "guangzhou"] {
        delete::<StatefulSet>(&cluster, &format!("db-{unit}"))
            .await
            .unwrap();
        put::<StatefulSet>(&cluster, superedge_set("db", unit))
            .await
            .unwrap();
    }
    let agent = Agent::start(&cluster, "bj-1", folder.path()).unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    put::<StatefulSet>(&cluster, set("db", "beijing"))
        .await
        .unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    agent.stop().await;
}

// SuperEdge answers one address per name, and none of IPv6.
#[tokio::test(start_paused = true)]
async fn both_address_families_have_names() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    let six = [
        pod("db-beijing-0", "fd00::1:10", "bj-1"),
        pod("db-guangzhou-0", "fd00::2:10", "gz-1"),
    ];
    put::<EndpointSlice>(&cluster, slice("db-svc-six", "db-svc", &six))
        .await
        .unwrap();
    let agent = Agent::start(&cluster, "bj-1", folder.path()).unwrap();
    let wanted = [BEIJING[0], BEIJING[1], ("db-0", "fd00::1:10")];
    agent.short_names_are("db-svc", &wanted).await.unwrap();
    agent.stop().await;
}

// SuperEdge reads all pods of the cluster on every node.
#[tokio::test(start_paused = true)]
async fn nothing_is_asked_for_but_the_wrappers_kinds_and_sets_of_the_own_unit() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    let agent = Agent::start(&cluster, "bj-1", folder.path()).unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    let asked = agent.asked.take();
    assert!(!asked.iter().any(|one| one.contains("/pods")), "{asked:#?}");
    let sets: Vec<_> = asked
        .iter()
        .filter(|one| one.contains("/statefulsets"))
        .collect();
    let selected = |one: &&&String| {
        one.contains("edgegrid.io%2Funit%3Dbeijing") || one.contains("%21edgegrid.io%2Funit")
    };
    assert_eq!(
        sets.iter().filter(selected).count(),
        sets.len(),
        "{sets:#?}"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kube_proxy_never_lists_a_short_name() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    let keys = json!({ "topologyKeys": "[\"location\"]" });
    put::<Service>(&cluster, service("db-ip", "10.96.0.10", &keys))
        .await
        .unwrap();
    let mut real = slice("db-ip-x", "db-ip", &both());
    real["metadata"]["labels"] = json!({ "kubernetes.io/service-name": "db-ip" });
    put::<EndpointSlice>(&cluster, real).await.unwrap();
    let agent = Agent::start(&cluster, "bj-1", folder.path()).unwrap();
    agent.short_names_are("db-ip", &BEIJING).await.unwrap();
    let path = "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name";
    let listed = agent.get(path).await.unwrap();
    assert!(
        listed.contains("db-ip-x") && !listed.contains("aliases"),
        "{listed}"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_site_is_not_even_looked_at() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    let agent = Agent::start(&cluster, "bj-1", folder.path()).unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    let before = agent.names.subscribe().borrow().changes;
    let mut pods = both();
    pods[2].address = "10.0.2.99".to_owned();
    put::<EndpointSlice>(&cluster, slice("db-svc-x", "db-svc", &pods))
        .await
        .unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    pods[0].address = "10.0.1.99".to_owned();
    put::<EndpointSlice>(&cluster, slice("db-svc-x", "db-svc", &pods))
        .await
        .unwrap();
    let moved = [("db-0", "10.0.1.99"), BEIJING[1]];
    agent.short_names_are("db-svc", &moved).await.unwrap();
    let after = agent.names.subscribe().borrow().changes;
    assert_eq!(after - before, 1);
    agent.stop().await;
}
