//! Prints what reading costs on this machine: `cargo run --release --example measure_listwatch`.

#![allow(
    clippy::cast_precision_loss,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "printing rounded figures, or nothing, is the job"
)]

use edgegrid_listwatch::{Body, Read, Reader, Resource, Store, storable};
use edgegrid_store::Expect;
use futures::FutureExt;
use http_body_util::BodyExt;
use serde_json::json;
use std::sync::Arc;
use tokio::task::unconstrained;
use tokio::time::Instant;

const OBJECTS: usize = 10_000;
const WATCHERS: usize = 500;
const CHANGES: usize = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let pods = Resource::new("", "v1", "Pod", "pods").namespaced().shared();
    let store = Store::default();
    for index in 0..OBJECTS {
        put(&store, &pods, index, "pending");
    }
    let reader = Reader::new(store.clone(), 1);
    let size = list(&reader, Read::all(&pods), "first list (parses)").await;
    println!("{:<44} {:>8} bytes", "each object", size / OBJECTS);
    list(&reader, Read::all(&pods), "list").await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    list(
        &reader,
        Read {
            accept,
            ..Read::all(&pods)
        },
        "list of metadata",
    )
    .await;
    let query = "labelSelector=app%3Dweb-7";
    list(
        &reader,
        Read {
            query,
            ..Read::all(&pods)
        },
        "first list with a label selector",
    )
    .await;
    list(
        &reader,
        Read {
            query,
            ..Read::all(&pods)
        },
        "list with a label selector",
    )
    .await;
    let query = "limit=500";
    list(
        &reader,
        Read {
            query,
            ..Read::all(&pods)
        },
        "page of 500",
    )
    .await;
    fan_out(&store, &reader, &pods).await;
}

async fn list(reader: &Reader, read: Read<'_>, what: &str) -> usize {
    let start = Instant::now();
    let mut body = reader.read(read).await.into_body();
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        size += frame.unwrap().data_ref().unwrap().len();
    }
    println!("{what:<44} {:>8} µs", start.elapsed().as_micros());
    size
}

async fn fan_out(store: &Store, reader: &Reader, pods: &Arc<Resource>) {
    let query = format!("watch=1&resourceVersion={}", store.revision());
    let mut bodies: Vec<Body> = Vec::new();
    for _ in 0..WATCHERS {
        bodies.push(
            reader
                .read(Read {
                    query: &query,
                    ..Read::all(pods)
                })
                .await
                .into_body(),
        );
    }
    let start = Instant::now();
    let mut bytes = 0;
    for index in 0..CHANGES {
        put(store, pods, index, "running");
        for body in &mut bodies {
            while let Some(Some(frame)) = unconstrained(body.frame()).now_or_never() {
                bytes += frame.unwrap().data_ref().unwrap().len();
            }
        }
    }
    let each = start.elapsed().as_nanos() as f64 / (WATCHERS * CHANGES) as f64;
    println!(
        "{:<44} {each:>8.0} ns",
        format!("{WATCHERS} watchers x {CHANGES} changes, each event")
    );
    println!("{:<44} {:>8} MB", "sent", bytes / 1_000_000);
}

fn put(store: &Store, pods: &Resource, index: usize, phase: &str) {
    let (namespace, name) = (format!("ns-{:02}", index % 50), format!("pod-{index:05}"));
    let labels = json!({"app": format!("web-{}", index % 20), "pod-template-hash": "6d4cf56db6"});
    let object = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "web", "args": vec!["x".repeat(40); 30]}]},
        "status": {"phase": phase},
    });
    store
        .put(
            pods.key(Some(&namespace), &name),
            storable(&object),
            Expect::Anything,
        )
        .unwrap();
}
