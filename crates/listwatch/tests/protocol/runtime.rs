//! kube's own watchers, in process: the proof that the dialect is Kubernetes'.

use crate::fixture::{Contents, Server};
use edgegrid_listwatch::{Body, Read, Reader, Resource};
use futures::{Stream, StreamExt};
use http::header::ACCEPT;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, ResourceExt};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

fn client(server: &Server) -> Client {
    let (reader, maps) = (server.reader.clone(), Arc::clone(&server.maps));
    let service =
        tower::service_fn(move |request| answer(reader.clone(), Arc::clone(&maps), request));
    Client::new(service, "x")
}

/// The smallest router: config maps and nothing else.
async fn answer(
    reader: Reader,
    maps: Arc<Resource>,
    request: Request<kube::client::Body>,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().trim_start_matches("/api/v1/");
    let accept = request
        .headers()
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut read = Read {
        query: request.uri().query().unwrap_or_default(),
        accept,
        ..Read::all(&maps)
    };
    match path.split('/').collect::<Vec<_>>()[..] {
        ["configmaps"] => {}
        ["namespaces", namespace, "configmaps"] => read.namespace = Some(namespace),
        ["namespaces", namespace, "configmaps", name] => {
            (read.namespace, read.name) = (Some(namespace), Some(name));
        }
        _ => panic!("{path}"),
    }
    Ok(reader.read(read).await)
}

/// Changes of every sort, more than the history holds, with the watchers running between them.
async fn churn(server: &Server) {
    for round in 0..60_usize {
        for name in ["a", "b", "c", "d"].iter().take(round % 5) {
            server.put("x", name, ["web", "api"][round / 5 % 2], "front");
            server.put("y", name, "web", "back");
        }
        if round % 7 == 0 {
            server.delete("x", "b");
        }
        if round % 11 == 0 {
            server.store.compact(server.store.revision());
        }
        if round % 3 == 0 {
            sleep(Duration::from_secs(round as u64 * 20)).await; // bookmarks and timeouts pass too
        }
    }
}

/// Runs a watcher's events into a mirror until it is what the server holds.
async fn ends_right<K>(
    server: &Server,
    query: &str,
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
) where
    K: kube::Resource<DynamicType = ()> + Clone + Send + Sync + std::fmt::Debug + 'static,
{
    let (mirror, writer) = reflector::store::<K>();
    let stream = reflector::reflector(writer, events.default_backoff()).boxed();
    let follow = stream.for_each(|_| async {});
    let settle = async {
        churn(server).await;
        let (_, list) = server.list(query).await;
        let truth: Contents = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                (
                    crate::fixture::name(item),
                    crate::fixture::version(item).to_owned(),
                )
            })
            .collect();
        for _ in 0..1000 {
            let held: Contents = mirror
                .state()
                .iter()
                .map(|it| {
                    (
                        format!("{}/{}", it.namespace().unwrap(), it.name_any()),
                        it.resource_version().unwrap(),
                    )
                })
                .collect();
            if held == truth {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("the mirror did not become {truth:?}");
    };
    tokio::select! { () = follow => panic!("watchers never end"), () = settle => {} }
}

#[tokio::test(start_paused = true)]
async fn kubes_watcher_ends_with_the_servers_state_by_list_and_watch() {
    let server = Server::new(12);
    let api: Api<ConfigMap> = Api::all(client(&server));
    ends_right(
        &server,
        "",
        watcher(api, watcher::Config::default().page_size(2)),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn kubes_watcher_ends_with_the_servers_state_by_streaming_lists() {
    let server = Server::new(12);
    let api: Api<ConfigMap> = Api::all(client(&server));
    ends_right(
        &server,
        "",
        watcher(api, watcher::Config::default().streaming_lists()),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn kubes_watcher_follows_selectors() {
    for streaming in [false, true] {
        let server = Server::new(12);
        let api: Api<ConfigMap> = Api::namespaced(client(&server), "x");
        let mut config = watcher::Config::default()
            .labels("app=web")
            .fields("data.tier!=back");
        if streaming {
            config = config.streaming_lists();
        }
        let query = "labelSelector=app=web&fieldSelector=data.tier!=back,metadata.namespace=x";
        ends_right(&server, query, watcher(api, config)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn kubes_metadata_watcher_ends_with_the_servers_state() {
    let server = Server::new(12);
    let api: Api<PartialObjectMeta<ConfigMap>> = Api::all(client(&server));
    let events = watcher(api, watcher::Config::default());
    ends_right(&server, "", events).await;
}

#[tokio::test(start_paused = true)]
async fn kubes_client_reads_objects_lists_and_refusals() {
    let server = Server::new(100);
    for name in ["a", "b", "c"] {
        server.put("x", name, "web", "");
    }
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    assert_eq!(api.get("b").await.unwrap().resource_version().unwrap(), "3");
    assert!(api.get_opt("z").await.unwrap().is_none());
    let page = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(
        (page.items.len(), page.metadata.remaining_item_count),
        (2, Some(1))
    );
    assert_eq!(
        api.list_metadata(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        3
    );
    let refused = api
        .list(&ListParams::default().fields("nonsense=1"))
        .await
        .unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 400));
}
