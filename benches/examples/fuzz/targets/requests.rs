//! The whole server: any method, path, query, headers and body.

use std::fmt;

use axum::Router;
use axum::body::Body;
use edgegrid_apiserver::ApiServer;
use futures::FutureExt;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower::ServiceExt;

use super::STATE_FOR;
use crate::corpus::{self, QUERIES, WORDS};
use crate::mutate;
use crate::random::Random;
use crate::run::Target;

const METHODS: &[&str] = &[
    "GET", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS", "ODD",
];
const MEDIA_TYPES: &[&str] = &[
    "application/json",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "*/*",
];

/// A request before it is one: what cannot be sent is not an input.
pub(crate) struct Draft {
    method: Method,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            method,
            uri,
            headers,
            body,
        } = self;
        write!(
            f,
            "{method} {uri} {headers:?} {:?}",
            String::from_utf8_lossy(body)
        )
    }
}

/// A server, with a few objects to begin with, that is replaced now and then.
struct Server {
    runtime: Runtime,
    router: Router,
    fed: u64,
}

impl Server {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("invariant: a timer needs nothing");
        let router = fresh(&runtime);
        Self {
            runtime,
            router,
            fed: 0,
        }
    }

    /// Sends a request; panics if the answer is one that no client could read.
    fn send(&mut self, draft: &Draft) -> bool {
        self.fed += 1;
        if self.fed.is_multiple_of(STATE_FOR) {
            self.router = fresh(&self.runtime);
        }
        let mut request = Request::new(Body::from(draft.body.clone()));
        *request.method_mut() = draft.method.clone();
        *request.uri_mut() = draft.uri.clone();
        for (name, value) in &draft.headers {
            request.headers_mut().append(name, value.clone());
        }
        let router = self.router.clone();
        self.runtime.block_on(async {
            let answer = router.oneshot(request).await;
            let answer = answer.unwrap_or_else(|never| match never {});
            // What answers HEAD has no body to look at.
            if draft.method == Method::HEAD {
                return answer.status().is_success();
            }
            read(answer).await
        })
    }
}

/// A server with one object of every kind of the corpus.
fn fresh(runtime: &Runtime) -> Router {
    let router = {
        let _time = runtime.enter();
        ApiServer::builder().build().router()
    };
    for (path, object) in corpus::objects() {
        let mut request = Request::post(path).body(Body::from(object.to_string()));
        if let Ok(request) = &mut request {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(CONTENT_TYPE, json);
        }
        let request = request.expect("invariant: the corpus has valid paths");
        let answer = runtime.block_on(router.clone().oneshot(request));
        let answer = answer.unwrap_or_else(|never| match never {});
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
    }
    router
}

async fn read(answer: Response<Body>) -> bool {
    let code = answer.status();
    let mut body = answer.into_body();
    if body.size_hint().exact().is_none() && code.is_success() {
        // A watch: what it has to say at once, and then it is dropped.
        for _ in 0..8 {
            if body.frame().now_or_never().is_none() {
                break;
            }
        }
        return true;
    }
    let bytes = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let bytes = bytes.unwrap_or_default();
    if !code.is_success() {
        let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        assert_eq!(status["kind"], "Status", "{code}: {bytes:?}");
        assert_eq!(status["code"], code.as_u16(), "{status}");
    }
    code.is_success()
}

/// Reads of random paths.
pub(crate) struct Paths(Server);

impl Paths {
    pub(crate) fn new() -> Self {
        Self(Server::new())
    }
}

impl Target for Paths {
    type Input = Option<Draft>;

    fn draw(&self, random: &mut Random) -> Self::Input {
        let path = path(random);
        draft("GET", &path, random.word(QUERIES))
    }

    fn feed(&mut self, input: &Self::Input) -> bool {
        input.as_ref().is_some_and(|draft| self.0.send(draft))
    }
}

/// Requests with random verbs, headers and bodies.
pub(crate) struct Requests {
    server: Server,
    objects: Vec<(&'static str, Value)>,
    bodies: Vec<Value>,
}

impl Requests {
    pub(crate) fn new() -> Self {
        let objects = corpus::objects();
        let mut bodies = corpus::patches();
        bodies.extend(corpus::json_patches());
        bodies.extend(objects.iter().map(|(_, object)| object.clone()));
        bodies.push(
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"}}),
        );
        bodies.push(
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 3}}),
        );
        Self {
            server: Server::new(),
            objects,
            bodies,
        }
    }

    /// A path and a body that belong together, mostly.
    fn subject(&self, random: &mut Random) -> (String, Value) {
        let (collection, object) = random.pick(&self.objects).clone();
        let mut path = collection.to_owned();
        if !random.once_in(3) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            path = format!("{path}/{name}");
            if random.once_in(4) {
                let below = ["status", "scale", "finalize", "binding", "eviction", "log"];
                path = format!("{path}/{}", random.pick(&below));
            }
        }
        let body = match random.below(3) {
            0 => object,
            1 => random.pick(&corpus::patches()).clone(),
            _ => random.pick(&self.bodies).clone(),
        };
        (path, mutate::value(random, body, &self.bodies))
    }
}

impl Target for Requests {
    type Input = Option<Draft>;

    fn draw(&self, random: &mut Random) -> Self::Input {
        let (mut path, body) = self.subject(random);
        if random.once_in(10) {
            path = self::path(random);
        }
        let mut query = random.word(QUERIES).to_owned();
        if random.once_in(4) {
            query = mutate::text(random, &query);
        }
        let mut draft = draft(random.word(METHODS), &path, &query)?;
        draft.body = body.to_string().into_bytes();
        if random.once_in(5) {
            mutate::bytes(random, &mut draft.body);
        }
        for name in [CONTENT_TYPE, ACCEPT, USER_AGENT] {
            let mut value = random.word(MEDIA_TYPES).as_bytes().to_vec();
            if random.once_in(10) {
                mutate::bytes(random, &mut value);
            }
            let is_left_out = name != CONTENT_TYPE && !random.once_in(4);
            if let (false, Ok(value)) = (is_left_out, HeaderValue::from_bytes(&value)) {
                draft.headers.push((name, value));
            }
        }
        Some(draft)
    }

    fn feed(&mut self, input: &Self::Input) -> bool {
        input.as_ref().is_some_and(|draft| self.server.send(draft))
    }
}

/// The draft of a request, if there can be one with this path and query.
fn draft(method: &str, path: &str, query: &str) -> Option<Draft> {
    let uri = if query.is_empty() {
        path.parse()
    } else {
        format!("{path}?{query}").parse()
    };
    Some(Draft {
        method: method.parse().ok()?,
        uri: uri.ok()?,
        headers: Vec::new(),
        body: Vec::new(),
    })
}

/// Segments that lead somewhere, in an order that mostly does not.
fn path(random: &mut Random) -> String {
    const SEGMENTS: &[&str] = &[
        "api",
        "apis",
        "v1",
        "apps",
        "example.com",
        "namespaces",
        "default",
        "pods",
        "deployments",
        "things",
        "a",
        "status",
        "scale",
        "finalize",
        "watch",
        "version",
        "healthz",
        "nodes",
        "",
        "%2e",
        "%00",
        "%c3%28",
    ];
    let mut path = if random.once_in(2) {
        random.pick(&corpus::objects()).0.to_owned()
    } else {
        String::new()
    };
    for _ in 0..random.below(7) {
        path.push('/');
        let segment = if random.once_in(6) {
            random.word(WORDS)
        } else {
            random.word(SEGMENTS)
        };
        path.push_str(segment);
    }
    if random.once_in(4) {
        path = mutate::text(random, &path);
    }
    path
}
