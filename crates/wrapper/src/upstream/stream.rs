//! One list or watch: the request, and its answer taken in as it comes.

use super::items::Items;
use super::{LIVED, Upstream};
use crate::feed::{Feed, Selection};
use crate::keeper::listing::Listing;
use crate::keeper::{Believed, Happened};
use crate::kinds::Kind;
use bytes::{Buf, Bytes, BytesMut};
use http::header::{ACCEPT, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

const JSON: &str = "application/json";
const LIST_OF_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// How long a server may take to answer at all, and how long a list may be silent.
const ANSWER: Duration = Duration::from_secs(30);
/// A watch ends by itself after this time, plus up to as much again.
const WATCH: u64 = 300;
/// What a watch may be late.
const LATE: Duration = Duration::from_secs(15);
/// No object is as large: etcd takes a tenth of it.
const LONGEST_EVENT: usize = 16 << 20;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// How an answer came to its end.
#[derive(Debug)]
pub(super) struct Ended {
    /// The revision to watch from; none to list again.
    pub(super) go_on: Option<String>,
    /// How many events and items there were.
    pub(super) events: u64,
}

/// Why an answer was of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("no connection: {0}")]
    Connection(String),
    #[error("no answer in time")]
    Silence,
    #[error("answered {0}")]
    Refused(StatusCode),
    #[error("answer ended early")]
    Cut,
    #[error("unreadable answer: {0}")]
    Unreadable(String),
    #[error("the revision to go on from is too old")]
    TooOld,
    #[error("error in the stream: {0}")]
    Told(String),
    #[error("everything is gone, it says; asking again")]
    Doubtful,
}

impl Trouble {
    /// Whether a watch may go on from where it was.
    pub(super) fn go_on(&self) -> bool {
        !matches!(
            self,
            Trouble::TooOld | Trouble::Unreadable(_) | Trouble::Doubtful
        )
    }
}

/// A list without its items.
#[derive(Deserialize)]
struct ListHead {
    #[serde(default)]
    metadata: ListMeta,
    /// There, but cut out; an answer without is no list.
    #[serde(rename = "items")]
    _items: serde_json::Value,
}

impl ListHead {
    fn is_page(&self) -> bool {
        let token = self.metadata.r#continue.as_ref();
        token.is_some_and(|token| !token.is_empty())
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: Option<String>,
    r#continue: Option<String>,
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
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct StatusCodeOf {
    code: u16,
    reason: String,
    message: String,
}

/// What follows from one event.
enum Next {
    GoOn,
    /// The initial events of a streamed list are complete.
    Complete(String),
}

impl Upstream {
    /// Reads everything and makes it the truth; gives where to watch from.
    pub(super) async fn list(
        &self,
        feed: &Feed,
        selection: &Selection,
        doubted: &mut bool,
    ) -> Result<Ended, Trouble> {
        if self.stream_lists {
            let listing = self.keeper.listing(feed);
            return self
                .read_events(feed, selection, None, Some((listing, doubted)))
                .await;
        }
        let accept = if selection.metadata_only {
            LIST_OF_METADATA
        } else {
            JSON
        };
        let response = match self.ask(selection, &[], accept).await {
            // Older servers have no such kind: there is nothing to hold.
            Err(Trouble::Refused(StatusCode::NOT_FOUND))
                if *feed == Feed::Kind(Kind::ServiceCidrs) =>
            {
                self.keeper
                    .relist(feed, self.keeper.listing(feed), "", true);
                return Err(Trouble::Refused(StatusCode::NOT_FOUND));
            }
            other => other?,
        };
        let (listing, head) = self.items(feed, response).await?;
        let revision = head.metadata.resource_version.unwrap_or_default();
        self.believe(feed, listing, &revision, doubted)?;
        if revision.is_empty() {
            return self.watch_anew(feed, selection).await;
        }
        Ok(Ended {
            go_on: Some(revision),
            events: 1,
        })
    }

    /// Follows the changes after a revision.
    pub(super) async fn watch(
        &self,
        feed: &Feed,
        selection: &Selection,
        from: String,
    ) -> Result<Ended, Trouble> {
        self.read_events(feed, selection, Some(from), None).await
    }

    /// A watch behind a server that gives no revisions; what it misses the next list shows.
    async fn watch_anew(&self, feed: &Feed, selection: &Selection) -> Result<Ended, Trouble> {
        let ended = self
            .read_events(feed, selection, Some(String::new()), None)
            .await?;
        Ok(Ended {
            go_on: None,
            ..ended
        })
    }

    fn believe(
        &self,
        feed: &Feed,
        listing: Listing,
        revision: &str,
        doubted: &mut bool,
    ) -> Result<(), Trouble> {
        let confirmed = *doubted && !revision.is_empty();
        *doubted = false;
        if self.keeper.relist(feed, listing, revision, confirmed) == Believed::NotYet {
            *doubted = true;
            return Err(Trouble::Doubtful);
        }
        Ok(())
    }

    async fn items(
        &self,
        feed: &Feed,
        response: Response<Body>,
    ) -> Result<(Listing, ListHead), Trouble> {
        let mut body = response.into_body();
        let mut items = Items::default();
        let mut listing = self.keeper.listing(feed);
        while let Some(chunk) = next_chunk(&mut body, Instant::now() + ANSWER).await? {
            self.metrics.uplink_bytes.inc_by(chunk.len() as u64);
            items
                .feed(&chunk, |item| self.keeper.push(feed, &mut listing, item))
                .map_err(Trouble::Unreadable)?;
            if items.is_overgrown() {
                return Err(Trouble::Unreadable("no list".to_owned()));
            }
        }
        let around = items.finish().ok_or(Trouble::Cut)?;
        let head: ListHead = serde_json::from_slice(&around)
            .map_err(|error| Trouble::Unreadable(error.to_string()))?;
        if head.is_page() {
            return Err(Trouble::Unreadable("a page of a list".to_owned()));
        }
        Ok((listing, head))
    }

    /// Takes events until the watch ends. With a listing the first ones are the list.
    async fn read_events(
        &self,
        feed: &Feed,
        selection: &Selection,
        from: Option<String>,
        mut initial: Option<(Listing, &mut bool)>,
    ) -> Result<Ended, Trouble> {
        let seconds = WATCH + self.metrics.spread() % WATCH;
        let timeout = seconds.to_string();
        let mut query = vec![
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", &timeout),
        ];
        match &from {
            Some(from) if from.is_empty() => {}
            Some(from) => query.push(("resourceVersion", from)),
            None => query.extend([
                ("sendInitialEvents", "true"),
                ("resourceVersionMatch", "NotOlderThan"),
            ]),
        }
        let accept = if selection.metadata_only {
            METADATA
        } else {
            JSON
        };
        let mut body = self.ask(selection, &query, accept).await?.into_body();
        let deadline = Instant::now() + Duration::from_secs(seconds) + LATE;
        // A lite-apiserver that is cut off opens watches too, and ends them at once.
        let (proof, mut proven) = (Instant::now() + LIVED, false);
        let (mut buffer, mut events) = (BytesMut::new(), 0);
        loop {
            let chunk = match next_chunk(&mut body, if proven { deadline } else { proof }).await {
                Err(Trouble::Silence) if !proven => Bytes::new(),
                Ok(None) => break,
                other => other?.unwrap_or_default(),
            };
            if !proven && initial.is_none() {
                self.keeper.set_online(feed, true);
            }
            proven = true;
            self.metrics.uplink_bytes.inc_by(chunk.len() as u64);
            buffer.extend_from_slice(&chunk);
            while let Some(end) = memchr::memchr(b'\n', &buffer) {
                if let Next::Complete(revision) =
                    self.event(feed, &buffer[..end], initial.as_mut())?
                    && let Some((listing, doubted)) = initial.take()
                {
                    self.believe(feed, listing, &revision, doubted)?;
                    self.keeper.set_online(feed, true);
                }
                events += 1;
                buffer.advance(end + 1);
            }
            if buffer.len() > LONGEST_EVENT {
                return Err(Trouble::Unreadable("an event without end".to_owned()));
            }
        }
        if initial.is_some() {
            return Err(Trouble::Cut);
        }
        // What is left is half an event: the link was cut in it, and it will come again.
        Ok(Ended {
            go_on: self.keeper.resume(feed),
            events,
        })
    }

    fn event(
        &self,
        feed: &Feed,
        line: &[u8],
        initial: Option<&mut (Listing, &mut bool)>,
    ) -> Result<Next, Trouble> {
        let unreadable = |error: serde_json::Error| Trouble::Unreadable(error.to_string());
        if line.trim_ascii().is_empty() {
            return Ok(Next::GoOn);
        }
        let (kind, object) = match usual(line) {
            Some((kind, object)) => (Cow::Borrowed(kind), object),
            None => {
                let event: Event<'_> = serde_json::from_slice(line).map_err(unreadable)?;
                (event.kind, event.object.get().as_bytes())
            }
        };
        self.metrics.events.inc();
        let what = match &*kind {
            "ADDED" | "MODIFIED" => Happened::Set,
            "DELETED" => Happened::Gone,
            "BOOKMARK" => {
                let bookmark: Bookmark = serde_json::from_slice(object).map_err(unreadable)?;
                let ends = bookmark
                    .metadata
                    .annotations
                    .contains_key(INITIAL_EVENTS_END);
                let revision = bookmark.metadata.resource_version;
                if initial.is_some() {
                    return Ok(if ends {
                        Next::Complete(revision)
                    } else {
                        Next::GoOn
                    });
                }
                self.keeper
                    .bookmark(feed, &revision)
                    .map_err(Trouble::Unreadable)?;
                return Ok(Next::GoOn);
            }
            "ERROR" => return Err(told(object)),
            other => return Err(Trouble::Unreadable(format!("an event of type {other}"))),
        };
        match initial {
            Some((listing, _)) => self.keeper.push(feed, listing, object),
            None => self.keeper.event(feed, what, object),
        }
        .map_err(Trouble::Unreadable)?;
        Ok(Next::GoOn)
    }

    async fn ask(
        &self,
        selection: &Selection,
        query: &[(&str, &str)],
        accept: &str,
    ) -> Result<Response<Body>, Trouble> {
        let request = Request::get(uri(selection, query))
            .header(ACCEPT, accept)
            .header(USER_AGENT, &selection.user_agent)
            .body(Body::empty())
            .map_err(|error| Trouble::Connection(error.to_string()))?;
        let answer = timeout(ANSWER, self.client.send(request)).await;
        let response = answer
            .map_err(|_| Trouble::Silence)?
            .map_err(|error| Trouble::Connection(chain(&error)))?;
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::GONE => Err(Trouble::TooOld),
            other => Err(Trouble::Refused(other)),
        }
    }
}

fn uri(selection: &Selection, query: &[(&str, &str)]) -> String {
    let path = format!("{}?", selection.path);
    let start = path.len();
    let mut uri = form_urlencoded::Serializer::for_suffix(path, start);
    if let Some((name, selector)) = &selection.selector {
        uri.append_pair(name, selector);
    }
    uri.extend_pairs(query).finish()
}

/// Type and object of an event that is written as all API servers write it. The object has not
/// been looked at: whoever reads it finds out whether it is one.
fn usual(line: &[u8]) -> Option<(&'static str, &[u8])> {
    let rest = line.strip_prefix(br#"{"type":""#)?.strip_suffix(b"}")?;
    ["MODIFIED", "ADDED", "DELETED"]
        .into_iter()
        .find_map(|kind| {
            let rest = rest.strip_prefix(kind.as_bytes())?;
            Some((kind, rest.strip_prefix(br#"","object":"#)?))
        })
}

/// Why a stream says it ends.
fn told(object: &[u8]) -> Trouble {
    let status: StatusCodeOf = serde_json::from_slice(object).unwrap_or_default();
    if status.code == StatusCode::GONE.as_u16() || status.reason == "Expired" {
        return Trouble::TooOld;
    }
    Trouble::Told(format!("{} {}", status.code, status.message))
}

/// The next bytes; none at the end.
async fn next_chunk(body: &mut Body, deadline: Instant) -> Result<Option<Bytes>, Trouble> {
    loop {
        let frame = timeout_at(deadline, body.frame())
            .await
            .map_err(|_| Trouble::Silence)?;
        match frame {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => return Err(Trouble::Connection(chain(&error))),
        }
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
