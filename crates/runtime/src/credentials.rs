//! A client whose credentials may change on disk while it lives.
//!
//! Kubelets renew their certificates, kubeadm's run out after a year, tokens are replaced every hour.
//!
//! ```text
//!                every 30 s, and after a 401
//! files ─► marks ─► other ones? ─► read again ─► a new client for all further requests
//!                                            └─► answers that still come over the old one end
//! ```
//!
//! What cannot be used (half a file, a key without its certificate) changes nothing: the client that is
//! there stays, and the files are looked at again.

mod marks;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use kube::client::Body;
use kube::{Client, Config};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::BoxError;

use crate::client::{ConnectError, Source};
use crate::logging::chain;
pub use marks::FileMarks;

/// How often files are looked at.
pub const CHECK_PERIOD: Duration = Duration::from_secs(30);
/// After a 401 they are read at once, but not more often than this.
const MIN_PERIOD: Duration = Duration::from_secs(10);

/// How often the API server refused who we are (401) or what we may do (403); clones share it.
#[derive(Debug, Clone, Default)]
pub struct Refusals {
    counts: Family<[(&'static str, String); 1], Counter>,
    last: Arc<Mutex<Option<StatusCode>>>,
}

impl Refusals {
    /// Shows the count as `api_refusals`.
    pub fn register(&self, to: &mut Registry) {
        to.register(
            "api_refusals",
            "Requests that the API server refused with 401 or 403",
            self.counts.clone(),
        );
    }

    /// The refusal, if the last answer of the API server was one.
    pub fn last(&self) -> Option<StatusCode> {
        *self.last.lock()
    }

    /// Notes how the API server answered.
    pub fn note(&self, code: StatusCode) {
        let refused = matches!(code, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if refused {
            let label = [("code", code.as_u16().to_string())];
            self.counts.get_or_create(&label).inc();
        }
        *self.last.lock() = refused.then_some(code);
    }
}

/// Makes a client of a configuration.
pub type Make = Box<dyn Fn(Config) -> Result<Client, ConnectError> + Send + Sync>;

/// The client in use, and how many there were before it.
#[derive(Clone)]
struct Current {
    generation: u64,
    client: Client,
}

/// Keeps a client up to date.
struct Renewal {
    source: Source,
    make: Make,
    /// How the files looked that made the present client, and those that made none.
    used: FileMarks,
    refused: Option<FileMarks>,
    current: watch::Sender<Current>,
    unauthorized: Arc<Notify>,
}

/// What every request needs; the task that renews the client ends with it.
struct Shared {
    current: watch::Receiver<Current>,
    unauthorized: Arc<Notify>,
    refusals: Refusals,
    _renewal: JoinSet<()>,
}

/// A client that follows its files. Nothing is sent yet.
pub async fn client(
    source: Source,
    refusals: Refusals,
    make: Make,
) -> Result<Client, ConnectError> {
    let used = FileMarks::take(source.files());
    let client = make(source.load().await?)?;
    let namespace = client.default_namespace().to_owned();
    let current = watch::Sender::new(Current {
        generation: 0,
        client,
    });
    let unauthorized = Arc::new(Notify::new());
    let receiver = current.subscribe();
    let renewal = Renewal {
        source,
        make,
        used,
        refused: None,
        current,
        unauthorized: Arc::clone(&unauthorized),
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(renewal.run());
    let shared = Arc::new(Shared {
        current: receiver,
        unauthorized,
        refusals,
        _renewal: tasks,
    });
    let service = tower::service_fn(move |request| Arc::clone(&shared).send(request).boxed());
    Ok(Client::new(service, namespace))
}

impl Renewal {
    async fn run(mut self) {
        loop {
            let unauthorized = timeout(CHECK_PERIOD, self.unauthorized.notified()).await;
            self.renew(unauthorized.is_ok()).await;
            sleep(MIN_PERIOD).await;
        }
    }

    /// Reads the files if they are others now, or if the server does not know us any more.
    async fn renew(&mut self, unauthorized: bool) {
        let marks = FileMarks::take(self.source.files());
        if marks == self.used && !unauthorized {
            return;
        }
        let made = match self.source.load().await {
            Ok(config) => (self.make)(config),
            Err(error) => Err(error),
        };
        match made {
            Ok(client) => {
                let changed = marks != self.used;
                if changed {
                    tracing::info!("credentials changed on disk, using the new ones");
                }
                self.current.send_if_modified(|current| {
                    current.client = client;
                    current.generation += u64::from(changed);
                    changed
                });
                (self.used, self.refused) = (marks, None);
            }
            // Said once for each state of the files: they may be in the middle of a change.
            Err(error) if self.refused.as_ref() != Some(&marks) => {
                tracing::warn!(error = %chain(&error), "cannot use the credentials on disk, keeping those in use");
                self.refused = Some(marks);
            }
            Err(_) => {}
        }
    }
}

impl Shared {
    async fn send(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> Result<Response<Following>, BoxError> {
        let Current { generation, client } = self.current.borrow().clone();
        let response = client.send(request).await?;
        self.refusals.note(response.status());
        if response.status() == StatusCode::UNAUTHORIZED {
            self.unauthorized.notify_one();
        }
        let mut current = self.current.clone();
        let outdated = async move {
            // The sender ends with the client itself: then nothing is outdated any more.
            if current
                .wait_for(|now| now.generation != generation)
                .await
                .is_err()
            {
                std::future::pending::<()>().await;
            }
        };
        Ok(response.map(|body| Following {
            body,
            outdated: outdated.boxed(),
        }))
    }
}

/// A body that ends with an error once the credentials it was asked for with are outdated.
struct Following {
    body: Body,
    outdated: BoxFuture<'static, ()>,
}

/// The credentials that an answer was asked for with are replaced: ask again.
#[derive(Debug, thiserror::Error)]
#[error("the credentials of this connection were replaced")]
struct Replaced;

impl http_body::Body for Following {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // What has arrived is still handed on.
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        match self.outdated.poll_unpin(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(Replaced.into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
