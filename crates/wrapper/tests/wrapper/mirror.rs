//! A client that follows the protocol to the letter, as client-go's reflector does, and keeps what
//! it is told.

use bytes::{Buf, BytesMut};
use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::pin::Pin;
use tower::BoxError;

type Frames = Pin<Box<dyn futures::Stream<Item = Result<bytes::Bytes, BoxError>> + Send>>;

/// How a client starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// LIST in pages, then WATCH.
    Paged,
    /// `WatchList`.
    Streamed,
}

/// What a client believes of one kind.
pub(crate) struct Mirror {
    client: kube::Client,
    path: String,
    style: Style,
    selector: &'static str,
    pub(crate) objects: BTreeMap<String, Value>,
    revision: Option<String>,
    stream: Option<Frames>,
    buffer: BytesMut,
    /// While a streamed list is on its way: what it has shown so far.
    initial: Option<BTreeMap<String, Value>>,
    pub(crate) relists: usize,
    pub(crate) events: usize,
}

impl Mirror {
    pub(crate) fn new(
        client: kube::Client,
        path: &str,
        style: Style,
        selector: &'static str,
    ) -> Self {
        Self {
            client,
            path: path.to_owned(),
            style,
            selector,
            objects: BTreeMap::new(),
            revision: None,
            stream: None,
            buffer: BytesMut::new(),
            initial: None,
            relists: 0,
            events: 0,
        }
    }

    /// Loses its connection, and goes on with another server if given one.
    pub(crate) fn disconnect(&mut self, other: Option<kube::Client>) {
        self.stream = None;
        self.initial = None;
        self.buffer.clear();
        if let Some(client) = other {
            self.client = client;
        }
    }

    /// Takes in what is there without waiting; `seen` is shown every object that comes.
    pub(crate) async fn pump(&mut self, seen: &mut impl FnMut(&Value)) {
        if self.stream.is_none() && !self.connect(seen).await {
            return;
        }
        loop {
            let Some(stream) = &mut self.stream else {
                return;
            };
            let ready = futures::poll!(stream.next());
            match ready {
                std::task::Poll::Pending => return,
                std::task::Poll::Ready(Some(Ok(chunk))) => {
                    self.buffer.extend_from_slice(&chunk);
                    self.take_lines(seen);
                }
                std::task::Poll::Ready(_) => return self.disconnect(None),
            }
        }
    }

    /// Opens a watch, after a list where one is needed; false if nothing could be done.
    async fn connect(&mut self, seen: &mut impl FnMut(&Value)) -> bool {
        if self.revision.is_none() && self.style == Style::Paged && !self.list(seen).await {
            return false;
        }
        let mut query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds=300&{}",
            self.selector
        );
        if let Some(revision) = &self.revision {
            query.push_str("&resourceVersion=");
            query.push_str(revision);
        } else {
            query.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
            self.initial = Some(BTreeMap::new());
        }
        let Some(stream) = self.ask(&query).await else {
            return false;
        };
        self.stream = Some(stream);
        true
    }

    async fn list(&mut self, seen: &mut impl FnMut(&Value)) -> bool {
        let (mut token, mut objects) = (String::new(), BTreeMap::new());
        loop {
            let query = format!("limit=3&continue={token}&{}", self.selector);
            let Some(stream) = self.ask(&query).await else {
                return false;
            };
            let chunks: Vec<_> = stream.collect().await;
            let bytes: Vec<u8> = chunks.into_iter().flatten().flatten().collect();
            let Ok(page) = serde_json::from_slice::<Value>(&bytes) else {
                return false;
            };
            for item in page["items"].as_array().into_iter().flatten() {
                seen(item);
                objects.insert(name(item), strip(item));
            }
            let next = page["metadata"]["continue"].as_str();
            next.unwrap_or_default().clone_into(&mut token);
            if token.is_empty() {
                self.revision = page["metadata"]["resourceVersion"]
                    .as_str()
                    .map(str::to_owned);
                self.objects = objects;
                self.relists += 1;
                return true;
            }
        }
    }

    async fn ask(&self, query: &str) -> Option<Frames> {
        let request =
            Request::get(format!("{}?{query}", self.path)).body(kube::client::Body::empty());
        let response = self.client.send(request.unwrap()).await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let frames = response.into_body().into_data_stream();
        Some(frames.map(|chunk| chunk.map_err(BoxError::from)).boxed())
    }

    fn take_lines(&mut self, seen: &mut impl FnMut(&Value)) {
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let event: Value = serde_json::from_slice(&self.buffer[..end]).unwrap();
            self.buffer.advance(end + 1);
            let object = &event["object"];
            let revision = object["metadata"]["resourceVersion"].as_str();
            match event["type"].as_str().unwrap() {
                "ERROR" => {
                    assert_eq!(object["code"], 410, "{object}");
                    self.revision = None;
                    return self.disconnect(None);
                }
                "BOOKMARK" => {
                    let ends =
                        object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
                    if ends && let Some(initial) = self.initial.take() {
                        self.objects = initial;
                        self.relists += 1;
                    }
                }
                "DELETED" => drop(self.objects.remove(&name(object))),
                kind => {
                    seen(object);
                    self.events += 1;
                    let (name, object) = (name(object), strip(object));
                    if let Some(initial) = &mut self.initial {
                        initial.insert(name, object);
                    } else {
                        let known = self.objects.insert(name, object.clone());
                        // An event that says nothing new is a waste of everybody's time.
                        assert_ne!(known, Some(object), "{kind} without a change");
                    }
                }
            }
            if self.initial.is_none() {
                self.follow(revision);
            }
        }
    }

    /// Revisions only ever grow.
    fn follow(&mut self, revision: Option<&str>) {
        let number = |text: &str| text.parse::<u64>().unwrap();
        let revision = revision.unwrap();
        if let Some(before) = &self.revision {
            assert!(
                number(revision) >= number(before),
                "{revision} after {before}"
            );
        }
        self.revision = Some(revision.to_owned());
    }
}

pub(crate) fn name(object: &Value) -> String {
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    format!("{}/{}", text("namespace"), text("name"))
}

/// An object without its revision, and without what changes upstream though nothing changes here.
pub(crate) fn strip(object: &Value) -> Value {
    let mut object = object.clone();
    for field in ["resourceVersion", "generation"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}
