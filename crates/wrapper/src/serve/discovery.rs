//! Discovery and the version: the API server's answers while it can be asked, the last good ones when it
//! cannot. The wrapper asks for what kube-proxy and CoreDNS need by itself, so that it is there when they
//! are restarted while the node is cut off, and after a restart of its own.

use super::{AGE, Answer, Server, boxed, header, refuse};
use crate::discovery::{Discovered, FIXED, HEADS, Head, Question};
use crate::index::slice_entry::Compressed;
use bytes::Bytes;
use edgegrid_machinery::status::Status;
use edgegrid_runtime::backoff::{Backoff, Pace};
use edgegrid_runtime::shutdown::Shutdown;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, USER_AGENT};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use kube::client::Body;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How often the wrapper asks by itself; nodes that start together drift apart by the spread.
const PERIOD: Duration = Duration::from_mins(10);
const SPREAD: Duration = Duration::from_mins(1);
/// How long to wait after failures in a row.
const PACE: Pace = Pace {
    first: Duration::from_secs(2),
    longest: Duration::from_mins(1),
    spread: 50,
};
/// How long an answer may take if there is one in memory already.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the wrapper itself waits.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(30);
/// A cluster with hundreds of groups answers in a few MiB.
const MAX_ANSWER: usize = 16 << 20;
/// A first word of its own: a lite-apiserver caches by that.
const AGENT: HeaderValue = HeaderValue::from_static("edgegrid-wrapper-discovery");

/// Why a question of the wrapper's own was not answered.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error("ask for {0}")]
    Failed(String, #[source] kube::Error),
    #[error("{0} was not answered in time")]
    TooLate(String),
    #[error("{0} was answered {1}")]
    Refused(String, StatusCode),
    #[error("the answer to {0} broke off")]
    Truncated(String),
}

impl Server {
    /// Answers a question of discovery.
    pub(super) async fn discover(
        &self,
        parts: &Parts,
        own_name: bool,
        question: Question,
    ) -> Answer {
        let is_known = self.publisher.discovered(&question).is_some();
        let answer = if is_known && self.publisher.age().is_some() {
            None // nobody is there to be asked
        } else if is_known {
            let asked = self.ask(parts, own_name, &question);
            timeout(ANSWER_TIMEOUT, asked).await.ok()
        } else {
            Some(self.ask(parts, own_name, &question).await)
        };
        match answer {
            Some(answer) if !is_unreachable(answer.status()) => answer,
            unreachable => match self.publisher.discovered(&question) {
                Some(known) => self.repeat(&known),
                None => unreachable.unwrap_or_else(no_answer),
            },
        }
    }

    /// Asks upstream, and takes note of a good answer to the wrapper's own name.
    async fn ask(&self, parts: &Parts, own_name: bool, question: &Question) -> Answer {
        let cleared = self.publisher.cleared();
        let body = boxed(Full::new(Bytes::new()));
        let answer = self.forward(parts, body, own_name).await;
        // What others may see is theirs.
        if !own_name || answer.status() != StatusCode::OK {
            return answer;
        }
        let (head, body) = answer.into_parts();
        let Ok(text) = Limited::new(body, MAX_ANSWER).collect().await else {
            return no_answer();
        };
        let text = text.to_bytes();
        let answer = Response::from_parts(head, text.clone());
        if let Some(discovered) = discovered(&answer) {
            self.publisher
                .set_discovered(question.clone(), discovered, cleared);
        }
        answer.map(|text| boxed(Full::new(text)))
    }

    fn repeat(&self, known: &Discovered) -> Answer {
        let Ok(text) = known.body.text() else {
            return no_answer();
        };
        let mut answer = Response::new(boxed(Full::new(Bytes::from(text))));
        let headers = answer.headers_mut();
        if let Ok(content_type) = HeaderValue::from_str(&known.head.content_type) {
            headers.insert(CONTENT_TYPE, content_type);
        }
        let age = self.publisher.age().unwrap_or(0);
        headers.insert(AGE, HeaderValue::from(age));
        answer
    }

    /// Asks now and then for what clients will ask for, until shutdown.
    pub(crate) async fn refresh_discovery(self, stop: Shutdown) {
        let refresh = async {
            let (mut failures, jitter) = (Backoff::new(PACE), RandomState::new());
            let mut changes = self.publisher.changes.subscribe();
            // What was found on disk may be old.
            let mut is_stale = true;
            loop {
                let cleared = self.publisher.cleared();
                let number = jitter.hash_one(Instant::now());
                let wait = match self.refresh(cleared, &mut is_stale).await {
                    Ok(()) => {
                        failures.success(&());
                        PERIOD + SPREAD * u32::try_from(number % 100).unwrap_or(0) / 100
                    }
                    Err(error) => {
                        tracing::debug!(error = %edgegrid_runtime::logging::chain(&error), "cannot refresh discovery, will retry");
                        failures.failure(&(), number)
                    }
                };
                tokio::select! {
                    () = sleep(wait) => {}
                    // Another cluster has other groups.
                    _ = changes.wait_for(|now| now.cleared != cleared) => {}
                }
            }
        };
        tokio::select! {
            () = refresh => {}
            () = stop.requested() => {}
        }
    }

    /// Asks what would show a change, and everything else if it does or did.
    async fn refresh(&self, cleared: u64, is_stale: &mut bool) -> Result<(), Unanswered> {
        for question in &*HEADS {
            *is_stale |= self.refresh_one(question, cleared).await?;
        }
        if *is_stale {
            for question in &*FIXED {
                self.refresh_one(question, cleared).await?;
            }
        }
        *is_stale = false;
        Ok(())
    }

    /// Asks one question; gives whether the answer is another one than before.
    async fn refresh_one(&self, question: &Question, cleared: u64) -> Result<bool, Unanswered> {
        let path = || question.path().to_owned();
        let known = self.publisher.discovered(question);
        let request = request(question, known.and_then(|known| known.head.etag));
        let asked = async {
            let answer = self.link.own.send(request).await;
            let (head, body) = answer
                .map_err(|error| Unanswered::Failed(path(), error))?
                .into_parts();
            let text = Limited::new(body, MAX_ANSWER).collect().await;
            let text = text.map_err(|_| Unanswered::Truncated(path()))?;
            Ok(Response::from_parts(head, text.to_bytes()))
        };
        let answer = timeout(REFRESH_TIMEOUT, asked).await;
        let answer = answer.map_err(|_| Unanswered::TooLate(path()))??;
        match answer.status() {
            StatusCode::OK => Ok(discovered(&answer).is_some_and(|discovered| {
                let question = question.clone();
                self.publisher.set_discovered(question, discovered, cleared)
            })),
            // An older server does not know every group; what was known once stays: a proxy in
            // between that is cut off answers the same.
            StatusCode::NOT_MODIFIED | StatusCode::NOT_FOUND | StatusCode::NOT_ACCEPTABLE => {
                Ok(false)
            }
            code => Err(Unanswered::Refused(path(), code)),
        }
    }
}

/// A question of the wrapper's own, for an answer that is another than the one by this name.
fn request(question: &Question, etag: Option<String>) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    if let Ok(uri) = question.path().parse() {
        *request.uri_mut() = uri;
    }
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, AGENT);
    if let Ok(accept) = HeaderValue::from_str(question.accept()) {
        headers.insert(ACCEPT, accept);
    }
    if let Some(Ok(etag)) = etag.map(HeaderValue::try_from) {
        headers.insert(IF_NONE_MATCH, etag);
    }
    request
}

/// What is to be remembered of an answer.
fn discovered(answer: &Response<Bytes>) -> Option<Discovered> {
    let headers = answer.headers();
    let etag = header(headers, &ETAG);
    let head = Head {
        content_type: header(headers, &CONTENT_TYPE).to_owned(),
        etag: (!etag.is_empty()).then(|| etag.to_owned()),
    };
    let is_readable = !headers.contains_key(CONTENT_ENCODING) && !answer.body().is_empty();
    is_readable.then(|| Discovered {
        head,
        body: Compressed::new(answer.body()),
    })
}

/// Whether an answer says that the API server cannot be asked.
fn is_unreachable(code: StatusCode) -> bool {
    let codes = [
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    codes.contains(&code)
}

fn no_answer() -> Answer {
    refuse(&Status::unavailable(
        "the API server cannot be reached through the wrapper",
    ))
}
