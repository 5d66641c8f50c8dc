//! Gone is not moved: what happens to a view when Node objects are deleted, come back, or lose their labels.

use crate::Running;
use crate::asking::{SLICES, get, nodes, ready, sees, two_units};
use crate::cloud::{Cloud, Odd, node};
use crate::cut_off::on_disk;
use crate::mirror::{Mirror, Style};
use edgegrid_wrapper::{Config, ServedKind};
use http::StatusCode;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use tokio::time::sleep;

const OWN: &str = "/api/v1/nodes/a-0";
const BOTH: [&str; 2] = ["a-0", "a-1"];
/// Within the five minutes of the default, and beyond them.
const WITHIN: Duration = Duration::from_secs(4 * 60 + 50);
const REST: Duration = Duration::from_secs(15);
const AT_ONCE: Duration = Duration::from_millis(500);

/// Has the cloud know a Node under a uid.
fn put(cloud: &Cloud, name: &str, uid: &str, labels: &[(&str, &str)]) {
    let mut node = node(name, labels);
    node["metadata"]["uid"] = uid.into();
    cloud.put(ServedKind::Nodes, &node);
}

fn delete(cloud: &Cloud, name: &str) {
    cloud.delete(ServedKind::Nodes, None, name);
}

/// A site of a-0 and a-1 beside b-0, and a view of a-0 that has seen all of it.
async fn site(state: Option<&Path>) -> (Cloud, Running, kube::Client) {
    let cloud = two_units();
    for (name, unit) in [("a-0", "a"), ("a-1", "a"), ("b-0", "b")] {
        put(&cloud, name, &format!("{name}-1"), &[("unit", unit)]);
    }
    let running = Running::start("a-0", cloud.client(), state);
    let client = ready(&running).await;
    sees(&client, SLICES, &BOTH).await;
    sleep(Duration::from_secs(3)).await;
    (cloud, running, client)
}

async fn shown(client: &kube::Client) -> Vec<String> {
    nodes(&get(client, SLICES).await.1)
}

/// A client of a kind that has seen what there is, and nothing since.
async fn watching(client: &kube::Client, path: &str, selector: &'static str) -> Mirror {
    let mut mirror = Mirror::new(client.clone(), path, Style::Paged, selector);
    mirror.pump(&mut |_| {}).await;
    mirror
}

#[tokio::test(start_paused = true)]
async fn an_own_node_that_is_deleted_and_comes_back_unlabelled_changes_nothing_within_the_grace() {
    let (cloud, _running, client) = site(None).await;
    let mut slices = watching(&client, SLICES, "").await;
    delete(&cloud, "a-0");
    sleep(Duration::from_mins(1)).await;
    put(&cloud, "a-0", "a-0-2", &[("kubernetes.io/hostname", "a-0")]);
    sleep(WITHIN.saturating_sub(Duration::from_mins(1))).await;
    slices.pump(&mut |_| {}).await;
    assert_eq!((slices.events, slices.relists), (0, 1));
    assert_eq!(shown(&client).await, BOTH);
    let (_, own) = get(&client, OWN).await;
    assert_eq!(own["metadata"]["uid"], "a-0-2", "the Node as it is now");
    sleep(REST).await;
    assert!(shown(&client).await.is_empty(), "the grace is over");
    assert_eq!(get(&client, OWN).await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn an_own_node_that_is_gone_is_served_until_the_grace_is_over() {
    let (cloud, _running, client) = site(None).await;
    let path = ServedKind::Nodes.path();
    let mut own = watching(&client, &path, "fieldSelector=metadata.name%3Da-0").await;
    delete(&cloud, "a-0");
    sleep(WITHIN).await;
    own.pump(&mut |_| {}).await;
    assert_eq!((own.objects.len(), own.events), (1, 0));
    let (code, node) = get(&client, OWN).await;
    assert_eq!(
        (code, &node["metadata"]["labels"]["unit"]),
        (StatusCode::OK, &"a".into())
    );
    let (_, list) = get(
        &client,
        &format!("{path}?fieldSelector=metadata.name%3Da-0"),
    )
    .await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(shown(&client).await, BOTH);
    sleep(REST).await;
    // Its watch may have come to its own end just before.
    own.pump(&mut |_| {}).await;
    own.pump(&mut |_| {}).await;
    assert!(own.objects.is_empty(), "clients see it deleted");
    assert_eq!(get(&client, OWN).await.0, StatusCode::NOT_FOUND);
    assert!(shown(&client).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_label_taken_off_a_living_own_node_counts_at_once() {
    let (cloud, _running, client) = site(None).await;
    put(&cloud, "a-0", "a-0-1", &[]);
    sleep(AT_ONCE).await;
    assert!(shown(&client).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_own_node_that_comes_back_with_the_key_stands_where_it_says() {
    for value in ["a", "b"] {
        let (cloud, _running, client) = site(None).await;
        delete(&cloud, "a-0");
        sleep(Duration::from_mins(1)).await;
        put(&cloud, "a-0", "a-0-2", &[("unit", value)]);
        sleep(AT_ONCE).await;
        let wanted: [&str; 2] = if value == "a" { BOTH } else { ["a-0", "b-0"] };
        sees(&client, SLICES, &wanted).await;
        sleep(WITHIN).await;
        assert_eq!(shown(&client).await, wanted);
        // From then on it is a living one again.
        put(&cloud, "a-0", "a-0-2", &[]);
        sleep(AT_ONCE).await;
        assert!(shown(&client).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn coming_back_unlabelled_again_and_again_does_not_make_the_grace_longer() {
    let (cloud, _running, client) = site(None).await;
    for time in 0..29 {
        delete(&cloud, "a-0");
        sleep(Duration::from_secs(5)).await;
        put(&cloud, "a-0", &format!("again-{time}"), &[]);
        sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(shown(&client).await, BOTH);
    sleep(REST).await;
    assert!(shown(&client).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_deleted_stays_for_the_grace_and_no_longer() {
    let (cloud, _running, client) = site(None).await;
    let mut slices = watching(&client, SLICES, "").await;
    delete(&cloud, "a-1");
    sleep(WITHIN).await;
    slices.pump(&mut |_| {}).await;
    assert_eq!(slices.events, 0);
    sleep(REST).await;
    assert_eq!(shown(&client).await, ["a-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_relabelled_or_unlabelled_is_out_at_once() {
    for labels in [&[("unit", "b")][..], &[]] {
        let (cloud, _running, client) = site(None).await;
        put(&cloud, "a-1", "a-1-1", labels);
        sleep(AT_ONCE).await;
        assert_eq!(shown(&client).await, ["a-0"], "{labels:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_of_which_nobody_says_whether_it_is_there_is_out_after_five_seconds() {
    for how in [Odd::Never, Odd::LongAgo] {
        let (cloud, _running, client) = site(None).await;
        cloud.answer_oddly("metadata.name%3Da-1", how);
        delete(&cloud, "a-1");
        sleep(Duration::from_millis(4_500)).await;
        assert_eq!(shown(&client).await, BOTH, "{how:?}");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(shown(&client).await, ["a-0"], "{how:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_comes_back_is_a_peer_again_only_with_the_value() {
    let minute = Duration::from_mins(1);
    for (labels, at_once, later) in [
        (&[("unit", "a")][..], &BOTH[..], &BOTH[..]),
        (&[("unit", "b")], &["a-0"], &["a-0"]),
        (&[], &BOTH, &["a-0"]),
    ] {
        let (cloud, _running, client) = site(None).await;
        delete(&cloud, "a-1");
        sleep(minute).await;
        put(&cloud, "a-1", "a-1-2", labels);
        sleep(AT_ONCE).await;
        assert_eq!(shown(&client).await, at_once, "{labels:?}");
        sleep(WITHIN.saturating_sub(minute)).await;
        assert_eq!(shown(&client).await, at_once, "{labels:?}");
        sleep(REST).await;
        assert_eq!(shown(&client).await, later, "{labels:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_deleted_and_back_unlabelled_in_one_breath_is_one_that_came_back() {
    let (cloud, _running, client) = site(None).await;
    delete(&cloud, "a-1");
    put(&cloud, "a-1", "a-1-2", &[]);
    sleep(WITHIN).await;
    assert_eq!(shown(&client).await, BOTH);
    sleep(REST).await;
    assert_eq!(shown(&client).await, ["a-0"]);
}

#[tokio::test(start_paused = true)]
async fn peers_that_a_new_list_does_not_show_are_asked_about_too() {
    let (cloud, _running, client) = site(None).await;
    put(&cloud, "a-2", "a-2-1", &[("unit", "a")]);
    cloud.put(
        ServedKind::Slices,
        &crate::cloud::slice("web-y", "web", &["a-2"]),
    );
    sees(&client, SLICES, &["a-0", "a-1", "a-2"]).await;
    cloud.cut(true);
    delete(&cloud, "a-1");
    put(&cloud, "a-2", "a-2-1", &[("unit", "b")]);
    cloud.compact();
    cloud.cut(false);
    sees(&client, SLICES, &BOTH).await;
    sleep(Duration::from_mins(4)).await;
    assert_eq!(shown(&client).await, BOTH);
    sleep(Duration::from_mins(2)).await;
    assert_eq!(shown(&client).await, ["a-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_whole_site_whose_nodes_vanish_goes_on_for_the_grace() {
    let (cloud, _running, client) = site(None).await;
    for name in BOTH {
        delete(&cloud, name);
    }
    sleep(Duration::from_secs(2)).await;
    for name in BOTH {
        put(&cloud, name, &format!("{name}-2"), &[]);
    }
    sleep(Duration::from_mins(4)).await;
    assert_eq!(shown(&client).await, BOTH);
    for name in BOTH {
        put(&cloud, name, &format!("{name}-2"), &[("unit", "a")]);
    }
    sleep(Duration::from_mins(4)).await;
    assert_eq!(shown(&client).await, BOTH, "labelled again in time");
}

#[tokio::test(start_paused = true)]
async fn a_restart_while_cut_off_does_not_make_the_grace_longer() {
    let disk = tempfile::tempdir().unwrap();
    let (cloud, mut running, _) = site(Some(disk.path())).await;
    on_disk(disk.path()).await;
    for name in BOTH {
        delete(&cloud, name);
    }
    sleep(Duration::from_secs(30)).await;
    put(&cloud, "a-0", "a-0-2", &[]);
    sleep(Duration::from_secs(30)).await;
    cloud.cut(true);
    for _ in 0..3 {
        running.crash().await;
        running = Running::start("a-0", cloud.client(), Some(disk.path()));
        sleep(Duration::from_mins(1)).await;
        assert_eq!(shown(&ready(&running).await).await, BOTH);
    }
    sleep(Duration::from_secs(75)).await;
    let client = ready(&running).await;
    assert!(
        shown(&client).await.is_empty(),
        "it counts from when it was gone"
    );
    assert_eq!(get(&client, OWN).await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn that_a_node_is_gone_is_on_disk_though_nobody_sees_a_change() {
    let disk = tempfile::tempdir().unwrap();
    let (cloud, running, _) = site(Some(disk.path())).await;
    on_disk(disk.path()).await;
    // What there was to write is written.
    sleep(Duration::from_mins(1)).await;
    for name in BOTH {
        delete(&cloud, name);
    }
    sleep(Duration::from_secs(10)).await;
    cloud.cut(true);
    running.crash().await;
    let running = Running::start("a-0", cloud.client(), Some(disk.path()));
    let client = ready(&running).await;
    sleep(Duration::from_mins(4)).await;
    assert_eq!(shown(&client).await, BOTH);
    assert_eq!(get(&client, OWN).await.0, StatusCode::OK);
    sleep(Duration::from_mins(1)).await;
    assert!(shown(&client).await.is_empty());
    assert_eq!(get(&client, OWN).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_vanished_while_the_agent_was_down_has_the_whole_grace() {
    let disk = tempfile::tempdir().unwrap();
    let (cloud, running, _) = site(Some(disk.path())).await;
    on_disk(disk.path()).await;
    running.stop().await;
    for name in BOTH {
        delete(&cloud, name);
    }
    sleep(Duration::from_mins(2)).await;
    let running = Running::start("a-0", cloud.client(), Some(disk.path()));
    let client = ready(&running).await;
    sleep(Duration::from_mins(4)).await;
    assert_eq!(shown(&client).await, BOTH);
    assert_eq!(get(&client, OWN).await.0, StatusCode::OK);
    sleep(Duration::from_mins(2)).await;
    assert!(shown(&client).await.is_empty());
    assert_eq!(get(&client, OWN).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn an_own_node_that_no_snapshot_and_no_server_knows_is_shown_nothing() {
    let cloud = two_units();
    delete(&cloud, "a-0");
    let running = Running::start("a-0", cloud.client(), None);
    let client = ready(&running).await;
    assert!(shown(&client).await.is_empty());
    assert_eq!(get(&client, OWN).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn without_a_grace_what_is_gone_loses_its_place_at_once() {
    let cloud = two_units();
    let config = Config {
        node_grace: Duration::ZERO,
        ..Config::new("a-0")
    };
    let running = Running::with(&config, cloud.client());
    let client = ready(&running).await;
    delete(&cloud, "a-1");
    sleep(AT_ONCE).await;
    assert_eq!(shown(&client).await, ["a-0"]);
    delete(&cloud, "a-0");
    sleep(AT_ONCE).await;
    assert!(shown(&client).await.is_empty());
    assert_eq!(get(&client, OWN).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn what_counts_though_it_is_gone_is_told() {
    let (cloud, _running, client) = site(None).await;
    let told = async || {
        let (_, text) = get(&client, "/metrics").await;
        let text = text.as_str().unwrap().to_owned();
        let gauge = "edgegrid_wrapper_nodes_in_grace ";
        let count = text.lines().find_map(|line| line.strip_prefix(gauge));
        let (_, view) = get(&client, "/debug/view").await;
        (count.unwrap().to_owned(), view["nodeGrace"].clone())
    };
    assert_eq!(told().await, ("0".to_owned(), json!([])));
    delete(&cloud, "a-0");
    delete(&cloud, "a-1");
    sleep(Duration::from_secs(10)).await;
    let (count, lines) = told().await;
    assert_eq!(count, "2");
    for (line, text) in [
        (0, "own Node a-0 is gone"),
        (1, "Node a-1 of unit=a is gone"),
    ] {
        assert!(lines[line].as_str().unwrap().contains(text), "{lines}");
    }
    let events = |cloud: &Cloud| {
        let requests = cloud.requests.lock().unwrap();
        let events = requests.iter().filter(|uri| uri.ends_with("/events"));
        events.count()
    };
    assert_eq!(events(&cloud), 1, "one Event for the own Node");
    put(&cloud, "a-0", "a-0-2", &[]);
    sleep(AT_ONCE).await;
    let (_, lines) = told().await;
    assert!(
        lines[0]
            .as_str()
            .unwrap()
            .contains("came back without unit: a counts"),
        "{lines}"
    );
    sleep(Duration::from_mins(6)).await;
    assert_eq!(told().await, ("0".to_owned(), json!([])));
    assert_eq!(events(&cloud), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_missing_in_the_old_site_says_nothing_in_the_new_one() {
    let (cloud, _running, client) = site(None).await;
    delete(&cloud, "a-1");
    sleep(Duration::from_mins(1)).await;
    put(&cloud, "a-0", "a-0-1", &[("unit", "b")]);
    sees(&client, SLICES, &["a-0", "b-0"]).await;
    let (_, view) = get(&client, "/debug/view").await;
    assert_eq!(view["nodeGrace"], json!([]));
    put(&cloud, "a-1", "a-1-2", &[("unit", "b")]);
    let all = ["a-0", "a-1", "b-0"];
    sees(&client, SLICES, &all).await;
    sleep(Duration::from_mins(6)).await;
    assert_eq!(shown(&client).await, all);
    assert_eq!(get(&client, "/debug/view").await.1["nodeGrace"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn behind_a_lite_apiserver_gone_and_moved_are_told_apart_too() {
    let cloud = two_units().behind_lite_apiserver();
    let running = Running::start("a-0", cloud.client(), None);
    let client = ready(&running).await;
    sees(&client, SLICES, &BOTH).await;
    sleep(Duration::from_secs(3)).await;
    let minute = Duration::from_mins(1);
    delete(&cloud, "a-1");
    sleep(minute).await;
    cloud.cut(true);
    sleep(minute).await;
    assert_eq!(
        shown(&client).await,
        BOTH,
        "its answer is kept while cut off"
    );
    put(&cloud, "a-1", "a-1-2", &[("unit", "a")]);
    cloud.cut(false);
    sleep(6 * minute).await;
    assert_eq!(shown(&client).await, BOTH, "it came back");
    put(&cloud, "a-1", "a-1-2", &[("unit", "b")]);
    sleep(AT_ONCE).await;
    assert_eq!(shown(&client).await, ["a-0"], "it has moved");
}
