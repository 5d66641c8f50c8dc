//! GET and LIST.

use crate::fixture::{Server, items, version};
use edgegrid_listwatch::{Field, Malformed, Read, Resource, View, storable};
use edgegrid_store::Expect;
use serde_json::{Value, json};
use std::sync::Arc;

/// Revisions 2 to 6, of which 2 is compacted.
fn server() -> Server {
    let server = Server::new(100);
    server.put("x", "a", "web", "front"); // 2
    server.put("x", "b", "web", "back"); // 3
    server.put("y", "a", "api", "back"); // 4
    server.put("x", "a", "web", "back"); // 5
    server.delete("x", "b"); // 6
    server.store.compact(3);
    server
}

const NOW: &str = "6: x/a@5 y/a@4";
const TWO: &str = "3: x/a@2 x/b@3";

/// A query and what a list answers to it over [`server`].
const ANSWERS: &[(&str, &str)] = &[
    ("", NOW),
    ("resourceVersion=", NOW),
    ("resourceVersion=0", NOW),
    ("resourceVersion=4", NOW),
    ("resourceVersion=6", NOW),
    ("resourceVersion=2", NOW),
    ("resourceVersion=7", "504 Timeout ResourceVersionTooLarge"),
    ("limit=9", NOW),
    ("limit=0", NOW),
    ("limit=-4", NOW),
    ("limit=9&resourceVersion=0", NOW),
    ("limit=9&resourceVersion=3", TWO),
    ("limit=9&resourceVersion=2", "410 Expired"),
    (
        "limit=9&resourceVersion=7",
        "504 Timeout ResourceVersionTooLarge",
    ),
    ("resourceVersion=3&resourceVersionMatch=Exact", TWO),
    (
        "resourceVersion=4&resourceVersionMatch=Exact",
        "4: x/a@2 x/b@3 y/a@4",
    ),
    (
        "resourceVersion=2&resourceVersionMatch=Exact",
        "410 Expired",
    ),
    (
        "resourceVersion=7&resourceVersionMatch=Exact",
        "504 Timeout ResourceVersionTooLarge",
    ),
    (
        "resourceVersion=0&resourceVersionMatch=Exact",
        "422 Invalid FieldValueForbidden",
    ),
    (
        "resourceVersionMatch=Exact",
        "422 Invalid FieldValueForbidden",
    ),
    ("resourceVersion=0&resourceVersionMatch=NotOlderThan", NOW),
    ("resourceVersion=2&resourceVersionMatch=NotOlderThan", NOW),
    (
        "resourceVersion=5&resourceVersionMatch=NotOlderThan&limit=9",
        NOW,
    ),
    (
        "resourceVersion=7&resourceVersionMatch=NotOlderThan",
        "504 Timeout ResourceVersionTooLarge",
    ),
    (
        "resourceVersionMatch=NotOlderThan",
        "422 Invalid FieldValueForbidden",
    ),
    (
        "resourceVersion=3&resourceVersionMatch=Newest",
        "422 Invalid FieldValueNotSupported",
    ),
    (
        "resourceVersion=3&resourceVersionMatch=Exact&continue=v1:3:x/a",
        "422 Invalid FieldValueForbidden",
    ),
    ("continue=v1:3:x/a", "3: x/b@3"),
    ("continue=v1:3:x/a&resourceVersion=0", "3: x/b@3"),
    ("continue=v1:3:x/a&resourceVersion=3", "400 BadRequest"),
    ("continue=v1::x/a", "6: y/a@4"),
    ("continue=v1:2:x/a", "410 Expired"),
    ("continue=v1:10:x/a", "410 Expired"),
    ("continue=nonsense", "400 BadRequest"),
    ("continue=v1:3:../../secrets/x", "3: x/a@2 x/b@3"),
    ("sendInitialEvents=true", "422 Invalid FieldValueForbidden"),
    ("resourceVersion=abc", "400 BadRequest"),
    ("resourceVersion=-1", "400 BadRequest"),
    ("limit=many", "400 BadRequest"),
    ("labelSelector=app%3Dweb", "6: x/a@5"),
    ("labelSelector=app+in+(web,api)", NOW),
    ("labelSelector=!app", "6: "),
    ("labelSelector=app%20in", "400 BadRequest"),
    ("fieldSelector=metadata.name%3Da", NOW),
    ("fieldSelector=metadata.namespace=y", "6: y/a@4"),
    ("fieldSelector=data.tier!=back", "6: "),
    (
        "fieldSelector=data.tier=back&labelSelector=app=api",
        "6: y/a@4",
    ),
    ("fieldSelector=spec.nodeName=a", "400 BadRequest"),
    ("fieldSelector=a", "400 BadRequest"),
    ("pretty=true&unknown=%ff%00%zz&&=&limit=9&limit=x", NOW),
];

#[tokio::test(start_paused = true)]
async fn every_combination_of_version_match_limit_and_continue_means_what_kubernetes_says() {
    let server = server();
    for (query, expected) in ANSWERS {
        assert_eq!(summary(&server.list(query).await), *expected, "{query}");
    }
}

/// `revision: items`, or `code reason cause`.
fn summary((code, answer): &(u16, Value)) -> String {
    if *code == 200 {
        return format!("{}: {}", version(answer), items(answer).join(" "));
    }
    assert_eq!(
        (&answer["kind"], answer["code"].as_u64()),
        (&json!("Status"), Some(u64::from(*code)))
    );
    let cause = answer["details"]["causes"][0]["reason"].as_str();
    [Some(&*code.to_string()), answer["reason"].as_str(), cause]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test(start_paused = true)]
async fn pages_are_of_one_revision_until_compaction_and_then_offer_to_go_on_inconsistently() {
    let server = Server::new(100);
    for name in ["a", "b", "c", "d", "e"] {
        server.put("x", name, "web", "");
    }
    let (_, first) = server.list("limit=2").await;
    assert_eq!(
        (items(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["x/a@2".into(), "x/b@3".into()], &json!(3))
    );
    server.delete("x", "c");
    server.put("x", "d", "web", "new");
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = server.list(&format!("limit=2&continue={token}")).await;
    assert_eq!(
        (version(&second), items(&second)),
        ("6", vec!["x/c@4".to_owned(), "x/d@5".to_owned()])
    );
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    server.store.compact(8);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let (code, expired) = server.list(&format!("limit=2&continue={token}")).await;
    assert_eq!((code, &expired["reason"]), (410, &json!("Expired")));
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let (_, last) = server.list(&format!("limit=2&continue={token}")).await;
    assert_eq!(
        (version(&last), items(&last)),
        ("8", vec!["x/e@6".to_owned()])
    );
    assert!(last["metadata"].get("continue").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_selected_page_is_filled_and_does_not_say_what_remains() {
    let server = Server::new(100);
    for (name, app) in [
        ("a", "web"),
        ("b", "api"),
        ("c", "web"),
        ("d", "api"),
        ("e", "web"),
    ] {
        server.put("x", name, app, "");
    }
    let (_, page) = server.list("limit=2&labelSelector=app=web").await;
    assert_eq!(items(&page), ["x/a@2", "x/c@4"]);
    assert!(page["metadata"].get("remainingItemCount").is_none());
    let token = page["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = server
        .list(&format!("limit=2&labelSelector=app=web&continue={token}"))
        .await;
    assert_eq!(items(&rest), ["x/e@6"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_shows_its_own_objects_only() {
    let server = server();
    server.put("x0", "z", "web", "");
    for (namespace, expected) in [
        ("x", vec!["x/a@5"]),
        ("y", vec!["y/a@4"]),
        ("", vec![]),
        ("x/a", vec![]),
    ] {
        let read = Read {
            namespace: Some(namespace),
            ..Read::all(&server.maps)
        };
        assert_eq!(items(&server.ask(read).await.1), expected, "{namespace}");
    }
}

#[tokio::test(start_paused = true)]
async fn get_answers_one_object_or_a_status() {
    let server = server();
    let get = |namespace, name, query| Read {
        namespace,
        name: Some(name),
        query,
        ..Read::all(&server.maps)
    };
    let (code, object) = server.ask(get(Some("x"), "a", "")).await;
    assert_eq!(
        (code, version(&object), &object["data"]["tier"]),
        (200, "5", &json!("back"))
    );
    for (namespace, name, query, expected) in [
        (Some("x"), "b", "", "404 NotFound"),
        (Some("z"), "a", "", "404 NotFound"),
        (None, "x/a", "", "404 NotFound"),
        (Some("x"), "", "", "404 NotFound"),
        (
            Some("x"),
            "a",
            "resourceVersion=100",
            "504 Timeout ResourceVersionTooLarge",
        ),
        (Some("x"), "a", "resourceVersion=x", "400 BadRequest"),
    ] {
        assert_eq!(
            summary(&server.ask(get(namespace, name, query)).await),
            expected,
            "{name}"
        );
    }
    let (_, missing) = server.ask(get(Some("x"), "b", "")).await;
    assert_eq!(missing["message"], r#"configmaps "b" not found"#);
    assert_eq!(
        missing["details"],
        json!({"name": "b", "kind": "configmaps"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_revision_about_to_be_made_waits_for_it() {
    let server = server();
    let (answer, _) = tokio::join!(server.list("resourceVersion=7"), async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        server.put("x", "c", "web", "")
    });
    assert_eq!(summary(&answer), "7: x/a@5 x/c@7 y/a@4");
}

#[tokio::test(start_paused = true)]
async fn metadata_is_served_where_accept_asks_for_it() {
    let server = server();
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let (_, list) = server
        .ask(Read {
            accept,
            ..Read::all(&server.maps)
        })
        .await;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (
            &json!("PartialObjectMetadataList"),
            &json!("meta.k8s.io/v1")
        )
    );
    assert_eq!(
        (items(&list), list["items"][0].get("data")),
        (vec!["x/a@5".into(), "y/a@4".into()], None)
    );
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    let read = Read {
        accept: "application/xml",
        ..Read::all(&server.maps)
    };
    assert_eq!(summary(&server.ask(read).await), "406 NotAcceptable");
}

#[tokio::test(start_paused = true)]
async fn a_converted_view_is_made_once_for_each_version() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let server = server();
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let convert = move |bytes: &bytes::Bytes| {
        count.fetch_add(1, Ordering::Relaxed);
        let mut object: Value =
            serde_json::from_slice(bytes).map_err(|error| Malformed(error.to_string()))?;
        object["apiVersion"] = json!("v2");
        Ok(storable(&object))
    };
    let view = View::Converted {
        id: 1,
        convert: Arc::new(convert),
    };
    let second = Resource {
        version: "v2".into(),
        view,
        ..(*server.maps).clone()
    }
    .shared();
    for _ in 0..3 {
        let (_, list) = server.ask(Read::all(&second)).await;
        assert_eq!(
            (&list["apiVersion"], &list["items"][0]["apiVersion"]),
            (&json!("v2"), &json!("v2"))
        );
    }
    assert_eq!(made.load(Ordering::Relaxed), 2);
    assert_eq!(server.list("").await.1["items"][0]["apiVersion"], "v1");
}

#[tokio::test(start_paused = true)]
async fn a_stored_value_that_is_no_object_is_a_server_error_and_no_panic() {
    let server = server();
    server
        .store
        .put("configmaps/x/bad", "{", Expect::Absent)
        .unwrap();
    assert_eq!(summary(&server.list("").await), "500 InternalError");
    let read = Read {
        namespace: Some("x"),
        name: Some("bad"),
        ..Read::all(&server.maps)
    };
    assert_eq!(summary(&server.ask(read).await), "500 InternalError");
}

#[tokio::test(start_paused = true)]
async fn a_field_may_have_several_paths() {
    let server = server();
    let field = Field {
        name: "any".into(),
        paths: vec!["data.none".into(), "data.tier".into()],
        default: "".into(),
    };
    let maps = Resource {
        fields: vec![field],
        ..(*server.maps).clone()
    }
    .shared();
    let (_, list) = server
        .ask(Read {
            query: "fieldSelector=any=back",
            ..Read::all(&maps)
        })
        .await;
    assert_eq!(items(&list).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_long_list_comes_in_several_frames_of_one_json_document() {
    let server = Server::new(10);
    let filler = "x".repeat(1000);
    for index in 0..500 {
        server.put("x", &format!("n{index:03}"), "web", &filler);
    }
    let response = server.reader.read(Read::all(&server.maps)).await;
    let mut body = response.into_body();
    let (mut frames, mut bytes) = (0, Vec::new());
    while let Some(frame) = http_body_util::BodyExt::frame(&mut body).await {
        bytes.extend_from_slice(frame.unwrap().data_ref().unwrap());
        frames += 1;
    }
    let list: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 500);
    assert!((5..20).contains(&frames), "{frames} frames");
}
