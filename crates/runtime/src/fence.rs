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
#[error("this process does not hold the lease")]
pub struct NotLeader;

/// Asked before every write; clones share what they know.
#[derive(Clone, Debug)]
pub struct Fence {
    held: Option<watch::Receiver<Option<Held>>>,
}

/// How long the lease that we hold allows what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// No write starts at this moment or later.
    pub(crate) starts_until: Instant,
    /// Every write has ended, or was given up, by then.
    pub(crate) ends_by: Instant,
}

impl Held {
    /// What a renewal sent at `sent` allows.
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
        Self { held: None }
    }

    pub(crate) fn of(held: watch::Receiver<Option<Held>>) -> Self {
        Self { held: Some(held) }
    }

    /// Whether a write may start now; says by when it must have ended, if there is a limit.
    pub fn check(&self) -> Result<Option<Instant>, NotLeader> {
        let Some(held) = &self.held else {
            return Ok(None);
        };
        let held = (*held.borrow()).ok_or(NotLeader)?;
        if Instant::now() < held.starts_until {
            Ok(Some(held.ends_by))
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
        let (held, watched) = watch::channel(None);
        let fence = Fence::of(watched);
        assert_eq!(fence.check(), Err(NotLeader), "never held");

        held.send_replace(Some(Held::since(sent, 10 * SECOND, 15 * SECOND)));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        let ends_by = fence.check().unwrap().unwrap();
        assert!(ends_by < sent + 15 * SECOND, "ends before it can be taken");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(fence.check(), Err(NotLeader));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_whose_elector_is_gone_closes_in_time() {
        let (held, watched) =
            watch::channel(Some(Held::since(Instant::now(), 10 * SECOND, 15 * SECOND)));
        let fence = Fence::of(watched);
        drop(held);
        assert!(fence.check().is_ok());
        tokio::time::advance(10 * SECOND).await;
        assert_eq!(fence.check(), Err(NotLeader));
        assert_eq!(Fence::always().check(), Ok(None));
    }
}
