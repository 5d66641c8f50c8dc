//! What is not served here goes to the API server: with the caller's credentials if it has some, with the
//! wrapper's own only for the few things kube-proxy and CoreDNS need.

use super::path::{Path, Target};
use super::{Answer, Server, boxed, header, refuse};
use crate::discovery::Question;
use edgegrid_machinery::status::{GroupResource, Status};
use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::request::Parts;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use std::time::Duration;
use tokio::time::timeout;

/// How long the API server may take to start its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// No request to be passed on is longer; that is the API server's own limit.
const MAX_BODY_BYTES: usize = 3 << 20;
/// Headers that belong to one connection and not to the request.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    CONTENT_LENGTH,
    HOST,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// All that is passed on under the wrapper's own name.
const HARMLESS: [HeaderName; 3] = [ACCEPT, CONTENT_TYPE, USER_AGENT];

impl Server {
    /// Passes a request on, or answers why not.
    pub(super) async fn pass(&self, parts: &Parts, body: super::Body, path: &Path) -> Answer {
        if parts.headers.contains_key(UPGRADE) || parts.method == Method::CONNECT {
            return refuse(&Status::bad_request(
                "connections are not handed over here, use the API server",
            ));
        }
        let own_name = !parts.headers.contains_key(AUTHORIZATION);
        if own_name && !is_allowed(&parts.method, path) {
            return refuse(&forbidden(parts, path));
        }
        let accept = header(&parts.headers, &ACCEPT);
        if let Some(question) = Question::new(&parts.method, &parts.uri, accept) {
            return self.discover(parts, own_name, question).await;
        }
        self.forward(parts, body, own_name).await
    }

    /// Passes a request on under one of the two names.
    pub(super) async fn forward(&self, parts: &Parts, body: super::Body, own_name: bool) -> Answer {
        let client = if own_name {
            &self.link.own
        } else {
            &self.link.bare
        };
        let uri = parts.uri.path_and_query().map_or("/", |uri| uri.as_str());
        let body = match Limited::new(body, MAX_BODY_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => return refuse(&Status::request_too_large(MAX_BODY_BYTES)),
        };
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = parts.method.clone();
        *request.headers_mut() = passed_on(&parts.headers, own_name);
        match uri.parse() {
            Ok(uri) => *request.uri_mut() = uri,
            Err(_) => return refuse(&Status::bad_request("the path cannot be passed on")),
        }
        match timeout(ANSWER_TIMEOUT, client.send(request)).await {
            Ok(Ok(response)) => {
                let mut response = response.map(boxed);
                for name in &HOP_BY_HOP {
                    response.headers_mut().remove(name);
                }
                response
            }
            Ok(Err(error)) => refuse(&Status::unavailable(format!(
                "the API server cannot be reached through the wrapper: {error}"
            ))),
            Err(_) => refuse(&Status::timeout("the API server does not answer", 1)),
        }
    }
}

/// What the wrapper's own credentials may be used for.
fn is_allowed(method: &Method, path: &Path) -> bool {
    match path {
        Path::Resource(target) => {
            let Target { group, plural, .. } = target;
            let name = (
                group.as_str(),
                plural.as_str(),
                target.subresource.as_deref(),
            );
            match name {
                ("" | "events.k8s.io", "events", None) => {
                    let in_namespace = target.namespace.is_some();
                    in_namespace && (method == Method::POST || method == Method::PATCH)
                }
                ("", "nodes", None) => method == Method::GET,
                _ => false,
            }
        }
        // Discovery and the version are open to everybody.
        Path::Other => method == Method::GET,
        Path::Own(_) | Path::Unit { .. } => false,
    }
}

fn forbidden(parts: &Parts, path: &Path) -> Status {
    let why = format!(
        "the wrapper passes {} {} on only with the caller's own credentials; use the API server, or send a token over TLS",
        parts.method,
        parts.uri.path()
    );
    let (resource, name) = match path {
        Path::Resource(target) => (
            GroupResource::new(&*target.group, &*target.plural),
            target.name.clone().unwrap_or_default(),
        ),
        _ => (GroupResource::new("", ""), String::new()),
    };
    Status::forbidden(&resource, &name, why)
}

fn passed_on(headers: &HeaderMap, own_name: bool) -> HeaderMap {
    let mut passed = headers.clone();
    // A connection may name further headers that are meant for it alone.
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        passed.remove(name);
    }
    if own_name {
        // Above all nothing that asks to act as somebody else.
        let all: Vec<HeaderName> = passed.keys().cloned().collect();
        for name in all.iter().filter(|name| !HARMLESS.contains(name)) {
            passed.remove(name);
        }
    }
    passed
}
