//! A client that hides nothing: codes, warnings and bodies as they are.

use axum::Router;
use axum::body::Body;
use edgegrid_apiserver::ApiServer;
use http::{Request, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

/// A server of its own, and the way to it.
#[derive(Clone)]
pub(crate) struct Caller(Router);

impl Caller {
    pub(crate) fn new() -> Self {
        Self(ApiServer::builder().build().router())
    }

    /// Sends a JSON body, or none if it is null.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &Value) -> Reply {
        let media = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let text = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = Request::builder().method(method).uri(path);
        let request = request.header(header::CONTENT_TYPE, media).body(text);
        self.call(request.unwrap()).await
    }

    /// The same where it must succeed.
    pub(crate) async fn must(&self, method: &str, path: &str, body: &Value) -> Value {
        let reply = self.send(method, path, body).await;
        assert!(reply.code < 300, "{method} {path}: {reply:?}");
        reply.body
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &Value::Null).await
    }

    pub(crate) async fn call(&self, request: Request<String>) -> Reply {
        let response = self.0.clone().oneshot(request.map(Body::from)).await;
        let (parts, body) = response.unwrap().into_parts();
        let warnings = parts.headers.get_all(header::WARNING).iter();
        Reply {
            code: parts.status.as_u16(),
            warnings: warnings.map(|text| said(text.to_str().unwrap())).collect(),
            body: serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap(),
        }
    }
}

impl Reply {
    pub(crate) fn text(&self, key: &str) -> &str {
        self.body[key].as_str().unwrap_or_default()
    }

    /// Fields that the causes of a refusal name.
    pub(crate) fn fields(&self) -> Vec<&str> {
        let causes = self.body["details"]["causes"].as_array();
        let causes = causes.into_iter().flatten();
        causes.filter_map(|cause| cause["field"].as_str()).collect()
    }
}

/// The text of a warning header.
fn said(header: &str) -> String {
    let text = header.strip_prefix("299 - \"");
    let text = text.and_then(|text| text.strip_suffix('"'));
    text.unwrap_or(header).replace("\\\"", "\"")
}
