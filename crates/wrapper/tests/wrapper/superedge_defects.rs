//! What SuperEdge's wrapper does wrong (`docs/superedge-defects.md`), each as the rule that holds here. `ingress`, `lines` and
//! the model test show the rest.

use crate::asking::{SLICES, STRICT, ask, get, nodes, ready, sees, two_units, view_of};
use crate::cloud::{node, service, slice};
use crate::mirror::{Mirror, Style};
use crate::{Running, eventually};
use edgegrid_store::Limits;
use edgegrid_wrapper::{Config, ServedKind};
use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_exactly_where_the_list_ended() {
    let cloud = two_units();
    let (_running, client) = view_of(&cloud).await;
    let (_, list) = get(&client, SLICES).await;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    cloud.put(ServedKind::Slices, &slice("web-x", "web", &["a-1", "b-0"]));
    sees(&client, SLICES, &["a-1"]).await;
    let path = format!("{SLICES}?watch=true&timeoutSeconds=1&resourceVersion={revision}");
    let (_, events) = get(&client, &path).await;
    assert_eq!(events["type"], "MODIFIED", "{events}");
    assert_eq!(nodes(&events), ["a-1"]);
    let (_, gone) = get(&client, &format!("{SLICES}?watch=true&resourceVersion=1")).await;
    assert_eq!(gone["object"]["code"], 410);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_watches_and_one_that_never_reads_leave_nothing_behind() {
    let cloud = two_units();
    let config = Config {
        history: Limits {
            events: 256,
            ..Limits::default()
        },
        ..Config::new("a-0")
    };
    let running = Running::with(&config, cloud.client());
    let client = ready(&running).await;
    let watch = || {
        Request::get(format!("{SLICES}?watch=true"))
            .body(Body::empty())
            .unwrap()
    };
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(client.send(watch()).await.unwrap());
    }
    let gauge = async || {
        let (_, metrics) = get(&client, "/metrics").await;
        let metrics = metrics.as_str().unwrap().to_owned();
        metrics.lines().find_map(|line| {
            line.strip_prefix("edgegrid_wrapper_watches ")
                .map(str::to_owned)
        })
    };
    assert_eq!(gauge().await.as_deref(), Some("100"));
    for n in 0..600 {
        let nodes = if n % 2 == 0 {
            ["a-0", "b-0"]
        } else {
            ["a-1", "b-0"]
        };
        cloud.put(ServedKind::Slices, &slice("web-x", "web", &nodes));
        tokio::task::yield_now().await;
    }
    sees(&client, SLICES, &["a-1"]).await;
    open.truncate(1);
    assert_eq!(gauge().await.as_deref(), Some("1"));
    // The one that slept is told to start over, and no event is kept for it.
    let late = open.remove(0).into_body().collect_bytes().await.unwrap();
    let last = late
        .split(|byte| *byte == b'\n')
        .rfind(|line| !line.is_empty())
        .unwrap();
    let last: Value = serde_json::from_slice(last).unwrap();
    assert_eq!(
        (&last["type"], &last["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_while_cut_off_goes_when_the_link_is_back() {
    let cloud = two_units();
    let (_running, client) = view_of(&cloud).await;
    let mut mirror = Mirror::new(client.clone(), SLICES, Style::Streamed, "");
    mirror.pump(&mut |_| {}).await;
    cloud.cut(true);
    cloud.delete(ServedKind::Slices, Some("default"), "web-x");
    cloud.delete(ServedKind::Services, Some("default"), "web");
    cloud.put(ServedKind::Slices, &slice("other", "none", &["a-0"]));
    cloud.compact();
    cloud.cut(false);
    eventually("the client has heard of it", async || {
        mirror.pump(&mut |_| {}).await;
        let names: Vec<_> = mirror.objects.keys().cloned().collect();
        if names == ["default/other"] {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    })
    .await;
    assert_eq!(mirror.relists, 1, "it was told by events");
}

#[tokio::test(start_paused = true)]
async fn a_slice_belongs_by_label_and_without_its_service_it_shows_nothing() {
    let cloud = two_units();
    cloud.put(
        ServedKind::Slices,
        &slice("quite-another-name", "web", &["b-0", "a-1"]),
    );
    cloud.put(
        ServedKind::Slices,
        &slice("web-of-nobody", "not-there", &["a-0", "b-0"]),
    );
    let mut unlabelled = slice("web-y", "web", &["a-0"]);
    unlabelled["metadata"]["labels"] = json!({});
    cloud.put(ServedKind::Slices, &unlabelled);
    let (_running, client) = view_of(&cloud).await;
    sees(&client, SLICES, &["a-0", "a-1", "a-1"]).await;
    let (_, list) = get(&client, SLICES).await;
    assert_eq!(
        list["items"].as_array().unwrap().len(),
        4,
        "edited, never dropped"
    );

    cloud.delete(ServedKind::Services, Some("default"), "web");
    sees(&client, SLICES, &[]).await;
    cloud.put(ServedKind::Services, &service("web", Some(STRICT)));
    sees(&client, SLICES, &["a-0", "a-1", "a-1"]).await;
    let (_, why) = get(&client, "/debug/view?service=default/not-there").await;
    assert_eq!(why["known"], false);
    assert_eq!(
        why["objects"][0]["endpoints"][0]["visibility"],
        "service-not-seen"
    );
}

#[tokio::test(start_paused = true)]
async fn keys_are_tried_in_order_and_a_star_is_the_last_resort() {
    let cloud = two_units();
    let (_running, client) = view_of(&cloud).await;
    let hostname = "[\"kubernetes.io/hostname\",\"unit\",\"*\"]";
    cloud.put(ServedKind::Services, &service("web", Some(hostname)));
    sees(&client, SLICES, &["a-0"]).await;
    cloud.put(ServedKind::Slices, &slice("web-x", "web", &["a-1", "b-0"]));
    sees(&client, SLICES, &["a-1"]).await;
    cloud.put(ServedKind::Slices, &slice("web-x", "web", &["b-0"]));
    sees(&client, SLICES, &["b-0"]).await;
    cloud.put(ServedKind::Services, &service("web", Some("[\"unit\"]")));
    sees(&client, SLICES, &[]).await;
    cloud.put(ServedKind::Services, &service("web", Some("not a list")));
    cloud.put(ServedKind::Slices, &slice("web-x", "web", &["a-0"]));
    sees(&client, SLICES, &[]).await;
    let (_, metrics) = get(&client, "/metrics").await;
    assert!(
        metrics
            .as_str()
            .unwrap()
            .contains("edgegrid_wrapper_malformed_services 1")
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_of_other_sites_are_never_asked_for() {
    let cloud = two_units();
    let (_running, client) = view_of(&cloud).await;
    cloud.requests.lock().unwrap().clear();
    for heartbeat in 0..50 {
        let mut beating = node("b-0", &[("unit", "b")]);
        beating["status"] = json!({ "heartbeat": heartbeat });
        cloud.put(ServedKind::Nodes, &beating);
    }
    let before = get(&client, "/metrics").await.1;
    cloud.put(ServedKind::Nodes, &node("b-0", &[("unit", "a")]));
    sees(&client, SLICES, &["a-0", "a-1", "b-0"]).await;
    let after = get(&client, "/metrics").await.1;
    let events = |text: &Value| {
        let text = text.as_str().unwrap().to_owned();
        let line = text.lines().find_map(|line| {
            line.strip_prefix("edgegrid_wrapper_upstream_events_total ")
                .map(str::to_owned)
        });
        line.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(
        events(&after) - events(&before),
        1,
        "one event: it has joined"
    );
    let asked = cloud.requests.lock().unwrap().clone();
    assert!(
        asked
            .iter()
            .filter(|uri| uri.contains("/nodes"))
            .all(|uri| uri.contains("Selector=")),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_own_node_can_be_listed_watched_and_read() {
    let cloud = two_units();
    let (_running, client) = view_of(&cloud).await;
    for path in [
        "/api/v1/nodes?fieldSelector=metadata.name%3Da-0",
        "/api/v1/nodes/a-0",
    ] {
        let (code, answer) = get(&client, path).await;
        assert_eq!(code, StatusCode::OK);
        assert!(answer.to_string().contains("\"a-0\""), "{answer}");
    }
    let path = "/api/v1/nodes?fieldSelector=metadata.name%3Da-0&watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let (_, events) = get(&client, path).await;
    assert!(
        events.as_str().unwrap().contains("initial-events-end"),
        "{events}"
    );
}

#[tokio::test(start_paused = true)]
async fn every_way_to_read_is_filtered_alike() {
    let cloud = two_units();
    let (_running, client) = view_of(&cloud).await;
    let in_namespace = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    for path in [
        SLICES.to_owned(),
        in_namespace.to_owned(),
        format!("{in_namespace}/web-x"),
        format!("{SLICES}?labelSelector=kubernetes.io/service-name%3Dweb"),
        format!("{SLICES}?limit=1"),
        "/apis/discovery.k8s.io/v1/end%70ointslices".to_owned(),
        format!("{SLICES}/"),
    ] {
        let (code, answer) = get(&client, &path).await;
        assert_eq!(
            (code, nodes(&answer)),
            (StatusCode::OK, vec!["a-0".to_owned(), "a-1".to_owned()]),
            "{path}"
        );
    }
    let (_, none) = get(
        &client,
        &format!("{SLICES}?labelSelector=kubernetes.io/service-name%3Dother"),
    )
    .await;
    assert_eq!(none["items"], json!([]));
    for path in [
        "/apis/discovery.k8s.io/v1beta1/endpointslices",
        "//apis/discovery.k8s.io/v1/endpointslices",
        "/apis/discovery.k8s.io/v1/../v1/endpointslices",
        "/api/v2/endpoints",
        "/api/v1/namespaces/default/endpoints/web/status",
    ] {
        let (code, answer) = get(&client, path).await;
        assert!(
            code.is_client_error() && nodes(&answer).is_empty(),
            "{path}: {code} {answer}"
        );
    }
    let legacy = "/apis/discovery.k8s.io/v1/watch/endpointslices?timeoutSeconds=1";
    assert_eq!(nodes(&get(&client, legacy).await.1), ["a-0", "a-1"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_borrows_the_wrappers_name_for_more_than_events() {
    let cloud = two_units();
    let (_running, client) = view_of(&cloud).await;
    for (method, path) in [
        ("GET", "/api/v1/pods"),
        ("GET", "/api/v1/namespaces/kube-system/secrets"),
        ("POST", "/api/v1/namespaces/default/pods"),
        ("DELETE", "/api/v1/nodes/a-0"),
        ("PATCH", "/api/v1/nodes/a-0/status"),
        ("GET", "/api/v1/namespaces/default/events"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/x/token"),
        (
            "PUT",
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-x",
        ),
        ("POST", "/api/v1/namespaces/default/services"),
    ] {
        let (code, status) = ask(&client, Request::builder().method(method).uri(path), "{}").await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{method} {path}");
        assert!(
            status["message"]
                .as_str()
                .unwrap()
                .contains("use the API server"),
            "{status}"
        );
    }
    cloud.requests.lock().unwrap().clear();
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    ask(
        &client,
        Request::post(path).header("Impersonate-User", "admin"),
        "{}",
    )
    .await;
    assert_eq!(*cloud.requests.lock().unwrap(), [path]);
    ask(
        &client,
        Request::get("/api/v1/pods").header("Authorization", "Bearer own"),
        "",
    )
    .await;
    assert_eq!(
        cloud.requests.lock().unwrap().last().unwrap(),
        "/api/v1/pods"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_answered_before_it_is_known_and_then_all_of_it() {
    let cloud = two_units();
    cloud.cut(true);
    let running = Running::start("a-0", cloud.client(), None);
    let client = running.client();
    for kind in ServedKind::ALL {
        let path = match kind {
            ServedKind::Nodes => "/api/v1/nodes/a-0".to_owned(),
            kind => kind.path(),
        };
        let request = Request::get(&path).body(Body::empty()).unwrap();
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert!(response.headers().contains_key("retry-after"));
    }
    let (code, why) = get(&client, "/readyz").await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    assert!(why.as_str().unwrap().contains("endpointslices"), "{why}");
    assert_eq!(get(&client, "/healthz").await.0, StatusCode::OK);
    cloud.cut(false);
    ready(&running).await;
    assert_eq!(nodes(&get(&client, SLICES).await.1), ["a-0", "a-1"]);
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_their_annotations() {
    let cloud = two_units();
    let endpoints = |annotations: Value| {
        json!({
            "metadata": { "name": "kubernetes", "namespace": "default", "annotations": annotations },
            "subsets": [{ "addresses": [{ "ip": "192.0.2.1" }], "ports": [{ "name": "https", "port": 6443 }] }],
        })
    };
    cloud.put(ServedKind::Services, &service("kubernetes", None));
    cloud.put(ServedKind::Endpoints, &endpoints(json!({})));
    let mut of_web = endpoints(json!({}));
    of_web["metadata"]["name"] = "web".into();
    of_web["subsets"] = json!([{ "addresses": [{ "ip": "10.0.0.1", "nodeName": "a-1" }, { "ip": "10.0.0.2", "nodeName": "b-0" }] }]);
    cloud.put(ServedKind::Endpoints, &of_web);
    let (_running, client) = view_of(&cloud).await;
    assert!(
        !cloud
            .requests
            .lock()
            .unwrap()
            .iter()
            .any(|uri| uri.contains("/endpoints?")),
        "nobody has asked"
    );
    sees(&client, "/api/v1/endpoints", &["a-1"]).await;
    let local = json!({ "superedge.io/local-endpoint": "169.254.20.11", "superedge.io/local-port": "51003" });
    cloud.put(ServedKind::Endpoints, &endpoints(local));
    eventually("the node's own proxy stands in", async || {
        let (_, answer) = get(&client, "/api/v1/namespaces/default/endpoints/kubernetes").await;
        let address = &answer["subsets"][0]["addresses"][0]["ip"];
        if address == "169.254.20.11" {
            Ok(())
        } else {
            Err(answer.to_string())
        }
    })
    .await;
}
