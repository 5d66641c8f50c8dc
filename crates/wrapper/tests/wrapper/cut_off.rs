//! Cut off: what is served, from memory, from disk, and behind a lite-apiserver.

use crate::cloud::{Cloud, node, service, slice};
use crate::mirror::{Mirror, Style};
use crate::rule::expected_slices;
use crate::{Running, eventually};
use edgegrid_wrapper::ServedKind;
use http::Request;
use kube::client::Body;
use serde_json::json;
use std::path::Path;

pub(crate) fn site(cloud: Cloud) -> Cloud {
    for (name, unit) in [("a-0", "a"), ("a-1", "a"), ("b-0", "b")] {
        cloud.put(ServedKind::Nodes, &node(name, &[("unit", unit)]));
    }
    cloud.put(
        ServedKind::Namespaces,
        &json!({ "metadata": { "name": "default" } }),
    );
    cloud.put(ServedKind::Services, &service("web", Some("[\"unit\"]")));
    cloud.put(ServedKind::Services, &service("plain", None));
    cloud.put(
        ServedKind::Slices,
        &slice("web-x", "web", &["a-0", "a-1", "b-0"]),
    );
    cloud.put(
        ServedKind::Slices,
        &slice("plain-x", "plain", &["a-0", "b-0", ""]),
    );
    cloud
}

pub(crate) async fn shows_the_rule(running: &Running, cloud: &Cloud, when: &str) {
    let wanted = expected_slices("a-0", cloud);
    let mut mirror = Mirror::new(
        running.client(),
        &ServedKind::Slices.path(),
        Style::Paged,
        "",
    );
    eventually(when, async || {
        mirror.disconnect(None);
        mirror.pump(&mut |_| {}).await;
        if mirror.objects == wanted {
            Ok(())
        } else {
            Err(format!("{:#?}", mirror.objects))
        }
    })
    .await;
}

pub(crate) async fn age(running: &Running) -> Option<u64> {
    let request = Request::get(ServedKind::Services.path())
        .body(Body::empty())
        .unwrap();
    let response = running.client().send(request).await.unwrap();
    let age = response.headers().get("x-edgegrid-view-age-seconds")?;
    age.to_str().unwrap().parse().ok()
}

pub(crate) async fn on_disk(folder: &Path) {
    eventually("a snapshot is written", async || {
        if folder.join("view.snapshot").exists() {
            Ok(())
        } else {
            Err("no file".to_owned())
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_while_cut_off_serves_the_last_state_and_says_how_old_it_is() {
    let (cloud, disk) = (site(Cloud::default()), tempfile::tempdir().unwrap());
    let running = Running::start("a-0", cloud.client(), Some(disk.path()));
    shows_the_rule(&running, &cloud, "online, it shows the rule").await;
    assert_eq!(age(&running).await, None);
    on_disk(disk.path()).await;
    cloud.cut(true);
    running.crash().await;

    let running = Running::start("a-0", cloud.client(), Some(disk.path()));
    shows_the_rule(&running, &cloud, "cut off, it shows the last state").await;
    tokio::time::sleep(std::time::Duration::from_secs(100)).await;
    assert!(age(&running).await.unwrap() >= 100);
    let mut mirror = Mirror::new(
        running.client(),
        &ServedKind::Slices.path(),
        Style::Streamed,
        "",
    );
    mirror.pump(&mut |_| {}).await;
    cloud.put(ServedKind::Slices, &slice("web-x", "web", &["a-1", "b-0"]));
    cloud.delete(ServedKind::Slices, Some("default"), "plain-x");
    cloud.cut(false);
    shows_the_rule(&running, &cloud, "online again, it shows the rule").await;
    eventually("the difference came as events", async || {
        mirror.pump(&mut |_| {}).await;
        if mirror.objects.len() == 1 {
            Ok(())
        } else {
            Err(format!("{:#?}", mirror.objects))
        }
    })
    .await;
    assert_eq!(mirror.relists, 1);
    eventually("its age is gone", async || match age(&running).await {
        None => Ok(()),
        Some(age) => Err(format!("{age} s")),
    })
    .await;
    // It had gone on from where it was: no list was asked for twice.
    let lists = cloud.lists();
    assert!(lists <= 7, "{lists} lists");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_damaged_or_foreign_snapshot_is_set_aside_and_nothing_of_it_is_served() {
    let (cloud, disk) = (site(Cloud::default()), tempfile::tempdir().unwrap());
    let running = Running::start("a-0", cloud.client(), Some(disk.path()));
    shows_the_rule(&running, &cloud, "online, it shows the rule").await;
    running.stop().await;
    let file = disk.path().join("view.snapshot");
    let whole = std::fs::read(&file).unwrap();
    cloud.cut(true);
    for (at, change) in [
        (0, 1),
        (whole.len() / 2, 1),
        (whole.len() - 1, 1),
        (30, 0x80),
    ] {
        let mut damaged = whole.clone();
        damaged[at] ^= change;
        std::fs::write(&file, &damaged).unwrap();
        let running = Running::start("a-0", cloud.client(), Some(disk.path()));
        let request = Request::get(ServedKind::Slices.path())
            .body(Body::empty())
            .unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(
            running.client().send(request).await.unwrap().status(),
            503,
            "byte {at}"
        );
        assert!(disk.path().join("view.snapshot.damaged").exists());
        running.crash().await;
    }
    std::fs::write(&file, &whole).unwrap();
    let other = Running::start("b-0", cloud.client(), Some(disk.path()));
    let request = Request::get(ServedKind::Slices.path())
        .body(Body::empty())
        .unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(other.client().send(request).await.unwrap().status(), 503);
}

#[tokio::test(start_paused = true)]
async fn behind_a_lite_apiserver_it_is_the_same_online_cut_off_and_restarted() {
    let cloud = site(Cloud::default()).behind_lite_apiserver();
    let disk = tempfile::tempdir().unwrap();
    let running = Running::start("a-0", cloud.client(), Some(disk.path()));
    shows_the_rule(&running, &cloud, "online").await;
    on_disk(disk.path()).await;
    // These come by watches only, and are in its lists all the same, some of them twice.
    cloud.put(ServedKind::Slices, &slice("web-y", "web", &["a-1", "b-0"]));
    cloud.put(ServedKind::Slices, &slice("web-x", "web", &["a-1", "b-0"]));
    cloud.delete(ServedKind::Slices, Some("default"), "plain-x");
    shows_the_rule(&running, &cloud, "online, changed").await;
    cloud.cut(true);
    tokio::time::sleep(std::time::Duration::from_mins(10)).await;
    shows_the_rule(&running, &cloud, "cut off for ten minutes").await;
    let asked = cloud.requests.lock().unwrap().len();
    assert!(
        asked < 2000,
        "{asked} requests in ten minutes of being cut off"
    );
    running.crash().await;
    for keep in [true, false] {
        if !keep {
            std::fs::remove_file(disk.path().join("view.snapshot")).unwrap();
        }
        let running = Running::start("a-0", cloud.client(), Some(disk.path()));
        shows_the_rule(&running, &cloud, "restarted while cut off").await;
        running.crash().await;
    }
    let running = Running::start("a-0", cloud.client(), Some(disk.path()));
    cloud.put(ServedKind::Nodes, &node("b-0", &[("unit", "a")]));
    cloud.cut(false);
    shows_the_rule(&running, &cloud, "online again").await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_counts_only_if_the_next_one_is_empty_too() {
    let cloud = site(Cloud::default());
    let running = Running::start("a-0", cloud.client(), None);
    shows_the_rule(&running, &cloud, "online").await;
    cloud.cut(true);
    for name in ["web-x", "plain-x"] {
        cloud.delete(ServedKind::Slices, Some("default"), name);
    }
    cloud.compact();
    cloud.requests.lock().unwrap().clear();
    cloud.cut(false);
    shows_the_rule(&running, &cloud, "all slices are really gone").await;
    let asked = cloud.requests.lock().unwrap().clone();
    let lists = asked
        .iter()
        .filter(|uri| uri.starts_with(&*ServedKind::Slices.path()) && !uri.contains("watch"));
    assert_eq!(lists.count(), 2, "asked again before it counted: {asked:?}");
}
