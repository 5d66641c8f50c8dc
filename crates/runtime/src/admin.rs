//! What a running process shows of itself over HTTP.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200 while the process runs |
//! | `/readyz` | 200 once nothing is waited for, else 503 and what is |
//! | `/readyz?verbose` | the same, with a line for each thing that was looked at |
//! | `/metrics` | counts, as Prometheus reads them |

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::credentials::Refusals;
use crate::readyz::{self, Check};

/// The media type of what `/metrics` shows.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is still waited for before the process is ready; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    missing: Arc<Mutex<BTreeSet<String>>>,
}

impl Readiness {
    /// Waits for `what`, as "cache of Nodes".
    pub fn expect(&self, what: impl Into<String>) {
        self.missing.lock().insert(what.into());
    }

    /// Waits for `what` no longer.
    pub fn reached(&self, what: &str) {
        self.missing.lock().remove(what);
    }

    /// Whether nothing is waited for.
    pub fn is_ready(&self) -> bool {
        self.missing.lock().is_empty()
    }
}

/// Serves liveness, readiness and metrics.
pub fn router(readiness: Readiness, refusals: Refusals, registry: Registry) -> Router {
    let registry = Arc::new(registry);
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready).with_state((readiness, refusals)))
        .route("/metrics", get(metrics).with_state(registry))
}

/// Serves `router` until dropped: a process that drains still shows that it is well.
pub async fn serve(listener: TcpListener, router: Router) -> io::Result<()> {
    axum::serve(listener, router).await
}

async fn ready(
    State((readiness, refusals)): State<(Readiness, Refusals)>,
    RawQuery(query): RawQuery,
) -> Response {
    let missing = readiness.missing.lock();
    if readyz::is_verbose(query.as_deref()) {
        return readyz::verbose(&checks(&missing, refusals.last())).into_response();
    }
    if missing.is_empty() {
        return "ok\n".into_response();
    }
    let waiting = missing.iter().map(|what| format!("waiting for {what}"));
    let lines = waiting.collect::<Vec<_>>().join("\n") + "\n";
    (StatusCode::SERVICE_UNAVAILABLE, lines).into_response()
}

fn checks(missing: &BTreeSet<String>, refusal: Option<StatusCode>) -> [Check; 2] {
    let startup = if missing.is_empty() {
        Check::ok("startup")
    } else {
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        Check::failed("startup", format!("waiting for {}", missing.join(", ")))
    };
    [startup, Check::credentials(refusal)]
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::BodyExt;
    use prometheus_client::metrics::counter::Counter;
    use tower::ServiceExt;

    use super::*;

    async fn page(router: &Router, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(axum::body::Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn ready_names_what_is_missing_until_nothing_is() {
        let readiness = Readiness::default();
        readiness.expect("cache of Nodes");
        readiness.expect("cache of NodeUnits");
        let router = router(readiness.clone(), Refusals::default(), Registry::default());
        let healthy = (StatusCode::OK, "ok\n".to_owned());
        assert_eq!(page(&router, "/healthz").await, healthy);
        let (status, text) = page(&router, "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            text,
            "waiting for cache of NodeUnits\nwaiting for cache of Nodes\n"
        );
        readiness.reached("cache of Nodes");
        assert!(!readiness.is_ready());
        readiness.reached("cache of NodeUnits");
        assert_eq!(page(&router, "/readyz").await, healthy);
    }

    #[tokio::test]
    async fn ready_tells_of_refused_credentials_and_stays_ready() {
        let (readiness, refusals) = (Readiness::default(), Refusals::default());
        let router = router(readiness.clone(), refusals.clone(), Registry::default());
        let fine = "[+]startup ok\n[+]credentials ok\nreadyz check passed\n";
        let asked = page(&router, "/readyz?verbose").await;
        assert_eq!(asked, (StatusCode::OK, fine.to_owned()));
        refusals.note(StatusCode::UNAUTHORIZED);
        let (status, text) = page(&router, "/readyz?verbose").await;
        assert_eq!(status, StatusCode::OK);
        assert!(
            text.contains("[!]credentials: the API server answers 401"),
            "{text}"
        );
        assert_eq!(page(&router, "/readyz").await.1, "ok\n");
        refusals.note(StatusCode::OK);
        readiness.expect("cache of Nodes");
        readiness.expect("cache of NodeUnits");
        let (status, text) = page(&router, "/readyz?verbose").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        let failed = "[-]startup failed: waiting for cache of NodeUnits, cache of Nodes\n";
        assert!(text.starts_with(failed), "{text}");
        assert!(text.ends_with("readyz check failed\n"), "{text}");
    }

    #[tokio::test]
    async fn metrics_show_what_was_registered() {
        let mut registry = Registry::default();
        let counter: Counter = Counter::default();
        counter.inc();
        registry.register("things", "Things", counter);
        let router = router(Readiness::default(), Refusals::default(), registry);
        let (status, text) = page(&router, "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        assert!(text.contains("things_total 1"), "{text}");
    }
}
