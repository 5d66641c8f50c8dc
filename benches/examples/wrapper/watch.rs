//! A client like kube-proxy: Services and EndpointSlices as `WatchList`, in JSON. It notes when it
//! saw which change.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

const PATHS: [&str; 2] = [
    "/api/v1/services",
    "/apis/discovery.k8s.io/v1/endpointslices",
];
const MARK: &[u8] = br#""hostname":"s-"#;

/// What a client has received.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// When each change was seen first, by its number.
    pub(crate) changes: BTreeMap<usize, Instant>,
}

/// An attached client; dropping it disconnects.
pub(crate) struct Watcher {
    seen: Arc<Mutex<Received>>,
    _tasks: JoinSet<()>,
}

impl Watcher {
    /// Attaches and waits until the present is complete.
    pub(crate) async fn attach(client: &Client) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Received::default()));
        let mut tasks = JoinSet::new();
        for path in PATHS {
            let uri = format!(
                "{path}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=3600"
            );
            let response = client.send(Request::get(uri).body(Body::empty())?).await?;
            ensure!(
                response.status().is_success(),
                "{path}: {}",
                response.status()
            );
            let frames = response.into_body().into_data_stream();
            let mut lines = frames.map_err(std::io::Error::other).boxed();
            let mut buffer = Vec::new();
            loop {
                let chunk = lines.try_next().await?.context("the watch ended early")?;
                if take(&mut buffer, &chunk, &seen) {
                    break;
                }
            }
            let shared = Arc::clone(&seen);
            tasks.spawn(async move {
                while let Ok(Some(chunk)) = lines.try_next().await {
                    take(&mut buffer, &chunk, &shared);
                }
            });
        }
        Ok(Self {
            seen,
            _tasks: tasks,
        })
    }

    /// What was seen since the last call.
    pub(crate) fn take(&self) -> Received {
        std::mem::take(&mut *self.seen.lock())
    }

    /// Whether a change has been seen.
    pub(crate) fn has(&self, change: usize) -> bool {
        self.seen.lock().changes.contains_key(&change)
    }
}

/// Takes lines out of what has come; true if the present is complete with them.
fn take(buffer: &mut Vec<u8>, chunk: &[u8], seen: &Mutex<Received>) -> bool {
    let now = Instant::now();
    let mut complete = false;
    buffer.extend_from_slice(chunk);
    let mut seen = seen.lock();
    seen.bytes += chunk.len() as u64;
    while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = buffer.drain(..=end).collect();
        if line.starts_with(br#"{"type":"BOOKMARK""#) {
            complete |= line.windows(18).any(|part| part == b"initial-events-end");
            continue;
        }
        seen.events += 1;
        if let Some(change) = mark(&line) {
            seen.changes.entry(change).or_insert(now);
        }
    }
    complete
}

/// The number of the change in an event.
fn mark(line: &[u8]) -> Option<usize> {
    let at = line.windows(MARK.len()).position(|part| part == MARK)? + MARK.len();
    let digits: Vec<u8> = line[at..]
        .iter()
        .copied()
        .take_while(u8::is_ascii_digit)
        .collect();
    String::from_utf8(digits).ok()?.parse().ok()
}
