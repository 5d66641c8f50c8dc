//! Requests and their answers.
//!
//! ```text
//! request ─► path ─┬─ own: /healthz /readyz /metrics /debug/view
//!                  ├─ served kind, GET ─► ready? ─► listwatch over the view's store
//!                  ├─ served kind, else ─► refused: use the API server
//!                  ├─ /superedge-ingress/<unit>/… ─► the same over the unit's store
//!                  ├─ discovery, /version ─► proxy, or the last good answer
//!                  └─ anything else ─► proxy
//! ```

mod counted;
mod discovery;
pub(crate) mod listen;
mod path;
mod proxy;
mod readyz;
pub(crate) mod tls;

use crate::identity::{Access, Identity};
use crate::kinds::ServedKind;
use crate::metrics::Metrics;
use crate::publish::{Publisher, UnitView};
use crate::tokens::Tokens;
use crate::upstream::Link;
use bytes::Bytes;
use counted::Counted;
use edgegrid_listwatch::{Read, Reader, status_response};
use edgegrid_machinery::selector::FieldSelector;
use edgegrid_machinery::status::{GroupResource, Status};
use edgegrid_runtime::readyz::is_verbose;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use path::{Path, Target};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tower::BoxError;

pub(crate) type Body = UnsyncBoxBody<Bytes, Broken>;
pub(crate) type Answer = Response<Body>;

/// A body that did not come to its end.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broken(BoxError);

/// Seconds since upstream was last heard of, on answers given while it is not.
const AGE: HeaderName = HeaderName::from_static("x-edgegrid-view-age-seconds");
/// What everybody may ask for.
const HEALTH: [&str; 3] = ["healthz", "livez", "readyz"];
/// When to come back if the view is not complete yet.
const RETRY_SECONDS: u32 = 1;

/// Answers requests; clones share everything.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) link: Link,
    pub(crate) metrics: Arc<Metrics>,
    /// How many watches may still be opened.
    pub(crate) watches: Arc<Semaphore>,
    /// Whether `/debug/…` beyond the view is there.
    pub(crate) debug: bool,
    /// Who may read over TLS.
    pub(crate) access: Arc<Access>,
    /// How tokens are verified, if they are accepted at all.
    pub(crate) tokens: Option<Arc<Tokens>>,
}

/// Where a request comes from.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// From this node.
    Local,
    /// Over TLS, with a certificate or without.
    Remote(Option<Identity>),
}

impl Server {
    /// Answers a request, refusals included.
    pub(crate) async fn answer(&self, request: Request<Body>, caller: &Caller) -> Answer {
        let (parts, body) = request.into_parts();
        let path = match Path::parse(parts.uri.path()) {
            Ok(Path::Own(own)) if HEALTH.contains(&&*own) => Ok(Path::Own(own)),
            path => self.admit(caller, &parts).await.and(path),
        };
        let answer = match path {
            Ok(Path::Own(own)) => self.own(&own, &parts),
            Ok(Path::Unit { unit, rest }) => self.unit(&parts, body, &unit, &rest).await,
            Ok(path) => self.api(&parts, body, path).await,
            Err(status) => refuse(&status),
        };
        let code = answer.status().as_u16().to_string();
        self.metrics
            .requests
            .get_or_create(&vec![("code", code)])
            .inc();
        answer
    }

    /// Refuses who may not read.
    async fn admit(&self, caller: &Caller, parts: &Parts) -> Result<(), Status> {
        let Caller::Remote(certified) = caller else {
            return Ok(());
        };
        let who = match (certified, &self.tokens) {
            (Some(who), _) => who.clone(),
            (None, Some(tokens)) => {
                let header = header(&parts.headers, &AUTHORIZATION);
                let token = header
                    .strip_prefix("Bearer ")
                    .ok_or_else(Status::unauthorized)?;
                let keys = self.publisher.keys().unwrap_or_default();
                let now = self.publisher.now().as_second();
                let who = tokens.identify(token, &keys, now).await;
                who.map_err(|refused| {
                    tracing::debug!(%refused, "token refused");
                    Status::unauthorized()
                })?
            }
            (None, None) => return Err(Status::unauthorized()),
        };
        if self.access.allows(&who) {
            return Ok(());
        }
        let why = format!("{} may not read this node's view", who.user);
        Err(Status::forbidden(&GroupResource::new("", ""), "", why))
    }

    async fn api(&self, parts: &Parts, body: Body, path: Path) -> Answer {
        let Path::Resource(target) = &path else {
            return self.pass(parts, body, &path).await;
        };
        if let Some(refused) = misspelt(target) {
            return refuse(&refused);
        }
        let index = ServedKind::from_path(&target.group, &target.version, &target.plural);
        match index {
            Some(ServedKind::Nodes) if !self.is_own_node(target, parts) => {
                self.pass(parts, body, &path).await
            }
            Some(kind) if parts.method == Method::GET && target.subresource.is_none() => {
                if !self.publisher.is_ready(kind) {
                    return self.not_ready();
                }
                self.read(&self.publisher.reader, kind, target, parts).await
            }
            Some(kind) => refuse(&elsewhere(kind, target, &parts.method)),
            None => self.pass(parts, body, &path).await,
        }
    }

    /// The API as a unit's ingress sees it: its endpoints, and everything else as it is.
    async fn unit(&self, parts: &Parts, body: Body, unit: &str, rest: &str) -> Answer {
        let path = match Path::parse(rest) {
            Ok(path @ (Path::Resource(_) | Path::Other)) => path,
            Ok(_) => return refuse(&Status::bad_request("a unit has no such view")),
            Err(status) => return refuse(&status),
        };
        let mut parts = parts.clone();
        let query = parts
            .uri
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        match format!("{rest}{query}").parse() {
            Ok(uri) => parts.uri = uri,
            Err(_) => return refuse(&Status::bad_request("no path of an API server")),
        }
        let Path::Resource(target) = &path else {
            return self.pass(&parts, body, &path).await;
        };
        let kind = ServedKind::from_path(&target.group, &target.version, &target.plural);
        let Some(kind) = kind.filter(|kind| kind.is_edited()) else {
            return self.api(&parts, body, path).await;
        };
        if parts.method != Method::GET || target.subresource.is_some() {
            return refuse(&elsewhere(kind, target, &parts.method));
        }
        if let Some(why) = edgegrid_machinery::names::qualified_name(unit).first() {
            return refuse(&Status::bad_request(format!("{unit:?} is no unit: {why}")));
        }
        match self.publisher.unit(unit, kind) {
            UnitView::Ready(reader) => self.read(&reader, kind, target, &parts).await,
            UnitView::NotYet => self.not_ready(),
            UnitView::TooMany => refuse(&Status::too_many_requests(
                "too many units are being looked at",
                RETRY_SECONDS,
            )),
        }
    }

    async fn read(
        &self,
        reader: &Reader,
        kind: ServedKind,
        target: &Target,
        parts: &Parts,
    ) -> Answer {
        let mut query = parts.uri.query().unwrap_or_default().to_owned();
        if target.watch {
            query = format!("watch=true&{query}");
        }
        let read = Read {
            resource: kind.resource(),
            namespace: target.namespace.as_deref(),
            name: target.name.as_deref(),
            query: &query,
            accept: header(&parts.headers, &ACCEPT),
        };
        let answer = reader.read(read).await;
        // Only a watch has no end that is known beforehand.
        let is_watch = answer.body().size_hint().exact().is_none();
        if is_watch && self.watches.available_permits() == 0 {
            return refuse(&Status::too_many_requests(
                "too many watches",
                RETRY_SECONDS,
            ));
        }
        let mut answer = match Arc::clone(&self.watches).try_acquire_owned() {
            Ok(permit) if is_watch => {
                answer.map(|body| boxed(Counted::new(body, permit, self.metrics.watches.clone())))
            }
            _ => answer.map(boxed),
        };
        if let Some(age) = self.publisher.age() {
            answer.headers_mut().insert(AGE, HeaderValue::from(age));
        }
        answer
    }

    fn own(&self, path: &str, parts: &Parts) -> Answer {
        if parts.method != Method::GET {
            return refuse(&Status::method_not_allowed());
        }
        match path {
            "healthz" | "livez" => text(StatusCode::OK, "ok".to_owned()),
            "readyz" if is_verbose(parts.uri.query()) => self.verbose_readiness(),
            "readyz" if self.publisher.is_open() => text(StatusCode::OK, "ok".to_owned()),
            "readyz" => {
                let missing = self.publisher.missing().join(", ");
                text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("not seen yet: {missing}\n"),
                )
            }
            "metrics" => {
                let mut answer = text(StatusCode::OK, self.metrics.text(&self.publisher));
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                answer
                    .headers_mut()
                    .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
                answer
            }
            "debug/view" => {
                let query = parts.uri.query().unwrap_or_default();
                let mut query = form_urlencoded::parse(query.as_bytes());
                let view = match query.find(|(name, _)| name == "service") {
                    Some((_, service)) if service.contains('/') => self.publisher.explain(&service),
                    Some((_, service)) => self.publisher.explain(&format!("default/{service}")),
                    None => self.publisher.overview(),
                };
                let text = serde_json::to_string_pretty(&view).unwrap_or_default();
                json(text + "\n")
            }
            "debug/feeds" if self.debug => {
                let figures = self.publisher.figures();
                text(StatusCode::OK, format!("{figures:#?}\n"))
            }
            _ => refuse(&Status::unknown_path()),
        }
    }

    /// Whether a request for nodes is one for the own node, and no other.
    fn is_own_node(&self, target: &Target, parts: &Parts) -> bool {
        let own = self.publisher.node();
        if let Some(name) = &target.name {
            return name == own && target.subresource.is_none() && parts.method == Method::GET;
        }
        let query = parts.uri.query().unwrap_or_default();
        let selector = form_urlencoded::parse(query.as_bytes())
            .find(|(name, _)| name == "fieldSelector")
            .and_then(|(_, selector)| FieldSelector::parse(&selector).ok());
        let exact = selector
            .as_ref()
            .and_then(|selector| selector.exact("metadata.name"));
        parts.method == Method::GET && exact == Some(own)
    }

    fn not_ready(&self) -> Answer {
        let missing = self.publisher.missing().join(", ");
        let why = format!("the view of this node is not complete yet: {missing}");
        let mut answer = refuse(&Status::unavailable(why));
        answer
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
        answer
    }
}

/// A path under which another version of an edited kind could be read unedited.
fn misspelt(target: &Target) -> Option<Status> {
    let edited = ["endpointslices", "endpoints"].contains(&&*target.plural);
    let known = ServedKind::from_path(&target.group, &target.version, &target.plural).is_some();
    (edited && !known).then(Status::unknown_path)
}

/// Refuses: writes, and what lies below an object, are the API server's.
fn elsewhere(kind: ServedKind, target: &Target, method: &Method) -> Status {
    let resource = kind.resource();
    let group = GroupResource::new(&*resource.group, &*resource.plural);
    let name = target.name.as_deref().unwrap_or_default();
    let why = format!(
        "{method} of {} is not served here, use the API server",
        group.resource
    );
    Status::forbidden(&group, name, why)
}

pub(crate) fn refuse(status: &Status) -> Answer {
    status_response(status).map(boxed)
}

pub(crate) fn boxed<B>(body: B) -> Body
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(|error| Broken(error.into())).boxed_unsync()
}

fn text(code: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(boxed(Full::new(Bytes::from(text))));
    *answer.status_mut() = code;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, plain);
    answer
}

fn json(text: String) -> Answer {
    let mut answer = Response::new(boxed(Full::new(Bytes::from(text))));
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
