//! One list or watch: the request, and its answer taken in as it comes.

use super::items::Items;
use super::wire::{ListHead, Message, Trouble, message};
use super::{LIVED, Upstream};
use crate::feed::{Feed, Selection};
use crate::keeper::Believed;
use crate::keeper::listing::Listing;
use crate::kinds::Kind;
use bytes::{Buf, Bytes, BytesMut};
use edgegrid_runtime::logging::chain;
use http::header::{ACCEPT, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
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

/// How an answer came to its end.
#[derive(Debug)]
pub(super) struct Ended {
    /// The revision to watch from; none to list again.
    pub(super) go_on: Option<String>,
    /// How many events and items there were.
    pub(super) events: u64,
}

/// What a stream of events is taken for.
enum Purpose<'a> {
    /// Changes after what is known.
    Follow,
    /// First a list in the making; a second empty one in a row is believed.
    List(Listing, &'a mut bool),
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
            let query = [
                ("sendInitialEvents", "true"),
                ("resourceVersionMatch", "NotOlderThan"),
            ];
            let purpose = Purpose::List(self.keeper.listing(feed), doubted);
            return self.events(feed, selection, &query, purpose).await;
        }
        let accept = if selection.metadata_only {
            LIST_OF_METADATA
        } else {
            JSON
        };
        let asked = self.ask(selection, &[], accept).await;
        if let Err(Trouble::Refused(StatusCode::NOT_FOUND)) = asked
            && *feed == Feed::Kind(Kind::ServiceCidrs)
        {
            // Older servers have no such kind: there is nothing to hold.
            let nothing = self.keeper.listing(feed);
            self.keeper.relist(feed, nothing, "", true);
        }
        let (listing, revision) = self.items(feed, asked?).await?;
        self.believe(feed, listing, &revision, doubted)?;
        if revision.is_empty() {
            // A server that gives no revisions; what the watch misses the next list shows.
            let ended = self.events(feed, selection, &[], Purpose::Follow).await?;
            return Ok(Ended {
                go_on: None,
                ..ended
            });
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
        from: &str,
    ) -> Result<Ended, Trouble> {
        let query = [("resourceVersion", from)];
        self.events(feed, selection, &query, Purpose::Follow).await
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
    ) -> Result<(Listing, String), Trouble> {
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
        Ok((listing, ListHead::revision(&around)?))
    }

    /// Takes events until the watch ends.
    async fn events(
        &self,
        feed: &Feed,
        selection: &Selection,
        query: &[(&str, &str)],
        mut purpose: Purpose<'_>,
    ) -> Result<Ended, Trouble> {
        let seconds = WATCH + self.metrics.spread() % WATCH;
        let mut body = self.ask_for_events(selection, query, seconds).await?;
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
            if !proven && matches!(purpose, Purpose::Follow) {
                self.keeper.set_online(feed, true);
            }
            proven = true;
            self.metrics.uplink_bytes.inc_by(chunk.len() as u64);
            buffer.extend_from_slice(&chunk);
            while let Some(end) = memchr::memchr(b'\n', &buffer) {
                if let Some(message) = message(&buffer[..end])? {
                    purpose = self.take(feed, message, purpose)?;
                }
                events += 1;
                buffer.advance(end + 1);
            }
            if buffer.len() > LONGEST_EVENT {
                return Err(Trouble::Unreadable("an event without end".to_owned()));
            }
        }
        // What is left is half an event: the link was cut in it, and it will come again.
        match purpose {
            Purpose::List(..) => Err(Trouble::Cut),
            Purpose::Follow => Ok(Ended {
                go_on: self.keeper.resume(feed),
                events,
            }),
        }
    }

    /// Takes one event; gives what the next ones are for.
    fn take<'a>(
        &self,
        feed: &Feed,
        message: Message<'_>,
        purpose: Purpose<'a>,
    ) -> Result<Purpose<'a>, Trouble> {
        self.metrics.events.inc();
        match (message, purpose) {
            (Message::Object(_, object), Purpose::List(mut listing, doubted)) => {
                let pushed = self.keeper.push(feed, &mut listing, object);
                pushed.map_err(Trouble::Unreadable)?;
                return Ok(Purpose::List(listing, doubted));
            }
            (Message::Bookmark { revision, ends }, Purpose::List(listing, doubted)) => {
                if !ends {
                    return Ok(Purpose::List(listing, doubted));
                }
                self.believe(feed, listing, &revision, doubted)?;
                self.keeper.set_online(feed, true);
            }
            (Message::Object(what, object), Purpose::Follow) => {
                let taken = self.keeper.event(feed, what, object);
                taken.map_err(Trouble::Unreadable)?;
            }
            (Message::Bookmark { revision, .. }, Purpose::Follow) => {
                let noted = self.keeper.bookmark(feed, &revision);
                noted.map_err(Trouble::Unreadable)?;
            }
        }
        Ok(Purpose::Follow)
    }

    async fn ask_for_events(
        &self,
        selection: &Selection,
        query: &[(&str, &str)],
        seconds: u64,
    ) -> Result<Body, Trouble> {
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

/// The next bytes; none at the end.
async fn next_chunk(body: &mut Body, deadline: Instant) -> Result<Option<Bytes>, Trouble> {
    loop {
        let frame = timeout_at(deadline, body.frame()).await;
        match frame.map_err(|_| Trouble::Silence)? {
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
