//! Another history: a cluster restored from backup, another cluster, and what only looks like one.

use crate::cloud::{Backup, Cloud, node, service, slice};
use crate::cut_off::{age, on_disk, shows_the_rule, site};
use crate::{Running, eventually};
use edgegrid_wrapper::ServedKind;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const TWO_MINUTES: Duration = Duration::from_mins(2);
const NODE: &str = "a-0";

/// A site whose cloud has gone on since a backup was made.
fn site_with_backup() -> (Cloud, Backup) {
    let cloud = site(Cloud::default());
    let backup = cloud.backup();
    write(&cloud, 50);
    (cloud, backup)
}

/// Goes on with the cloud's life.
fn write(cloud: &Cloud, times: usize) {
    for n in 0..times {
        let metadata = json!({ "name": "default", "annotations": { "n": n.to_string() } });
        cloud.put(ServedKind::Namespaces, &json!({ "metadata": metadata }));
    }
}

/// What the restored cloud has instead of what there was.
fn move_pods(cloud: &Cloud) {
    cloud.put(ServedKind::Slices, &slice("web-x", "web", &["a-1", "b-0"]));
    cloud.delete(ServedKind::Slices, Some("default"), "plain-x");
}

async fn online(cloud: &Cloud) -> Running {
    let running = Running::start(NODE, cloud.client(), None);
    shows_the_rule(&running, cloud, "online").await;
    sleep(Duration::from_secs(30)).await;
    running
}

/// Waits until the view is that of the cloud, and says that it is.
async fn catches_up(running: &Running, cloud: &Cloud) {
    let both = async {
        shows_the_rule(running, cloud, "of the new history").await;
        is_young(running).await;
    };
    let within = timeout(TWO_MINUTES, both).await;
    within.expect("the new history is shown within two minutes");
}

async fn is_young(running: &Running) {
    eventually("the view has no age", async || match age(running).await {
        None => Ok(()),
        Some(age) => Err(format!("{age} s")),
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_running_view_follows_a_cluster_that_was_restored_from_backup() {
    let (cloud, backup) = site_with_backup();
    let running = online(&cloud).await;
    cloud.restore(&backup);
    move_pods(&cloud);
    catches_up(&running, &cloud).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_view_from_disk_follows_a_cluster_that_was_restored_from_backup() {
    let (cloud, backup) = site_with_backup();
    let disk = tempfile::tempdir().unwrap();
    let running = Running::start(NODE, cloud.client(), Some(disk.path()));
    shows_the_rule(&running, &cloud, "online").await;
    on_disk(disk.path()).await;
    running.stop().await;
    cloud.restore(&backup);
    move_pods(&cloud);
    let running = Running::start(NODE, cloud.client(), Some(disk.path()));
    catches_up(&running, &cloud).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn restored_and_written_past_ours_while_it_was_cut_off_for_long() {
    for from_disk in [false, true] {
        let (cloud, backup) = site_with_backup();
        let disk = tempfile::tempdir().unwrap();
        let mut running = Running::start(NODE, cloud.client(), Some(disk.path()));
        shows_the_rule(&running, &cloud, "online").await;
        sleep(Duration::from_secs(30)).await;
        cloud.cut(true);
        cloud.restore(&backup);
        move_pods(&cloud);
        write(&cloud, 500);
        sleep(Duration::from_mins(11)).await;
        if from_disk {
            running.crash().await;
            running = Running::start(NODE, cloud.client(), Some(disk.path()));
        }
        cloud.cut(false);
        catches_up(&running, &cloud).await;
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_short_outage_nothing_is_listed_and_one_look_is_enough() {
    let cloud = site(Cloud::default());
    let running = online(&cloud).await;
    cloud.requests.lock().unwrap().clear();
    cloud.cut(true);
    sleep(Duration::from_mins(5)).await;
    cloud.requests.lock().unwrap().clear();
    write(&cloud, 5);
    cloud.cut(false);
    sleep(TWO_MINUTES).await;
    shows_the_rule(&running, &cloud, "online again").await;
    is_young(&running).await;
    assert_eq!(cloud.lists(), 0);
    let looks = cloud.requests.lock().unwrap().clone();
    let looks = looks.iter().filter(|uri| uri.contains("kube-system"));
    let count = looks.count();
    assert!((1..=4).contains(&count), "{count} looks");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn until_a_look_was_answered_the_view_is_as_old_as_the_outage() {
    let cloud = site(Cloud::default());
    let running = online(&cloud).await;
    cloud.cut(true);
    sleep(Duration::from_secs(100)).await;
    cloud.requests.lock().unwrap().clear();
    let kube_system = cloud.get(ServedKind::Namespaces, None, "kube-system");
    cloud.delete(ServedKind::Namespaces, None, "kube-system");
    cloud.cut(false);
    // By then all watches are open again.
    sleep(Duration::from_secs(20)).await;
    let seen = age(&running).await;
    assert!(seen.is_some_and(|age| age >= 120), "{seen:?}");
    cloud.put(ServedKind::Namespaces, &kube_system.unwrap());
    catches_up(&running, &cloud).await;
    assert_eq!(cloud.lists(), 0);
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_on_time_call_for_no_look() {
    let cloud = site(Cloud::default());
    let running = online(&cloud).await;
    cloud.requests.lock().unwrap().clear();
    sleep(Duration::from_hours(2)).await;
    let requests = cloud.requests.lock().unwrap().clone();
    assert!(requests.len() > 20, "watches were renewed");
    // Discovery is asked for now and then, whatever becomes of watches.
    let discovery = ["/version", "/api", "/apis"];
    let mut others = requests
        .iter()
        .filter(|uri| !discovery.contains(&uri.as_str()));
    let only_watches = others.all(|uri| uri.contains("watch=true"));
    assert!(only_watches, "{requests:#?}");
    assert_eq!(age(&running).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_running_view_forgets_everything_of_another_cluster() {
    let (cloud, other) = (site(Cloud::default()), another_cluster());
    write(&cloud, 50);
    let running = online(&cloud).await;
    cloud.restore(&other);
    catches_up(&running, &cloud).await;
    shows_only_the_other(&running).await;
}

#[tokio::test(start_paused = true)]
async fn a_view_from_disk_is_forgotten_in_another_cluster() {
    let (cloud, other) = (site(Cloud::default()), another_cluster());
    write(&cloud, 50);
    let disk = tempfile::tempdir().unwrap();
    let running = Running::start(NODE, cloud.client(), Some(disk.path()));
    shows_the_rule(&running, &cloud, "online").await;
    sleep(Duration::from_secs(30)).await;
    running.stop().await;
    cloud.restore(&other);
    let running = Running::start(NODE, cloud.client(), Some(disk.path()));
    catches_up(&running, &cloud).await;
    shows_only_the_other(&running).await;
}

/// A cluster that has the same node under the same name, and a lower revision.
fn another_cluster() -> Backup {
    let other = Cloud::default();
    let metadata = json!({ "name": "kube-system", "uid": "another-cluster" });
    other.put(ServedKind::Namespaces, &json!({ "metadata": metadata }));
    other.put(ServedKind::Nodes, &node(NODE, &[("unit", "a")]));
    other.put(ServedKind::Services, &service("other", None));
    other.put(ServedKind::Slices, &slice("other-x", "other", &[NODE]));
    other.backup()
}

async fn shows_only_the_other(running: &Running) {
    let request = Request::get("/api/v1/services").body(Body::empty());
    let response = running.client().send(request.unwrap()).await.unwrap();
    let body = response.into_body().collect().await.unwrap();
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    assert!(
        text.contains("\"other\"") && !text.contains("\"web\""),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lags_behind_another_is_no_other_history() {
    let cloud = site(Cloud::default());
    let running = online(&cloud).await;
    cloud.requests.lock().unwrap().clear();
    cloud.answer_looks_late(1);
    cloud.cut(true);
    sleep(Duration::from_secs(20)).await;
    cloud.requests.lock().unwrap().clear();
    cloud.cut(false);
    sleep(TWO_MINUTES).await;
    assert_eq!(cloud.lists(), 0);
    is_young(&running).await;
}

#[tokio::test(start_paused = true)]
async fn a_lite_apiserver_that_is_cut_off_takes_nothing_away() {
    let cloud = site(Cloud::default()).behind_lite_apiserver();
    let running = online(&cloud).await;
    cloud.put(ServedKind::Slices, &slice("web-y", "web", &["a-1", "b-0"]));
    shows_the_rule(&running, &cloud, "changed").await;
    cloud.requests.lock().unwrap().clear();
    // Back for so short a time that the look finds it cut off again, with an answer of before.
    for _ in 0..3 {
        cloud.cut(true);
        sleep(Duration::from_mins(15)).await;
        cloud.cut(false);
        sleep(Duration::from_millis(1_900)).await;
    }
    cloud.cut(true);
    sleep(Duration::from_mins(15)).await;
    shows_the_rule(&running, &cloud, "cut off").await;
    assert_eq!(cloud.lists(), 0);
    assert!(age(&running).await.is_some_and(|age| age >= 600));
}

#[tokio::test(start_paused = true)]
async fn refusals_and_errors_of_the_server_take_nothing_away() {
    let cloud = site(Cloud::default());
    let running = online(&cloud).await;
    for code in [401, 403, 500, 503, 429] {
        cloud.refuse(StatusCode::from_u16(code).ok());
        cloud.restore(&cloud.backup());
        sleep(Duration::from_mins(12)).await;
        shows_the_rule(&running, &cloud, "refused").await;
        assert!(age(&running).await.is_some_and(|age| age >= 600), "{code}");
        cloud.refuse(None);
        catches_up(&running, &cloud).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_is_an_outage_and_its_watches_are_renewed() {
    let cloud = site(Cloud::default());
    let running = online(&cloud).await;
    cloud.silence();
    sleep(Duration::from_secs(100)).await;
    assert_eq!(age(&running).await, None, "bookmarks come every minute");
    sleep(Duration::from_secs(70)).await;
    let seen = age(&running).await;
    assert!(
        seen.is_some_and(|age| age >= 150),
        "since the last byte: {seen:?}"
    );
    move_pods(&cloud);
    cloud.cut(false);
    catches_up(&running, &cloud).await;
}

#[tokio::test(start_paused = true)]
async fn many_agents_that_come_back_at_once_list_only_after_a_long_outage_and_apart() {
    const AGENTS: usize = 50;
    let cloud = site(Cloud::default());
    let running: Vec<Running> = (0..AGENTS)
        .map(|_| Running::start(NODE, cloud.client(), None))
        .collect();
    for one in &running {
        shows_the_rule(one, &cloud, "online").await;
    }
    sleep(Duration::from_secs(30)).await;
    for (outage, lists_of_each) in [(Duration::from_mins(5), 0), (Duration::from_mins(15), 8)] {
        cloud.cut(true);
        sleep(outage).await;
        cloud.requests.lock().unwrap().clear();
        cloud.times.lock().unwrap().clear();
        cloud.cut(false);
        sleep(TWO_MINUTES).await;
        assert!(cloud.lists() <= AGENTS * lists_of_each, "{}", cloud.lists());
        let busiest = busiest_second(&cloud);
        assert!(busiest <= AGENTS * 8 / 4, "{busiest} lists in one second");
        for one in &running {
            is_young(one).await;
        }
    }
}

/// How many lists the cloud was asked for in its busiest second.
fn busiest_second(cloud: &Cloud) -> usize {
    let (requests, times) = (cloud.requests.lock().unwrap(), cloud.times.lock().unwrap());
    let is_list = |uri: &String| !uri.contains("watch=true") && !uri.contains("kube-system");
    let lists = requests.iter().zip(times.iter());
    let lists: Vec<Instant> = lists
        .filter(|(uri, _)| is_list(uri))
        .map(|(_, at)| *at)
        .collect();
    let within = |start: &Instant| {
        let end = *start + Duration::from_secs(1);
        lists.iter().filter(|at| (*start..end).contains(at)).count()
    };
    lists.iter().map(within).max().unwrap_or(0)
}
