//! What an API server writes around objects: events, the head of a list, and why it ends.

use crate::publish::EventKind;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Why an answer was of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("no connection: {0}")]
    Connection(String),
    #[error("no answer in time")]
    Timeout,
    #[error("answered {0}")]
    Refused(StatusCode),
    #[error("answer ended early")]
    Truncated,
    #[error("unreadable answer: {0}")]
    Unreadable(String),
    #[error("the revision to go on from is too old")]
    TooOld,
    #[error("error in the stream: {0}")]
    ServerError(String),
    #[error("the list is empty though objects are known, listing again before it counts")]
    EmptyList,
}

impl ReadError {
    /// Whether a watch may go on from where it was.
    pub(super) fn keeps_revision(&self) -> bool {
        !matches!(
            self,
            ReadError::TooOld | ReadError::EmptyList | ReadError::Unreadable(_)
        )
    }
}

impl From<serde_json::Error> for ReadError {
    fn from(error: serde_json::Error) -> Self {
        ReadError::Unreadable(error.to_string())
    }
}

/// One event of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// Something happened to an object. It has not been looked at: whoever reads it finds out
    /// whether it is one.
    Object(EventKind, &'a [u8]),
    /// The watch has come this far.
    Bookmark {
        revision: String,
        /// Whether the initial events of a streamed list are complete.
        ends: bool,
    },
}

/// A list without its items.
#[derive(Deserialize)]
pub(super) struct ListHead {
    #[serde(default)]
    metadata: ListMeta,
    /// There, but cut out; an answer without is no list.
    #[serde(rename = "items")]
    _items: serde_json::Value,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: Option<String>,
    r#continue: Option<String>,
}

impl ListHead {
    /// The revision of a whole list; a page of one is an error, as nobody asked for pages.
    pub(super) fn revision(text: &[u8]) -> Result<String, ReadError> {
        let head: Self = serde_json::from_slice(text)?;
        if head
            .metadata
            .r#continue
            .is_some_and(|token| !token.is_empty())
        {
            return Err(ReadError::Unreadable("a page of a list".to_owned()));
        }
        Ok(head.metadata.resource_version.unwrap_or_default())
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Refusal {
    code: u16,
    reason: String,
    message: String,
}

/// Reads a line of a watch; an empty one is nothing, an error event is one.
pub(super) fn message(line: &[u8]) -> Result<Option<Message<'_>>, ReadError> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    if let Some((what, object)) = usual(line) {
        return Ok(Some(Message::Object(what, object)));
    }
    let event: Event<'_> = serde_json::from_slice(line)?;
    let object = event.object.get().as_bytes();
    match &*event.kind {
        "ADDED" | "MODIFIED" => Ok(Some(Message::Object(EventKind::Applied, object))),
        "DELETED" => Ok(Some(Message::Object(EventKind::Deleted, object))),
        "BOOKMARK" => {
            let Bookmark { metadata } = serde_json::from_slice(object)?;
            Ok(Some(Message::Bookmark {
                ends: metadata.annotations.contains_key(INITIAL_EVENTS_END),
                revision: metadata.resource_version,
            }))
        }
        "ERROR" => Err(refusal(object)),
        other => Err(ReadError::Unreadable(format!("an event of type {other}"))),
    }
}

/// An event that is written as all API servers write it.
fn usual(line: &[u8]) -> Option<(EventKind, &[u8])> {
    let rest = line.strip_prefix(br#"{"type":""#)?.strip_suffix(b"}")?;
    let kinds: [(&[u8], EventKind); 3] = [
        (b"MODIFIED", EventKind::Applied),
        (b"ADDED", EventKind::Applied),
        (b"DELETED", EventKind::Deleted),
    ];
    kinds.into_iter().find_map(|(kind, what)| {
        let rest = rest.strip_prefix(kind)?;
        Some((what, rest.strip_prefix(br#"","object":"#)?))
    })
}

/// The error that ends a stream.
fn refusal(object: &[u8]) -> ReadError {
    let Refusal {
        code,
        reason,
        message,
    } = serde_json::from_slice(object).unwrap_or_default();
    if code == StatusCode::GONE.as_u16() || reason == "Expired" {
        return ReadError::TooOld;
    }
    ReadError::ServerError(format!("{code} {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_however_it_is_written() {
        for (line, what) in [
            (r#"{"type":"ADDED","object":{"a":1}}"#, EventKind::Applied),
            (
                r#" { "object" : {"a":1}, "type":"MODIFIED" } "#,
                EventKind::Applied,
            ),
            (r#"{"type":"DELETED","object":{"a":1}}"#, EventKind::Deleted),
        ] {
            let read = message(line.as_bytes()).unwrap();
            assert_eq!(read, Some(Message::Object(what, br#"{"a":1}"#)), "{line}");
        }
        assert_eq!(message(b" \r").unwrap(), None);
        let text = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let (revision, ends) = ("7".to_owned(), true);
        assert_eq!(
            message(text).unwrap(),
            Some(Message::Bookmark { revision, ends })
        );
    }

    #[test]
    fn only_an_expired_revision_or_nonsense_makes_it_list_again() {
        for (line, keeps) in [
            (r#"{"type":"ERROR","object":{"code":410}}"#, false),
            (r#"{"type":"ERROR","object":{"reason":"Expired"}}"#, false),
            (
                r#"{"type":"ERROR","object":{"code":500,"message":"x"}}"#,
                true,
            ),
            (r#"{"type":"WHAT","object":{}}"#, false),
            (r#"{"type":"#, false),
        ] {
            assert_eq!(
                message(line.as_bytes()).unwrap_err().keeps_revision(),
                keeps,
                "{line}"
            );
        }
    }

    #[test]
    fn a_list_without_items_or_with_more_to_come_is_none() {
        let head = |text: &str| ListHead::revision(text.as_bytes());
        assert_eq!(
            head(r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#).unwrap(),
            "7"
        );
        assert_eq!(head(r#"{"items":null}"#).unwrap(), "");
        assert!(head(r#"{"metadata":{"resourceVersion":"7"}}"#).is_err());
        assert!(head(r#"{"metadata":{"continue":"x"},"items":[]}"#).is_err());
    }
}
