//! Whether a write may start, and by when it must have ended.
//!
//! ```text
//! renewal sent ──────── renew deadline ──── writes end ──── lease can be taken
//!      │  writes may start  │  writes may end   │   margin       │
//! ```
//!
//! The moment of a renewal is when its request was *sent*: the others cannot have seen it
//! earlier, so they wait at least as long as we believe. Half of what lies between the renew
//! deadline and the lease's end is left as a margin, since clocks do not run equally fast.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Somebody else may be the leader: nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process is not the leader")]
pub struct NotLeader;

/// Asked before every write; clones share what they know.
#[derive(Clone, Debug)]
pub struct Fence {
    validity: Option<watch::Receiver<Option<Validity>>>,
}

/// How long the last renewal of our lease is valid, for writes that start and for writes that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    /// No write starts at this moment or later.
    pub(crate) starts_until: Instant,
    /// Every write has ended, or was given up, by then.
    pub(crate) ends_by: Instant,
}

impl Validity {
    /// The validity of a renewal whose request was sent at `sent`.
    pub(crate) fn since(sent: Instant, renew_deadline: Duration, lease: Duration) -> Self {
        let margin = lease.saturating_sub(renew_deadline) / 2;
        Self {
            starts_until: sent + renew_deadline,
            ends_by: sent + renew_deadline + margin,
        }
    }
}

impl Fence {
    /// One that is always open: there is only one process, as the caller knows.
    pub fn always() -> Self {
        Self { validity: None }
    }

    pub(crate) fn new(validity: watch::Receiver<Option<Validity>>) -> Self {
        Self {
            validity: Some(validity),
        }
    }

    /// Whether a write may start now, and by when it must have ended, if there is a limit.
    pub fn check(&self) -> Result<Option<Instant>, NotLeader> {
        let Some(validity) = &self.validity else {
            return Ok(None);
        };
        let validity = (*validity.borrow()).ok_or(NotLeader)?;
        if Instant::now() < validity.starts_until {
            Ok(Some(validity.ends_by))
        } else {
            Err(NotLeader)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn no_write_starts_at_the_renew_deadline_or_later() {
        let sent = Instant::now();
        let (validity, watched) = watch::channel(None);
        let fence = Fence::new(watched);
        assert_eq!(fence.check(), Err(NotLeader), "never the leader");

        validity.send_replace(Some(Validity::since(sent, 10 * SECOND, 15 * SECOND)));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        let ends_by = fence.check().unwrap().unwrap();
        assert!(ends_by < sent + 15 * SECOND, "ends before it can be taken");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(fence.check(), Err(NotLeader));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_whose_elector_is_gone_closes_in_time() {
        let renewed = Validity::since(Instant::now(), 10 * SECOND, 15 * SECOND);
        let (validity, watched) = watch::channel(Some(renewed));
        let fence = Fence::new(watched);
        drop(validity);
        assert!(fence.check().is_ok());
        tokio::time::advance(10 * SECOND).await;
        assert_eq!(fence.check(), Err(NotLeader));
        assert_eq!(Fence::always().check(), Ok(None));
    }
}
