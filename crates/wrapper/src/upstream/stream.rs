//! One list or watch: the request, and its answer taken in as it comes.

use super::items::Items;
use super::wire::{ListHead, Message, ReadError, message};
use super::{MIN_WATCH_LIFE, Upstream};
use crate::feed::{Feed, Selection};
use crate::kinds::ServedKind;
use crate::publish::empty_list::{EmptyListGuard, ListOutcome};
use crate::publish::listing::Listing;
use bytes::{Buf, Bytes, BytesMut};
use edgegrid_runtime::logging::chain;
use http::header::{ACCEPT, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

pub(super) const JSON: &str = "application/json";
const LIST_OF_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// How long a server may take to answer at all, and how long a list may be silent.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A watch ends by itself after this time, plus up to as much again.
const WATCH: u64 = 300;
/// API servers send a bookmark every minute; a watch on which nothing came for so long is dead.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(150);
/// What a watch may be late.
const GRACE: Duration = Duration::from_secs(15);
/// No object is as large: etcd takes a tenth of it.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// How an answer came to its end.
#[derive(Debug)]
pub(super) struct Ended {
    /// The revision to watch from; none to list again.
    pub(super) resume_from: Option<String>,
    /// How many events and items there were.
    pub(super) events: u64,
    /// Whether it was a watch that lived as long as it was asked to.
    pub(super) on_time: bool,
}

/// A feed, and what is remembered of it from one request to the next.
pub(super) struct Following {
    pub(super) feed: Feed,
    pub(super) selection: Selection,
    pub(super) guard: EmptyListGuard,
    /// When the last byte came.
    pub(super) heard: Instant,
}

/// What a stream of events is taken for.
enum Purpose {
    /// Changes after what is known.
    Follow,
    /// First a list in the making.
    List(Listing),
}

impl Following {
    pub(super) fn new(feed: Feed, node: &str) -> Self {
        Self {
            selection: feed.selection(node),
            feed,
            guard: EmptyListGuard::default(),
            heard: Instant::now(),
        }
    }
}

impl Upstream {
    /// Reads everything and makes it the truth; gives where to watch from.
    pub(super) async fn list(&self, following: &mut Following) -> Result<Ended, ReadError> {
        if self.stream_lists {
            let query = [
                ("sendInitialEvents", "true"),
                ("resourceVersionMatch", "NotOlderThan"),
            ];
            let purpose = Purpose::List(self.publisher.listing(&following.feed));
            return self.events(following, &query, purpose).await;
        }
        let (feed, selection) = (&following.feed, &following.selection);
        let accept = if selection.metadata_only {
            LIST_OF_METADATA
        } else {
            JSON
        };
        let asked = self.ask(selection, &[], accept).await;
        if let Err(ReadError::Refused(StatusCode::NOT_FOUND)) = asked
            && *feed == Feed::Kind(ServedKind::ServiceCidrs)
        {
            // Older servers have no such kind: there is nothing to know.
            let nothing = self.publisher.listing(feed);
            self.publisher.replace(feed, nothing, "");
        }
        let (listing, revision) = self.items(feed, asked?).await?;
        self.relist(following, listing, &revision)?;
        if revision.is_empty() {
            // A server that gives no revisions; what the watch misses the next list shows.
            let ended = self.events(following, &[], Purpose::Follow).await?;
            return Ok(Ended {
                resume_from: None,
                ..ended
            });
        }
        Ok(Ended {
            resume_from: Some(revision),
            events: 1,
            on_time: false,
        })
    }

    /// Follows the changes after a revision.
    pub(super) async fn watch(
        &self,
        following: &mut Following,
        from: &str,
    ) -> Result<Ended, ReadError> {
        let query = [("resourceVersion", from)];
        self.events(following, &query, Purpose::Follow).await
    }

    fn relist(
        &self,
        following: &mut Following,
        listing: Listing,
        revision: &str,
    ) -> Result<(), ReadError> {
        let Following { feed, guard, .. } = following;
        match self.publisher.relist(feed, listing, revision, guard) {
            ListOutcome::Accepted => Ok(()),
            ListOutcome::NeedsConfirmation => Err(ReadError::EmptyList),
        }
    }

    async fn items(
        &self,
        feed: &Feed,
        response: Response<Body>,
    ) -> Result<(Listing, String), ReadError> {
        let mut body = response.into_body();
        let mut items = Items::default();
        let mut listing = self.publisher.listing(feed);
        while let Some(chunk) = next_chunk(&mut body, Instant::now() + ANSWER_TIMEOUT).await? {
            self.metrics.uplink_bytes.inc_by(chunk.len() as u64);
            items
                .feed(&chunk, |item| self.publisher.push(feed, &mut listing, item))
                .map_err(ReadError::Unreadable)?;
            if items.is_overgrown() {
                return Err(ReadError::Unreadable("no list".to_owned()));
            }
        }
        let around = items.finish().ok_or(ReadError::Truncated)?;
        Ok((listing, ListHead::revision(&around)?))
    }

    /// Takes events until the watch ends.
    async fn events(
        &self,
        following: &mut Following,
        query: &[(&str, &str)],
        mut purpose: Purpose,
    ) -> Result<Ended, ReadError> {
        let seconds = WATCH + self.jitter.lock().u64(..WATCH);
        let selection = &following.selection;
        let mut body = self.ask_for_events(selection, query, seconds).await?;
        following.heard = Instant::now();
        let on_time = following.heard + Duration::from_secs(seconds);
        // A lite-apiserver that is cut off opens watches too, and ends them at once.
        let (proof, mut proven) = (Instant::now() + MIN_WATCH_LIFE, false);
        let (mut buffer, mut events) = (BytesMut::new(), 0);
        loop {
            let silent = (following.heard + SILENCE_TIMEOUT).min(on_time + GRACE);
            let chunk = match next_chunk(&mut body, if proven { silent } else { proof }).await {
                Err(ReadError::Timeout) if !proven => Bytes::new(),
                Ok(None) => break,
                other => other?.unwrap_or_default(),
            };
            if !proven && matches!(purpose, Purpose::Follow) {
                self.publisher.set_online(&following.feed);
            }
            proven = true;
            if !chunk.is_empty() {
                following.heard = Instant::now();
            }
            self.metrics.uplink_bytes.inc_by(chunk.len() as u64);
            buffer.extend_from_slice(&chunk);
            while let Some(end) = memchr::memchr(b'\n', &buffer) {
                if let Some(message) = message(&buffer[..end])? {
                    purpose = self.take(following, message, purpose)?;
                }
                events += 1;
                buffer.advance(end + 1);
            }
            if buffer.len() > MAX_EVENT_BYTES {
                return Err(ReadError::Unreadable("an event without end".to_owned()));
            }
        }
        // What is left is half an event: the link was cut in it, and it will come again.
        match purpose {
            Purpose::List(_) => Err(ReadError::Truncated),
            Purpose::Follow => Ok(Ended {
                resume_from: self.publisher.resume(&following.feed),
                events,
                on_time: Instant::now() >= on_time,
            }),
        }
    }

    /// Takes one event; gives what the next ones are for.
    fn take(
        &self,
        following: &mut Following,
        message: Message<'_>,
        purpose: Purpose,
    ) -> Result<Purpose, ReadError> {
        self.metrics.events.inc();
        let feed = &following.feed;
        match (message, purpose) {
            (Message::Object(_, object), Purpose::List(mut listing)) => {
                let pushed = self.publisher.push(feed, &mut listing, object);
                pushed.map_err(ReadError::Unreadable)?;
                return Ok(Purpose::List(listing));
            }
            (Message::Bookmark { revision, ends }, Purpose::List(listing)) => {
                if !ends {
                    return Ok(Purpose::List(listing));
                }
                self.relist(following, listing, &revision)?;
                self.publisher.set_online(&following.feed);
            }
            (Message::Object(what, object), Purpose::Follow) => {
                let taken = self.publisher.event(feed, what, object);
                taken.map_err(ReadError::Unreadable)?;
            }
            (Message::Bookmark { revision, .. }, Purpose::Follow) => {
                let noted = self.publisher.bookmark(feed, &revision);
                noted.map_err(ReadError::Unreadable)?;
            }
        }
        Ok(Purpose::Follow)
    }

    pub(super) async fn ask_for_events(
        &self,
        selection: &Selection,
        query: &[(&str, &str)],
        seconds: u64,
    ) -> Result<Body, ReadError> {
        let seconds = seconds.to_string();
        let mut whole = vec![
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", &*seconds),
        ];
        whole.extend(query);
        let accept = if selection.metadata_only {
            METADATA
        } else {
            JSON
        };
        Ok(self.ask(selection, &whole, accept).await?.into_body())
    }

    pub(super) async fn ask(
        &self,
        selection: &Selection,
        query: &[(&str, &str)],
        accept: &str,
    ) -> Result<Response<Body>, ReadError> {
        let request = Request::get(uri(selection, query))
            .header(ACCEPT, accept)
            .header(USER_AGENT, &selection.user_agent)
            .body(Body::empty())
            .map_err(|error| ReadError::Connection(error.to_string()))?;
        let answer = timeout(ANSWER_TIMEOUT, self.client.send(request)).await;
        let response = answer
            .map_err(|_| ReadError::Timeout)?
            .map_err(|error| ReadError::Connection(chain(&error)))?;
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::GONE => Err(ReadError::TooOld),
            other => Err(ReadError::Refused(other)),
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

/// The next bytes; none at the end.
pub(super) async fn next_chunk(
    body: &mut Body,
    deadline: Instant,
) -> Result<Option<Bytes>, ReadError> {
    loop {
        let frame = timeout_at(deadline, body.frame()).await;
        match frame.map_err(|_| ReadError::Timeout)? {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => return Err(ReadError::Connection(chain(&error))),
        }
    }
}
