//! The two servers, asked the same.

use anyhow::Result;
use http::header::{CONTENT_TYPE, USER_AGENT};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::normal::LastSeen;

/// A request in a form that fits both servers: what only a server knows is a placeholder
/// `{{/pointer}}` into the object it has.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// What it is called in reports.
    pub(crate) verb: &'static str,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) media_type: &'static str,
    pub(crate) body: Option<Value>,
}

/// What a server said.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

/// Code of an answer that never came: the connection was dropped.
const DROPPED: u16 = 599;

/// One of the two servers, and how requests reach it.
pub(crate) struct Side {
    pub(crate) client: Client,
    /// Last revision seen of each uid.
    pub(crate) seen: LastSeen,
}

impl Side {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            seen: LastSeen::new(),
        }
    }

    /// Sends a request, its placeholders filled from `known`.
    pub(crate) async fn send(&self, request: &Request, known: &Value) -> Result<Answer> {
        let path = fill_text(&request.path, known);
        let body = match &request.body {
            Some(body) => serde_json::to_vec(&filled(body, known))?,
            None => Vec::new(),
        };
        let sent = http::Request::builder()
            .method(request.method)
            .uri(&path)
            .header(CONTENT_TYPE, request.media_type)
            .header(USER_AGENT, "diff-api")
            .body(Body::from(body))?;
        let response = match self.client.send(sent).await {
            Ok(response) => response,
            Err(error) => {
                return Ok(Answer {
                    code: DROPPED,
                    body: error.to_string().into(),
                });
            }
        };
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await?;
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Answer { code, body })
    }
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        self.code < 300
    }
}

fn filled(body: &Value, known: &Value) -> Value {
    match body {
        Value::String(text) => match pointer(text) {
            Some(pointer) => known.pointer(pointer).cloned().unwrap_or_default(),
            None => body.clone(),
        },
        Value::Array(items) => items.iter().map(|item| filled(item, known)).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), filled(value, known)))
            .collect(),
        _ => body.clone(),
    }
}

fn pointer(text: &str) -> Option<&str> {
    text.strip_prefix("{{")?.strip_suffix("}}")
}

fn fill_text(path: &str, known: &Value) -> String {
    let Some((before, rest)) = path.split_once("{{") else {
        return path.to_owned();
    };
    let Some((pointer, after)) = rest.split_once("}}") else {
        return path.to_owned();
    };
    let value = known
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default();
    format!("{before}{value}{}", fill_text(after, known))
}
