//! Request bodies: read with a limit, in the media types the server takes.

use axum::body::Bytes;
use edgegrid_machinery::schema::read_strict;
use edgegrid_machinery::status::Status;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

/// Larger bodies are refused.
pub(crate) const MAX_BYTES: usize = 3 * 1024 * 1024;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// A decoded body, and the fields that stood in it more than once.
pub(crate) struct Read {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

/// Reads a whole body.
pub(crate) async fn bytes(body: axum::body::Body) -> Result<Bytes, Status> {
    match Limited::new(body, MAX_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Status::request_too_large(MAX_BYTES))
        }
        Err(error) => Err(Status::bad_request(format!("read the body: {error}"))),
    }
}

/// The media type of a body, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let value = value
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    value.trim().to_ascii_lowercase()
}

/// Decodes an object that is sent as a whole.
pub(crate) fn object(bytes: &[u8], media_type: &str) -> Result<Read, Status> {
    match media_type {
        "" | JSON => json(bytes),
        YAML => yaml(bytes),
        _ => Err(Status::unsupported_media_type(&[JSON, YAML])),
    }
}

/// Decodes JSON.
pub(crate) fn json(bytes: &[u8]) -> Result<Read, Status> {
    let (value, duplicates) = read_strict(bytes).map_err(|error| {
        Status::bad_request(format!(
            "couldn't get version/kind; json parse error: {error}"
        ))
    })?;
    let duplicates = duplicates
        .iter()
        .map(|duplicate| duplicate.path.clone())
        .collect();
    Ok(Read { value, duplicates })
}

/// Decodes YAML, which JSON is a part of.
pub(crate) fn yaml(bytes: &[u8]) -> Result<Read, Status> {
    if let Ok(read) = json(bytes) {
        return Ok(read);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Status::bad_request(format!("yaml: {error}")))?;
    let value: Value = serde_saphyr::from_str(text)
        .map_err(|error| Status::bad_request(format!("yaml: {error}")))?;
    Ok(Read {
        value,
        duplicates: Vec::new(),
    })
}
