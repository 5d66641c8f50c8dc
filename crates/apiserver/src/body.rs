//! Request bodies: read with a limit, in the media types the server takes.

use axum::body::Bytes;
use edgegrid_machinery::schema::{ReadError, read_strict};
use edgegrid_machinery::status::Status;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error as YamlError, options};

/// Larger bodies are refused.
const MAX_BYTES: usize = 3 * 1024 * 1024;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// A decoded body, and what is to be said about fields that stood in it more than once.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) value: Value,
    pub(crate) complaints: Vec<String>,
}

/// Reads a whole body.
pub(crate) async fn bytes(body: axum::body::Body) -> Result<Bytes, Status> {
    match Limited::new(body, MAX_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Status::request_too_large(format!("limit is {MAX_BYTES}")))
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
        "" | JSON => json(bytes).map_err(|error| {
            Status::bad_request(format!(
                "couldn't get version/kind; json parse error: {error}"
            ))
        }),
        YAML => yaml(bytes).map_err(Status::bad_request),
        _ => Err(Status::unsupported_media_type(&[JSON, YAML])),
    }
}

pub(crate) fn json(bytes: &[u8]) -> Result<Read, ReadError> {
    let (value, duplicates) = read_strict(bytes)?;
    let complaints = duplicates.iter().map(ToString::to_string).collect();
    Ok(Read { value, complaints })
}

/// Decodes the first document of a YAML stream; JSON is a part of YAML. An empty one is null.
///
/// Of keys that stand twice the first is named, as clients repair one after the other anyway.
pub(crate) fn yaml(bytes: &[u8]) -> Result<Read, String> {
    if let Ok(read) = json(bytes)
        && read.complaints.is_empty()
    {
        return Ok(read);
    }
    let (value, complaints) = match first_document(bytes, DuplicateKeyPolicy::Error) {
        Ok(value) => (value, Vec::new()),
        Err(error) => match error.without_snippet() {
            YamlError::DuplicateMappingKey { key, location } => {
                let (line, key) = (location.line(), key.as_deref().unwrap_or_default());
                let complaint = format!("line {line}: key {key:?} already set in map");
                let value = first_document(bytes, DuplicateKeyPolicy::LastWins);
                (
                    value.map_err(|error| yaml_message(&error))?,
                    vec![complaint],
                )
            }
            _ => return Err(yaml_message(&error)),
        },
    };
    Ok(Read { value, complaints })
}

fn first_document(
    mut bytes: &[u8],
    duplicate_keys: DuplicateKeyPolicy,
) -> Result<Value, YamlError> {
    let options = options! {
        duplicate_keys: duplicate_keys,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let first = serde_saphyr::read_with_options(&mut bytes, options).next();
    first.unwrap_or(Ok(Value::Null))
}

/// An error in the words of the reference server's reader, which names no first line.
fn yaml_message(error: &YamlError) -> String {
    let (text, location) = match error.without_snippet() {
        YamlError::Message { msg, location } | YamlError::ExternalMessage { msg, location, .. } => {
            (msg.clone(), Some(*location))
        }
        other => (other.to_string(), None),
    };
    match location.map(|location| location.line()) {
        Some(line) if line > 1 => format!("yaml: line {line}: {text}"),
        _ => format!("yaml: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_are_read_as_yaml_1_1_knows_them() {
        let text = "{a: yes, b: off, c: 010, d: 0x10, e: 0b11, f: 1_000, g: 1e3, h: ~, i: 1:30, \
                    j: 2001-01-01, k: \"yes\", l: 0o7}";
        let read = yaml(text.as_bytes()).unwrap();
        assert_eq!(
            read.value,
            json!({
                "a": true, "b": false, "c": 8, "d": 16, "e": 3, "f": 1000, "g": 1000.0, "h": null,
                "i": "1:30", "j": "2001-01-01", "k": "yes", "l": 7,
            })
        );
        assert!(yaml(b"{a: .inf}").is_err());
    }

    #[test]
    fn only_the_first_document_counts_and_nothing_is_null() {
        assert_eq!(yaml(b"a: 1\n---\nb: [\n").unwrap().value, json!({"a": 1}));
        assert_eq!(yaml(b"").unwrap().value, Value::Null);
    }
}
