//! WATCH and `WatchList`, in virtual time.

use crate::fixture::{Events, Server, short};
use bytes::Bytes;
use edgegrid_listwatch::{Read, Reader, Resource, View};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

fn server() -> Server {
    let server = Server::new(100);
    server.put("x", "a", "web", "front"); // 2
    server.put("x", "b", "api", "back"); // 3
    server
}

/// Everything until the stream ends, each with the seconds since the start.
async fn timeline(mut events: Events) -> Vec<(u64, String)> {
    let start = Instant::now();
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        all.push((start.elapsed().as_secs(), short(&event)));
    }
    all.push((start.elapsed().as_secs(), "end".to_owned()));
    all
}

#[tokio::test(start_paused = true)]
async fn the_start_of_a_watch_depends_on_version_and_initial_events() {
    let state = ["ADDED a@4", "ADDED b@3"];
    let closed = ["ADDED a@4", "ADDED b@3", "BOOKMARK -@4"];
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let with_bookmarks = format!("{initial}&allowWatchBookmarks=true");
    for (query, expected) in [
        ("", &state[..]),
        ("resourceVersion=0", &state),
        ("resourceVersion=2", &["ADDED b@3", "MODIFIED a@4"]),
        ("resourceVersion=4", &[]),
        ("resourceVersion=0&allowWatchBookmarks=1", &state),
        (initial, &state),
        (&with_bookmarks, &closed),
        (&format!("{with_bookmarks}&resourceVersion=0"), &closed),
        (&format!("{with_bookmarks}&resourceVersion=3"), &closed),
        (
            "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            &[],
        ),
        (
            "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=3",
            &["MODIFIED a@4"],
        ),
    ] {
        let server = server();
        server.put("x", "a", "web", "back"); // 4
        let mut events = server.watch(query).await;
        assert_eq!(events.all_now().await, expected, "{query}");
        server.put("x", "later", "web", "");
        server.delete("x", "later");
        assert_eq!(
            events.all_now().await,
            ["ADDED later@5", "DELETED later@6"],
            "{query} goes on"
        );
        drop(events);
        assert_eq!(
            server.store.watched_prefixes(),
            0,
            "who vanished left nothing behind"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_makes_no_sense_is_refused() {
    let server = server();
    for (query, expected) in [
        ("sendInitialEvents=true", "422 FieldValueForbidden"),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=2",
            "422 FieldValueForbidden",
        ),
        (
            "resourceVersionMatch=NotOlderThan&resourceVersion=2",
            "422 FieldValueForbidden",
        ),
        ("resourceVersion=abc", "400 "),
        ("timeoutSeconds=soon", "400 "),
        ("fieldSelector=spec.x=1", "400 "),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=10",
            "504 ResourceVersionTooLarge",
        ),
    ] {
        let (code, status) = server.list(&format!("watch=1&{query}")).await;
        let cause = status["details"]["causes"][0]["reason"]
            .as_str()
            .unwrap_or_default();
        assert_eq!(format!("{code} {cause}"), expected, "{query}");
    }
    assert_eq!(server.store.watched_prefixes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_gone_or_unknown_ends_the_stream_with_410() {
    let server = server();
    server.store.compact(3);
    for query in ["resourceVersion=2", "resourceVersion=100"] {
        let mut events = server.watch(query).await;
        let error = events.next().await.unwrap();
        assert_eq!(
            (&error["type"], &error["object"]["code"]),
            (&json!("ERROR"), &json!(410))
        );
        assert_eq!(
            (&error["object"]["reason"], events.next().await),
            (&json!("Expired"), None)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_falls_behind_is_cut_off_with_410() {
    let server = Server::new(4);
    let mut events = server.watch("resourceVersion=0").await;
    assert_eq!(events.all_now().await, [""; 0]);
    for _ in 0..10 {
        server.put("x", "a", "web", "");
    }
    assert_eq!(events.next().await.unwrap()["object"]["reason"], "Expired");
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn selectors_turn_changes_into_what_the_client_can_see() {
    let server = Server::new(100);
    let mut web = server.watch("labelSelector=app=web").await;
    let mut back = server
        .watch("fieldSelector=data.tier=back,metadata.name!=z")
        .await;
    let mut one = server
        .watch("fieldSelector=metadata.name=a,metadata.namespace=x")
        .await;
    let mut all = server.watch("").await;
    server.put("x", "a", "api", "front"); // 2
    server.put("x", "a", "web", "front"); // 3: enters web
    server.put("x", "a", "web", "back"); // 4: enters back
    server.put("x", "a", "api", "back"); // 5: leaves web
    server.put("x", "ab", "api", "front"); // 6
    server.delete("x", "a"); // 7
    assert_eq!(
        web.all_now().await,
        ["ADDED a@3", "MODIFIED a@4", "DELETED a@5"]
    );
    assert_eq!(
        back.all_now().await,
        ["ADDED a@4", "MODIFIED a@5", "DELETED a@7"]
    );
    assert_eq!(one.all_now().await.last().unwrap(), "DELETED a@7");
    assert_eq!(all.all_now().await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn what_leaves_a_selection_is_the_old_object_at_the_new_revision() {
    let server = server();
    let mut events = server
        .watch("labelSelector=app=web&resourceVersion=3")
        .await;
    server.put("x", "a", "api", "changed");
    let event = events.next().await.unwrap();
    assert_eq!(
        (
            &event["type"],
            &event["object"]["metadata"]["resourceVersion"]
        ),
        (&json!("DELETED"), &json!("4"))
    );
    assert_eq!(
        event["object"]["data"]["tier"], "front",
        "the version the client knew"
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute_and_before_the_end() {
    let server = server();
    let quiet = server.watch("resourceVersion=3&timeoutSeconds=150").await;
    assert_eq!(timeline(quiet).await, [(150, "end".to_owned())]);
    let marked = server
        .watch("resourceVersion=3&timeoutSeconds=150&allowWatchBookmarks=true")
        .await;
    let mark = |at| (at, "BOOKMARK -@3".to_owned());
    assert_eq!(
        timeline(marked).await,
        [mark(60), mark(120), mark(148), (150, "end".to_owned())]
    );
    let short = server
        .watch("resourceVersion=3&timeoutSeconds=1&allowWatchBookmarks=true")
        .await;
    assert_eq!(timeline(short).await, [(1, "end".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_promises_what_was_delivered_and_has_the_kind_of_the_objects() {
    let server = server();
    let mut events = server
        .watch("resourceVersion=3&labelSelector=app=web&allowWatchBookmarks=1")
        .await;
    server.put("x", "b", "api", "unseen"); // 4
    let bookmark = events.next().await.unwrap();
    let object =
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "4"}});
    assert_eq!(bookmark, json!({"type": "BOOKMARK", "object": object}));
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_is_closed_by_an_annotated_bookmark_even_when_empty() {
    let server = server();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=app=none";
    let bookmark = server.watch(query).await.next().await.unwrap();
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    assert_eq!(
        bookmark["object"]["metadata"],
        json!({"resourceVersion": "3", "annotations": annotations})
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_timeout_ends_between_half_an_hour_and_an_hour() {
    let server = server();
    let mut ends = Vec::new();
    for query in ["resourceVersion=3", "resourceVersion=3&timeoutSeconds=0"].repeat(10) {
        ends.push(timeline(server.watch(query).await).await[0].0);
    }
    assert!(
        ends.iter().all(|end| (1800..=3600).contains(end)),
        "{ends:?}"
    );
    assert!(
        ends.iter().max().unwrap() - ends.iter().min().unwrap() > 300,
        "{ends:?}"
    );
    let again = Reader::new(server.store.clone(), 7);
    let read = Read {
        query: "watch=1&resourceVersion=3",
        ..Read::all(&server.maps)
    };
    let start = Instant::now();
    again.read(read).await.into_body().collect().await.unwrap();
    assert_eq!(
        start.elapsed().as_secs(),
        ends[0],
        "the same seed, the same end"
    );
}

#[tokio::test(start_paused = true)]
async fn metadata_watches_send_metadata_in_events_and_bookmarks() {
    let server = server();
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let response = server
        .reader
        .read(Read {
            query,
            accept,
            ..Read::all(&server.maps)
        })
        .await;
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let lines: Vec<Value> = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(lines.len(), 3);
    for line in lines {
        assert_eq!(line["object"]["kind"], "PartialObjectMetadata");
        assert!(line["object"].get("data").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_sends_what_is_pending_and_ends_every_watch() {
    let server = server();
    let events = server
        .watch("resourceVersion=2&allowWatchBookmarks=true")
        .await;
    let mut idle = server.watch("resourceVersion=3").await;
    let reader = server.reader.clone();
    let (end, ()) = tokio::join!(idle.next(), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        reader.stop();
    });
    assert_eq!(end, None);
    let last = [
        (0, "ADDED b@3".to_owned()),
        (0, "BOOKMARK -@3".to_owned()),
        (0, "end".to_owned()),
    ];
    assert_eq!(timeline(events).await, last);
}

#[tokio::test(start_paused = true)]
async fn five_hundred_watchers_share_one_conversion_of_each_version() {
    let mut server = server();
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let convert = move |bytes: &Bytes| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(bytes.clone())
    };
    let view = View::Converted {
        id: 1,
        convert: Arc::new(convert),
    };
    server.maps = Resource {
        view,
        ..(*server.maps).clone()
    }
    .shared();
    let mut watchers = Vec::new();
    for _ in 0..500 {
        watchers.push(
            server
                .watch("resourceVersion=3&labelSelector=app=web")
                .await,
        );
    }
    assert_eq!(server.store.watched_prefixes(), 1);
    server.put("x", "c", "web", "");
    for events in &mut watchers {
        assert_eq!(events.all_now().await, ["ADDED c@4"]);
    }
    assert_eq!(made.load(Ordering::Relaxed), 1);
    drop(watchers);
    assert_eq!(server.store.watched_prefixes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_sent_in_frames_of_bounded_size() {
    let server = Server::new(1000);
    let filler = "x".repeat(30_000);
    for index in 0..200 {
        server.put("x", &format!("n{index:03}"), "web", &filler);
    }
    let read = Read {
        query: "watch=1&resourceVersion=1&timeoutSeconds=1",
        ..Read::all(&server.maps)
    };
    let mut body = server.reader.read(read).await.into_body();
    let (mut events, mut largest) = (0, 0);
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        events += data.split(|byte| *byte == b'\n').count() - 1;
        largest = largest.max(data.len());
    }
    assert_eq!(events, 200);
    assert!(largest < 100_000, "{largest}");
}
