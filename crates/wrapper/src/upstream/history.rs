//! Looks whether upstream still has the history that the view comes from.
//!
//! ```text
//! a feed came back ─► look: uid of kube-system, revision ─┬─ same cluster, not behind us ─► confirmed
//!                                                         └─ else: a watch for 5 s, and a second look
//!     watch ended, second look differs ─► nothing is known: look again later
//!     another uid, twice ─► forget everything
//!     a lower revision, twice, or an outage of ten minutes ─► all feeds list again, nodes apart
//! ```
//!
//! The watch tells a server from a lite-apiserver that is cut off: that one answers the look from an old
//! cache, and ends watches at once.

use super::Upstream;
use super::stream::next_chunk;
use super::wire::{ListHead, ReadError};
use crate::feed::Selection;
use crate::kinds::ServedKind;
use crate::publish::KnownHistory;
use edgegrid_runtime::backoff::{Backoff, Pace};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Feeds that come back within this time, and up to as much again, need one look only.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// How long the watch must stay open, and how far the second look is from the first.
const PROOF: Duration = Duration::from_secs(5);
/// What is written in a longer time may have passed our revision in another history.
const LONG_OUTAGE: Duration = Duration::from_mins(10);
/// All nodes may find out at once that they must list again.
const SPREAD: Duration = Duration::from_secs(30);
/// One namespace is small.
const MAX_ANSWER: usize = 1 << 20;
/// How long to wait after looks in a row that showed nothing.
const PACE: Pace = Pace {
    first: Duration::from_secs(5),
    longest: Duration::from_mins(1),
    spread: 20,
};

/// What one look shows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    /// The uid of namespace `kube-system`.
    cluster: String,
    revision: u64,
}

/// What a look means beside what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    SameHistory,
    AnotherCluster,
    /// The revision is lower than one that a feed has seen.
    EarlierRevision,
    /// It was too long out of touch to tell by a revision.
    LongOutage,
}

/// Why a look shows nothing.
#[derive(Debug, thiserror::Error)]
enum Unclear {
    #[error("read namespace kube-system: {0}")]
    Read(#[from] ReadError),
    #[error("namespace kube-system is not in the answer")]
    NoNamespace,
    #[error("upstream ends watches: it may be a proxy that is cut off")]
    NoWatch,
    #[error("a second look shows something else")]
    NotConfirmed,
}

#[derive(Deserialize)]
struct Namespaces {
    #[serde(default)]
    items: Vec<Namespace>,
}

#[derive(Deserialize)]
struct Namespace {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    uid: String,
}

impl Finding {
    fn new(known: &KnownHistory, look: &Look) -> Self {
        let is_other = |cluster: &String| *cluster != look.cluster;
        if known.cluster.as_ref().is_some_and(is_other) {
            Self::AnotherCluster
        } else if look.revision < known.newest {
            Self::EarlierRevision
        } else if known.outage > LONG_OUTAGE {
            Self::LongOutage
        } else {
            Self::SameHistory
        }
    }
}

impl Upstream {
    /// Looks whenever a feed came back.
    pub(super) async fn watch_history(self) {
        let mut reconnects = self.publisher.reconnects();
        let mut failures = Backoff::new(PACE);
        // The sender is the publisher's, which lives as long as this.
        while reconnects.changed().await.is_ok() {
            let jitter = self.jitter.lock().f64();
            sleep(DEBOUNCE.mul_f64(1.0 + jitter)).await;
            let mut is_logged = false;
            loop {
                reconnects.mark_unchanged();
                match self.check_history().await {
                    Ok(()) => break,
                    Err(error) => {
                        // Once is enough for a log on flash; but an age that counts has a reason.
                        if std::mem::replace(&mut is_logged, true) {
                            tracing::debug!(%error, "still cannot compare the view with the cluster");
                        } else {
                            tracing::warn!(%error, "cannot compare the view with the cluster, its age counts until that is done; will retry");
                        }
                        let jitter = self.jitter.lock().u64(..);
                        sleep(failures.failure(&(), jitter)).await;
                    }
                }
            }
            failures.success(&());
        }
    }

    async fn check_history(&self) -> Result<(), Unclear> {
        let known = self.publisher.known_history();
        let look = self.look().await?;
        let finding = Finding::new(&known, &look);
        if finding != Finding::SameHistory {
            self.stays_open(&look).await?;
            let second = self.look().await?;
            if second.cluster != look.cluster || Finding::new(&known, &second) != finding {
                return Err(Unclear::NotConfirmed);
            }
        }
        match finding {
            Finding::SameHistory => self.publisher.confirm_history(&known, look.cluster),
            Finding::AnotherCluster => {
                let (before, now) = (known.cluster.unwrap_or_default(), look.cluster.as_str());
                tracing::error!(
                    before,
                    now,
                    "the API server is of another cluster (uid of kube-system), dropping the view"
                );
                self.publisher.start_over();
            }
            Finding::EarlierRevision | Finding::LongOutage => {
                let wait = SPREAD.mul_f64(self.jitter.lock().f64());
                let (ours, theirs) = (known.newest, look.revision);
                tracing::warn!(ours, theirs, outage = ?known.outage, ?wait, "the history may be another, listing everything again");
                sleep(wait).await;
                self.publisher.relist_all();
            }
        }
        Ok(())
    }

    /// Reads uid and revision at once, and consistently: without a revision or limit in the request.
    async fn look(&self) -> Result<Look, Unclear> {
        let response = self.ask(&selection(), &[], super::stream::JSON).await?;
        let body = Limited::new(response.into_body(), MAX_ANSWER);
        let text = tokio::time::timeout(PROOF, body.collect()).await;
        let text = text.map_err(|_| ReadError::Timeout)?;
        let text = text.map_err(|_| ReadError::Truncated)?.to_bytes();
        let read = |error: serde_json::Error| Unclear::Read(error.into());
        let revision = ListHead::revision(&text)?;
        let namespaces: Namespaces = serde_json::from_slice(&text).map_err(read)?;
        let mut found = namespaces.items.into_iter().map(|item| item.metadata);
        let found = found.find(|metadata| metadata.name == NAMESPACE);
        Ok(Look {
            cluster: found.ok_or(Unclear::NoNamespace)?.uid,
            revision: revision.parse().map_err(|_| Unclear::NoNamespace)?,
        })
    }

    /// Whether a watch stays open; comes back after [`PROOF`] at the latest.
    async fn stays_open(&self, look: &Look) -> Result<(), Unclear> {
        let revision = look.revision.to_string();
        let query = [("resourceVersion", &*revision)];
        let mut body = self
            .ask_for_events(&selection(), &query, PROOF.as_secs() * 4)
            .await?;
        let end = Instant::now() + PROOF;
        loop {
            match next_chunk(&mut body, end).await {
                Err(ReadError::Timeout) => return Ok(()),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Err(Unclear::NoWatch),
            }
        }
    }
}

const NAMESPACE: &str = "kube-system";

/// Under a first word of its own, so that a lite-apiserver in between keeps it apart.
fn selection() -> Selection {
    Selection {
        path: ServedKind::Namespaces.path(),
        selector: Some(("fieldSelector", format!("metadata.name={NAMESPACE}"))),
        metadata_only: false,
        user_agent: "edgegrid-wrapper-cluster".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_cluster_not_behind_us_and_not_long_ago_is_the_same_history() {
        let look = |cluster: &str, revision| Look {
            cluster: cluster.to_owned(),
            revision,
        };
        let known = |cluster: Option<&str>, outage| KnownHistory {
            cluster: cluster.map(str::to_owned),
            newest: 7,
            outage,
            reconnects: 1,
        };
        let short = Duration::from_mins(1);
        let long = Duration::from_mins(11);
        for (known, look, expected) in [
            (known(None, short), look("a", 7), Finding::SameHistory),
            (known(Some("a"), short), look("a", 8), Finding::SameHistory),
            (
                known(Some("a"), short),
                look("a", 6),
                Finding::EarlierRevision,
            ),
            (known(None, short), look("a", 6), Finding::EarlierRevision),
            (known(Some("a"), long), look("a", 8), Finding::LongOutage),
            (
                known(Some("a"), long),
                look("b", 8),
                Finding::AnotherCluster,
            ),
            (
                known(Some("a"), short),
                look("b", 6),
                Finding::AnotherCluster,
            ),
        ] {
            assert_eq!(Finding::new(&known, &look), expected, "{known:?} {look:?}");
        }
    }
}
