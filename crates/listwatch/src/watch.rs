//! WATCH: the present as events if asked for, then every change, until time is up.
//!
//! ```text
//! initial events ─► closing bookmark ─► changes … bookmark each minute … bookmark ─► end
//!                    (WatchList only)                                    2 s before
//! ```
//!
//! All of it is one value inside the response body, polled by whoever sends the body. A client
//! that does not read is not polled for; when it comes back too late the store says so, and it gets
//! the same 410 as one that asks for a compacted revision.

use crate::Store;
use crate::body::{Body, json};
use crate::encode::{self, Encoder, FRAME};
use crate::options::{WatchOptions, WatchStart};
use crate::served_object::Memo;
use crate::view::Malformed;
use bytes::Bytes;
use edgegrid_machinery::status::Status;
use edgegrid_store::{Entry, Event, Lagged, RevisionError, Watch};
use futures::stream;
use http::Response;
use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;
use tokio::sync::watch as signal;
use tokio::time::{Instant, sleep_until};

/// How often a quiet client learns how far it has come.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long before the end it learns it for the last time.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The least timeout when the client names none; the most is twice that.
const TIMEOUT: Duration = Duration::from_mins(30);
/// How many events are taken from the store at a time.
const BATCH: usize = 128;

/// How a watch is to run, with everything decided.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) options: WatchOptions,
    pub(crate) timeout: Duration,
    pub(crate) stop: signal::Receiver<bool>,
}

/// The timeout a client asked for, or one of its own for each watch so that not all return at once.
pub(crate) fn timeout(seconds: Option<u64>, random: u64) -> Duration {
    match seconds {
        Some(seconds @ 1..) => Duration::from_secs(seconds.min(u64::from(u32::MAX))),
        _ => TIMEOUT + Duration::from_millis(random % 1_800_000),
    }
}

pub(crate) fn watch(store: &Store, plan: Plan, encoder: Encoder) -> Result<Response<Body>, Status> {
    let prefix = &encoder.filter.prefix;
    let (after, initial, closing) = match plan.options.start {
        WatchStart::After(revision) => (revision, Vec::new(), false),
        WatchStart::Now => (store.revision(), Vec::new(), false),
        WatchStart::State { closed, .. } => {
            let snapshot = store.snapshot().under(prefix);
            let mut initial = Vec::new();
            for entry in snapshot.iter() {
                if encoder.filter.matches(entry).map_err(Status::internal)? {
                    initial.push(Arc::clone(entry));
                }
            }
            (
                snapshot.revision(),
                initial,
                closed && plan.options.bookmarks,
            )
        }
    };
    let watch = match store.watch(prefix, after) {
        Ok(watch) => watch,
        Err(error) => return Ok(refused(error)),
    };
    let session = Session::new(watch, encoder, plan, initial.into_iter(), closing);
    Ok(json(Body::endless(stream::unfold(
        session,
        async |mut session| {
            let bytes = session.next().await?;
            Some((bytes, session))
        },
    ))))
}

/// A watch that ends as it starts: the revision is reported in the stream, as clients expect.
fn refused(error: RevisionError) -> Response<Body> {
    let mut out = Vec::new();
    encode::error(&expired(error), &mut out);
    json(Body::full(out.into()))
}

fn expired(error: RevisionError) -> Status {
    match error {
        RevisionError::TooOld { asked, oldest } => Status::too_old(asked, oldest),
        RevisionError::TooNew { asked, current } => Status::expired(format!(
            "resource version {asked} is not known here, the current one is {current}"
        )),
    }
}

struct Session {
    watch: Watch<Memo>,
    encoder: Encoder,
    initial: IntoIter<Arc<Entry<Memo>>>,
    /// Events read from the store and not yet sent.
    changes: IntoIter<Arc<Event<Memo>>>,
    /// Whether a bookmark must close the initial events.
    closing: bool,
    /// When the next bookmark is due; never for a client that does not want any.
    bookmark: Option<Instant>,
    deadline: Instant,
    stop: signal::Receiver<bool>,
    ended: bool,
}

/// Why a running watch is ended with an error.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Lagged(#[from] Lagged),
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Session {
    fn new(
        watch: Watch<Memo>,
        encoder: Encoder,
        plan: Plan,
        initial: IntoIter<Arc<Entry<Memo>>>,
        closing: bool,
    ) -> Self {
        let deadline = Instant::now() + plan.timeout;
        let (stop, ended) = (plan.stop, false);
        let mut session = Self {
            watch,
            encoder,
            initial,
            changes: Vec::new().into_iter(),
            closing,
            bookmark: None,
            deadline,
            stop,
            ended,
        };
        if plan.options.bookmarks {
            session.bookmark = session.next_bookmark();
        }
        session
    }

    /// The next piece of the stream; none when it is over.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        while out.is_empty() && !self.ended {
            if let Err(broken) = self.step(&mut out).await {
                encode::error(&broken.into_status(), &mut out);
                self.ended = true;
            }
        }
        (!out.is_empty()).then(|| out.into())
    }

    async fn step(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.initial.len() > 0 || self.closing {
            return Ok(self.initial_events(out)?);
        }
        let (now, stopped) = (Instant::now(), *self.stop.borrow());
        if now >= self.deadline && !stopped {
            self.ended = true;
            return Ok(());
        }
        if self.changes.len() == 0 {
            self.changes = self.watch.try_batch(BATCH)?.events.into_iter();
        }
        if self.changes.len() > 0 {
            return Ok(self.some_changes(out)?);
        }
        if self.bookmark.is_some_and(|due| now >= due || stopped) {
            self.encoder.bookmark(self.watch.through(), false, out);
            self.bookmark = self.next_bookmark();
        }
        self.ended = stopped;
        if out.is_empty() && !stopped {
            self.idle().await;
        }
        Ok(())
    }

    fn initial_events(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        while out.len() < FRAME
            && let Some(entry) = self.initial.next()
        {
            self.encoder.added(&entry, out)?;
        }
        if self.initial.len() == 0 && self.closing {
            self.encoder.bookmark(self.watch.through(), true, out);
            self.closing = false;
        }
        Ok(())
    }

    fn some_changes(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        while out.len() < FRAME
            && let Some(event) = self.changes.next()
        {
            self.encoder.change(&event, out)?;
        }
        Ok(())
    }

    /// Waits until there is something to do.
    async fn idle(&mut self) {
        let until = self
            .bookmark
            .map_or(self.deadline, |due| due.min(self.deadline));
        tokio::select! {
            () = self.watch.changed() => {}
            () = sleep_until(until) => {}
            // The sender going away is a stop as well: nobody is left to serve for.
            stopped = self.stop.wait_for(|stop| *stop) => self.ended = stopped.is_err(),
        }
    }

    /// A minute from now, or shortly before the end, whichever comes first; none after that.
    fn next_bookmark(&self) -> Option<Instant> {
        let now = Instant::now();
        let last = self
            .deadline
            .checked_sub(BOOKMARK_BEFORE_END)
            .unwrap_or(self.deadline);
        (now < last).then(|| (now + BOOKMARK_EVERY).min(last))
    }
}

impl Broken {
    fn into_status(self) -> Status {
        match self {
            Broken::Lagged(Lagged { at, oldest }) => Status::too_old(at, oldest),
            Broken::Malformed(malformed) => Status::internal(malformed),
        }
    }
}
