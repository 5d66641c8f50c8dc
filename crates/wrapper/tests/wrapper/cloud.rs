//! An API server of its own: the kinds the wrapper reads, over a link that can be cut, behind a
//! stand-in for lite-apiserver if wanted. Where ours is kinder than kube-apiserver it does as that one:
//! a watch from a revision of the future is answered with silence.

use crate::mirror::name;
use bytes::Bytes;
use edgegrid_listwatch::{Read, Reader, Store, storable};
use edgegrid_store::Expect;
use edgegrid_wrapper::ServedKind;
use futures::{FutureExt, Stream, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tokio::time::Instant;
use tower::BoxError;

/// How a look at the cluster's identity is told from other lists.
const LOOK: &str = "metadata.name%3Dkube-system";

type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The cloud; clones share it.
#[derive(Clone)]
pub(crate) struct Cloud {
    server: Arc<Mutex<(Store, Reader)>>,
    link: watch::Sender<Link>,
    /// So many looks are answered by a server that lags behind.
    late_looks: Arc<Mutex<usize>>,
    refusal: Arc<Mutex<Option<StatusCode>>>,
    /// Requests with this in their URI are answered as this says.
    odd: Arc<Mutex<Option<(String, Odd)>>>,
    lite: Option<Arc<Mutex<BTreeMap<String, Bytes>>>>,
    /// All that was asked for, and when.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    pub(crate) times: Arc<Mutex<Vec<Instant>>>,
}

/// How a request is answered that is not answered as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Odd {
    /// Not at all.
    Never,
    /// With an empty list of long ago.
    LongAgo,
}

/// What the link to the cloud does.
#[derive(Debug, Clone, Copy, Default)]
struct Link {
    cut: bool,
    /// How often it was cut: connections of before end.
    cuts: u64,
    /// Connections live, and nothing comes over them.
    silent: bool,
}

/// What a cloud knew at some time.
pub(crate) struct Backup {
    revision: u64,
    objects: Vec<(String, Bytes)>,
}

impl Default for Cloud {
    fn default() -> Self {
        let store = Store::default();
        let cloud = Self {
            server: Arc::new(Mutex::new((store.clone(), Reader::new(store, 1)))),
            link: watch::Sender::new(Link::default()),
            late_looks: Arc::default(),
            refusal: Arc::default(),
            odd: Arc::default(),
            lite: None,
            requests: Arc::default(),
            times: Arc::default(),
        };
        let metadata = json!({ "name": "kube-system", "uid": "the-cluster" });
        cloud.put(ServedKind::Namespaces, &json!({ "metadata": metadata }));
        cloud
    }
}

impl Cloud {
    /// The same, seen through a lite-apiserver: it keeps lists by the first word of the User-Agent
    /// and the kind, whatever the selector, and works what watches bring into them without a look
    /// at what is there. Cut off, it answers those lists and ends watches at once.
    pub(crate) fn behind_lite_apiserver(mut self) -> Self {
        self.lite = Some(Arc::default());
        self
    }

    fn store(&self) -> Store {
        self.server.lock().unwrap().0.clone()
    }

    pub(crate) fn backup(&self) -> Backup {
        let snapshot = self.store().snapshot();
        let objects = snapshot.iter();
        Backup {
            revision: snapshot.revision(),
            objects: objects
                .map(|entry| (entry.key().to_owned(), entry.value().clone()))
                .collect(),
        }
    }

    /// Starts again with the data of a backup, as another process: whoever watches is cut off first.
    pub(crate) fn restore(&self, backup: &Backup) {
        let store: Store = Store::builder()
            .after(backup.revision - backup.objects.len() as u64)
            .build();
        for (key, value) in &backup.objects {
            let put = store.put(key.clone(), value.clone(), Expect::Anything);
            put.unwrap();
        }
        *self.server.lock().unwrap() = (store.clone(), Reader::new(store, 1));
        self.link.send_modify(|link| link.cuts += 1);
    }

    /// Has a server that lags behind answer some looks at namespace kube-system.
    pub(crate) fn answer_looks_late(&self, looks: usize) {
        *self.late_looks.lock().unwrap() = looks;
    }

    /// Refuses everything, or nothing any more.
    pub(crate) fn refuse(&self, code: Option<StatusCode>) {
        *self.refusal.lock().unwrap() = code;
    }

    /// Answers requests with a text in their URI in another way.
    pub(crate) fn answer_oddly(&self, to: &str, how: Odd) {
        *self.odd.lock().unwrap() = Some((to.to_owned(), how));
    }

    /// Lets the link fall silent, with all connections alive.
    pub(crate) fn silence(&self) {
        self.link.send_modify(|link| link.silent = true);
    }

    /// How many lists were asked for, without looks at kube-system.
    pub(crate) fn lists(&self) -> usize {
        let requests = self.requests.lock().unwrap();
        let lists = requests.iter();
        let kinds = ServedKind::ALL.map(ServedKind::path);
        let of_kind = |uri: &str| kinds.iter().any(|path| uri.starts_with(&**path));
        let lists = lists.filter(|uri| of_kind(uri));
        let lists = lists.filter(|uri| !uri.contains("watch=true") && !uri.contains(LOOK));
        lists.count()
    }

    pub(crate) fn put(&self, kind: ServedKind, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let namespace = object["metadata"]["namespace"].as_str();
        let key = kind.resource().key(namespace, name);
        let stored = self.store().put(key, storable(object), Expect::Anything);
        stored.unwrap();
    }

    pub(crate) fn delete(&self, kind: ServedKind, namespace: Option<&str>, name: &str) {
        let key = kind.resource().key(namespace, name);
        self.store().delete(key, Expect::Anything).unwrap();
    }

    pub(crate) fn all(&self, kind: ServedKind) -> Vec<Value> {
        let stored = self.store().snapshot().under(&kind.resource().key_prefix);
        let values = stored
            .iter()
            .map(|entry| serde_json::from_slice(entry.value()).unwrap());
        values.collect()
    }

    pub(crate) fn get(
        &self,
        kind: ServedKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<Value> {
        let entry = self.store().get(&kind.resource().key(namespace, name))?;
        Some(serde_json::from_slice(entry.value()).unwrap())
    }

    /// Forgets the past: whoever is behind gets 410.
    pub(crate) fn compact(&self) {
        let store = self.store();
        store.compact(store.revision());
    }

    pub(crate) fn cut(&self, cut: bool) {
        self.link.send_modify(|link| {
            let cuts = link.cuts + u64::from(cut);
            *link = Link {
                cut,
                cuts,
                silent: false,
            };
        });
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.link.borrow().cut
    }

    pub(crate) fn client(&self) -> kube::Client {
        let cloud = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            cloud.clone().answer(request).boxed()
        });
        kube::Client::new(service, "default")
    }

    async fn answer(
        self,
        request: Request<kube::client::Body>,
    ) -> Result<Response<Body>, BoxError> {
        let (head, _) = request.into_parts();
        let uri = head.uri;
        let (path, query) = (
            uri.path().to_owned(),
            uri.query().unwrap_or_default().to_owned(),
        );
        self.requests.lock().unwrap().push(uri.to_string());
        self.times.lock().unwrap().push(Instant::now());
        let header = |name: &str| {
            let value = head.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let is_watch = query.contains("watch=true");
        let agent = header("user-agent");
        let key = format!("{} {path}", agent.split(' ').next().unwrap_or_default());
        let mut link = self.link.subscribe();
        let _ = link.wait_for(|link| !link.silent).await;
        if self.is_cut() {
            return self.while_cut(is_watch, &key);
        }
        if let Some(code) = *self.refusal.lock().unwrap() {
            return Ok(plain(code, Bytes::new()));
        }
        let odd = self.odd.lock().unwrap().clone();
        match odd.filter(|(text, _)| uri.to_string().contains(text)) {
            Some((_, Odd::Never)) => return std::future::pending().await,
            Some((_, Odd::LongAgo)) => {
                let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [] });
                return Ok(plain(StatusCode::OK, Bytes::from(list.to_string())));
            }
            None => {}
        }
        if is_watch && self.is_of_the_future(&query) {
            return Ok(Response::new(self.until_cut(stream::pending())));
        }
        let Some(kind) = ServedKind::ALL.into_iter().find(|kind| kind.path() == path) else {
            return Ok(plain(StatusCode::NOT_FOUND, Bytes::new()));
        };
        let accept = header("accept");
        let read = Read {
            query: &query,
            accept: &accept,
            ..Read::all(kind.resource())
        };
        let reader = self.server.lock().unwrap().1.clone();
        let response = reader.read(read).await;
        let (parts, body) = response.into_parts();
        if !is_watch && uri.to_string().contains(LOOK) && self.is_late() {
            let mut list: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
            list["metadata"]["resourceVersion"] = "1".into();
            return Ok(plain(parts.status, Bytes::from(list.to_string())));
        }
        if let (Some(lite), false) = (&self.lite, is_watch) {
            let bytes = body.collect().await?.to_bytes();
            if parts.status == StatusCode::OK {
                lite.lock().unwrap().insert(key, bytes.clone());
            }
            return Ok(plain(parts.status, bytes));
        }
        let frames = body.into_data_stream().map(|data| Ok(data?));
        let body = self.until_cut(frames);
        let Some(lite) = self.lite.clone() else {
            return Ok(Response::from_parts(parts, body));
        };
        let body = body.map_frame(move |frame| {
            if let (Some(data), Some(list)) = (frame.data_ref(), lite.lock().unwrap().get_mut(&key))
            {
                *list = folded(list, data);
            }
            frame
        });
        Ok(Response::from_parts(parts, body.boxed_unsync()))
    }

    fn while_cut(&self, is_watch: bool, key: &str) -> Result<Response<Body>, BoxError> {
        match &self.lite {
            None => Err("the link is cut".into()),
            Some(_) if is_watch => Ok(plain(StatusCode::OK, Bytes::new())),
            Some(lite) => Ok(match lite.lock().unwrap().get(key) {
                Some(list) => plain(StatusCode::OK, list.clone()),
                None => plain(StatusCode::NOT_FOUND, Bytes::new()),
            }),
        }
    }

    /// Whether a request asks for what comes after a revision that is yet to come.
    fn is_of_the_future(&self, query: &str) -> bool {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let asked = pairs.find(|(name, _)| *name == "resourceVersion");
        let asked: Option<u64> = asked.and_then(|(_, revision)| revision.parse().ok());
        asked.is_some_and(|revision| revision > self.store().revision())
    }

    fn is_late(&self) -> bool {
        let mut late = self.late_looks.lock().unwrap();
        let is_late = *late > 0;
        *late = late.saturating_sub(1);
        is_late
    }

    /// A body that ends with an error when the link is cut, and stands still while it is silent.
    fn until_cut(
        &self,
        data: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
    ) -> Body {
        let (mut cut, link) = (self.link.subscribe(), self.link.clone());
        let cuts = cut.borrow().cuts;
        let cut = async move {
            let _ = cut.wait_for(|link| link.cuts != cuts).await;
        };
        let end = self.link.subscribe();
        let frames = data.then(move |data| {
            let mut link = link.subscribe();
            async move {
                let _ = link.wait_for(|link| !link.silent).await;
                data.map(Frame::data)
            }
        });
        let frames = frames.take_until(cut.boxed());
        let last = stream::once(async move {
            let is_cut = end.borrow().cuts != cuts;
            is_cut.then(|| Err(BoxError::from("the link was cut")))
        });
        StreamBody::new(frames.chain(last.filter_map(|last| async move { last }))).boxed_unsync()
    }
}

/// A kept list with the events of a watch in it: what is added is appended, there or not, and the
/// revision stays that of the list.
fn folded(list: &[u8], events: &[u8]) -> Bytes {
    let mut list: Value = serde_json::from_slice(list).unwrap();
    let items = list["items"].as_array_mut().unwrap();
    for line in events.split(|byte| *byte == b'\n') {
        // A frame may end within an event; lite-apiserver loses some too.
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        let object = &event["object"];
        let same = |item: &Value| name(item) == name(object);
        match event["type"].as_str().unwrap() {
            "ADDED" => items.push(object.clone()),
            "MODIFIED" => {
                let known = items.iter_mut().filter(|item| same(item));
                known.for_each(|item| *item = object.clone());
            }
            "DELETED" => items.retain(|item| !same(item)),
            _ => {}
        }
    }
    Bytes::from(list.to_string())
}

fn plain(code: StatusCode, bytes: Bytes) -> Response<Body> {
    let body = http_body_util::Full::new(bytes).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = code;
    response
}

/// A node with labels.
pub(crate) fn node(name: &str, labels: &[(&str, &str)]) -> Value {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": name, "labels": labels } })
}

/// A service in `default` with an annotation, if any.
pub(crate) fn service(name: &str, keys: Option<&str>) -> Value {
    let mut service = json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "clusterIP": "10.96.0.10", "ports": [{ "port": 80 }] },
    });
    if let Some(keys) = keys {
        service["metadata"]["annotations"] = json!({ "topologyKeys": keys });
    }
    service
}

/// A slice of a service in `default`, with a ready endpoint on each node.
pub(crate) fn slice(name: &str, service: &str, nodes: &[&str]) -> Value {
    let endpoint = |(at, node): (usize, &&str)| {
        let mut endpoint =
            json!({ "addresses": [format!("10.0.0.{at}")], "conditions": { "ready": true } });
        if !node.is_empty() {
            endpoint["nodeName"] = (*node).into();
        }
        endpoint
    };
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": { "name": name, "namespace": "default", "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4", "ports": [{ "port": 80 }],
        "endpoints": nodes.iter().enumerate().map(endpoint).collect::<Vec<_>>(),
    })
}
