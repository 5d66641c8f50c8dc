//! Faults between a client and the embedded server: what a bad link or a bad moment does to requests.
//!
//! ```
//! use edgegrid_testkit::faults::{Fault, Faults};
//!
//! let faults = Faults::default();
//! // The second write to Deployments takes effect, but its answer is lost.
//! faults.inject(2, Fault::LoseAnswer, |method, path| method != "GET" && path.contains("/deployments"));
//! assert_eq!(faults.pending(), 1);
//! ```

mod events;
mod outage;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::{Request, Response, StatusCode};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tower::{BoxError, Service};

use events::Events;
use outage::Outage;

/// What goes wrong with one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It never reaches the server.
    LoseRequest,
    /// It takes effect, but the client never learns so.
    LoseAnswer,
    /// It never reaches the server, and nobody ever answers.
    Hang,
    /// It takes effect, but nobody ever answers.
    HangAnswer,
    /// The server says that somebody else was faster.
    Conflict,
    /// The server answers with this status, as it does to somebody without rights (403) or who asks for
    /// what is not there (404).
    Refuse(u16),
    /// A watch ends without a word after so many frames.
    Cut(usize),
    /// A watch ends with 410: its revision is too old.
    Expire,
    /// Every frame of the answer comes this much later.
    Lag(Duration),
}

/// The faults that are still to come; clones share them.
#[derive(Clone, Default)]
pub struct Faults {
    rules: Arc<Mutex<Vec<Rule>>>,
    records: Arc<Mutex<Vec<Record>>>,
    outage: Outage,
    events: Events,
}

/// Requests that passed the link since somebody last took them, as `METHOD path`; or events of watches, as `TYPE path`.
#[derive(Clone, Debug, Default)]
pub struct Recorded(Arc<Mutex<Vec<String>>>);

impl Recorded {
    /// What passed since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock();
        lines.push(line);
    }
}

/// Which requests to note, and where.
struct Record {
    matches: Box<Choice>,
    recorded: Recorded,
}

struct Rule {
    /// Matching requests to let pass before this one.
    left: usize,
    fault: Fault,
    matches: Box<Choice>,
}

/// Whether a fault concerns a request, by method and path.
type Choice = dyn Fn(&str, &str) -> bool + Send;

/// A server behind a link with faults.
#[derive(Clone)]
pub(crate) struct Faulty {
    pub(crate) router: Router,
    pub(crate) faults: Faults,
}

impl Faults {
    /// Lets the `nth` (from 1) of the requests that match method and path (with its query) go wrong.
    pub fn inject(
        &self,
        nth: usize,
        fault: Fault,
        matches: impl Fn(&str, &str) -> bool + Send + 'static,
    ) {
        let left = nth.saturating_sub(1);
        let matches = Box::new(matches);
        self.rules().push(Rule {
            left,
            fault,
            matches,
        });
    }

    /// Lets every request go wrong from now on, and watches that run end. With [`Fault::Hang`] both are
    /// silent until the link is restored, and fail then.
    pub fn break_off(&self, fault: Fault) {
        self.outage.set(Some(fault));
    }

    /// Ends what [`Faults::break_off`] began.
    pub fn restore(&self) {
        self.outage.set(None);
    }

    /// Records from now on the requests that match method and path (with its query), those that
    /// go wrong too.
    pub fn record(&self, matches: impl Fn(&str, &str) -> bool + Send + 'static) -> Recorded {
        let recorded = Recorded::default();
        let mut records = self.records.lock();
        records.push(Record {
            matches: Box::new(matches),
            recorded: recorded.clone(),
        });
        recorded
    }

    /// Records from now on the events of the watches that match a path (with its query) and begin after this, as
    /// `TYPE path`; bookmarks are none.
    pub fn record_events(&self, matches: impl Fn(&str) -> bool + Send + 'static) -> Recorded {
        self.events.record(matches)
    }

    fn note(&self, method: &str, path: &str) {
        let records = self.records.lock();
        for record in records
            .iter()
            .filter(|record| (record.matches)(method, path))
        {
            record.recorded.push(format!("{method} {path}"));
        }
    }

    /// How many have not happened yet.
    pub fn pending(&self) -> usize {
        self.rules().len()
    }

    /// Forgets those that have not happened yet.
    pub fn clear(&self) {
        self.rules().clear();
    }

    /// The fault of a request, which is then over.
    fn take(&self, method: &str, path: &str) -> Option<Fault> {
        let mut rules = self.rules();
        let mut due = None;
        for (index, rule) in rules.iter_mut().enumerate() {
            if !(rule.matches)(method, path) {
                continue;
            }
            match rule.left.checked_sub(1) {
                Some(left) => rule.left = left,
                None => due = due.or(Some(index)),
            }
        }
        due.map(|index| rules.remove(index).fault)
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.rules.lock()
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.rules().iter().map(|rule| &rule.fault))
            .finish()
    }
}

impl Service<Request<kube::client::Body>> for Faulty {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let path = request
            .uri()
            .path_and_query()
            .map_or("", |path| path.as_str());
        self.faults.note(request.method().as_str(), path);
        let once = self.faults.take(request.method().as_str(), path);
        let outage = self.faults.outage.clone();
        let during = outage.fault();
        let watched = path.contains("watch=").then(|| path.to_owned());
        let events = self.faults.events.clone();
        let router = self.router.clone();
        async move {
            if during == Some(Fault::Hang) {
                outage.restored().await;
                return Err("injected fault: the connection was reset".into());
            }
            match during.or(once) {
                Some(Fault::LoseRequest) => Err("injected fault: the request was lost".into()),
                Some(Fault::Hang) => std::future::pending().await,
                Some(Fault::HangAnswer) => {
                    answer(router, request).await?;
                    std::future::pending().await
                }
                Some(Fault::Conflict) => Ok(refusal(StatusCode::CONFLICT, &conflict())),
                Some(Fault::Refuse(code)) => Ok(refused(code)),
                Some(Fault::Expire) => Ok(refusal(
                    StatusCode::OK,
                    &json!({ "type": "ERROR", "object": expired() }),
                )),
                Some(Fault::LoseAnswer) => {
                    answer(router, request).await?;
                    Err("injected fault: the answer was lost".into())
                }
                Some(Fault::Cut(frames)) => {
                    Ok(answer(router, request).await?.map(|body| cut(body, frames)))
                }
                Some(Fault::Lag(delay)) => {
                    Ok(answer(router, request).await?.map(|body| lag(body, delay)))
                }
                None => Ok(answer(router, request).await?),
            }
            .map(|response| match watched {
                Some(path) => response.map(|body| events.over(&path, outage.over(body))),
                None => response,
            })
        }
        .boxed()
    }
}

async fn answer(
    mut router: Router,
    request: Request<kube::client::Body>,
) -> Result<Response<Body>, Infallible> {
    router.call(request).await
}

fn cut(body: Body, frames: usize) -> Body {
    Body::from_stream(body.into_data_stream().take(frames))
}

fn lag(body: Body, delay: Duration) -> Body {
    Body::from_stream(body.into_data_stream().then(move |frame| async move {
        tokio::time::sleep(delay).await;
        frame
    }))
}

fn refusal(code: StatusCode, content: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(content.to_string() + "\n")));
    *response.status_mut() = code;
    response
}

fn refused(code: u16) -> Response<Body> {
    let (status, reason) = match code {
        403 => (StatusCode::FORBIDDEN, "Forbidden"),
        401 => (StatusCode::UNAUTHORIZED, "Unauthorized"),
        _ => (StatusCode::NOT_FOUND, "NotFound"),
    };
    let content = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status.as_u16(), "message": "injected fault",
    });
    refusal(status, &content)
}

fn conflict() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409, "message": "injected fault" })
}

fn expired() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410, "message": "injected fault" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_chosen_request_goes_wrong_and_only_once() {
        let faults = Faults::default();
        faults.inject(2, Fault::Hang, |method, _| method == "PUT");
        faults.inject(1, Fault::Conflict, |_, path| path.ends_with("/b"));
        let seen = [
            ("PUT", "/a"),
            ("GET", "/a"),
            ("PUT", "/a"),
            ("PUT", "/a"),
            ("GET", "/b"),
            ("GET", "/b"),
        ]
        .map(|(method, path)| faults.take(method, path));
        assert_eq!(
            seen,
            [
                None,
                None,
                Some(Fault::Hang),
                None,
                Some(Fault::Conflict),
                None
            ]
        );
        assert_eq!(faults.pending(), 0);
    }
}
