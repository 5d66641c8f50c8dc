//! A store with a reader over it, and a client that reads events one by one.

use edgegrid_listwatch::{Body, Read, Reader, Resource, Store, storable};
use edgegrid_store::{Expect, Limits};
use futures::FutureExt;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct Server {
    pub(crate) store: Store,
    pub(crate) reader: Reader,
    pub(crate) maps: Arc<Resource>,
}

/// The events of a watch.
pub(crate) struct Events {
    body: Body,
    buffer: Vec<u8>,
}

impl Server {
    pub(crate) fn new(history: usize) -> Self {
        let limits = Limits {
            events: history,
            ..Limits::default()
        };
        let store = Store::builder().limits(limits).build();
        let maps = Resource::new("", "v1", "ConfigMap", "configmaps").namespaced();
        let maps = maps.selectable("data.tier", "none").shared();
        Self {
            reader: Reader::new(store.clone(), 7),
            store,
            maps,
        }
    }

    /// Writes an object with a label `app` and a field `tier`, and says at which revision.
    pub(crate) fn put(&self, namespace: &str, name: &str, app: &str, tier: &str) -> u64 {
        let object = json!({
            "kind": "ConfigMap", "apiVersion": "v1", "data": {"tier": tier},
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        });
        let key = self.maps.key(Some(namespace), name);
        self.store
            .put(key, storable(&object), Expect::Anything)
            .unwrap()
            .revision
    }

    pub(crate) fn delete(&self, namespace: &str, name: &str) -> Option<u64> {
        let key = self.maps.key(Some(namespace), name);
        Some(self.store.delete(key, Expect::Anything).unwrap()?.revision)
    }

    pub(crate) async fn ask(&self, read: Read<'_>) -> (u16, Value) {
        let response = self.reader.read(read).await;
        let code = response.status().as_u16();
        let length = http_body::Body::size_hint(response.body()).exact();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(
            length,
            Some(bytes.len() as u64),
            "the announced length is the real one"
        );
        (code, serde_json::from_slice(&bytes).unwrap())
    }

    pub(crate) async fn list(&self, query: &str) -> (u16, Value) {
        self.ask(Read {
            query,
            ..Read::all(&self.maps)
        })
        .await
    }

    pub(crate) async fn watch(&self, query: &str) -> Events {
        let query = format!("watch=true&{query}");
        let response = self
            .reader
            .read(Read {
                query: &query,
                ..Read::all(&self.maps)
            })
            .await;
        assert_eq!(response.status(), 200, "{query}");
        Events {
            body: response.into_body(),
            buffer: Vec::new(),
        }
    }
}

impl Events {
    /// The next event; none when the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.buffer.extend_from_slice(frame.data_ref().unwrap());
        }
    }

    /// The next event if there is one now; `None` if not yet, `Some(None)` at the end.
    #[allow(
        clippy::option_option,
        reason = "not yet and never again are two things"
    )]
    pub(crate) async fn now(&mut self) -> Option<Option<Value>> {
        tokio::task::yield_now().await; // a fresh budget, or tokio itself may say "not yet"
        self.next().now_or_never()
    }

    /// Everything there is now, in short form.
    pub(crate) async fn all_now(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(Some(event)) = self.now().await {
            all.push(short(&event));
        }
        all
    }
}

/// `TYPE name@revision`.
pub(crate) fn short(event: &Value) -> String {
    let metadata = &event["object"]["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    format!(
        "{} {}@{}",
        text(&event["type"]),
        text(&metadata["name"]),
        text(&metadata["resourceVersion"])
    )
}

/// `name@revision` of each item.
pub(crate) fn items(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| format!("{}@{}", name(item), version(item)))
        .collect()
}

pub(crate) fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or("-")
}

/// `namespace/name`.
pub(crate) fn name(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{}/{}",
        metadata["namespace"].as_str().unwrap(),
        metadata["name"].as_str().unwrap()
    )
}

/// Key and revision of each object.
pub(crate) type Contents = BTreeMap<String, String>;
