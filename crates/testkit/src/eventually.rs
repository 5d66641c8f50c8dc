//! Waiting for a state of the cluster, never for a time.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep};

/// How long to wait, and how often to look.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// After this long the wait is given up.
    pub limit: Duration,
    /// Pause between two looks.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            limit: Duration::from_mins(1),
            pause: Duration::from_millis(100),
        }
    }
}

/// Looks again and again until `check` succeeds. Its error says what it saw instead, and
/// the last one is part of the message when the wait is given up.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> anyhow::Result<()> {
/// use edgegrid_testkit::eventually;
///
/// let looks = std::cell::Cell::new(0);
/// eventually("it was looked at three times", async || {
///     looks.set(looks.get() + 1);
///     anyhow::ensure!(looks.get() == 3, "{} looks", looks.get());
///     Ok(())
/// })
/// .await
/// # }
/// ```
pub async fn eventually<T>(what: &str, check: impl AsyncFn() -> Result<T>) -> Result<T> {
    eventually_within(Patience::default(), what, check).await
}

/// [`eventually`] with a patience of its own.
pub async fn eventually_within<T>(
    patience: Patience,
    what: &str,
    check: impl AsyncFn() -> Result<T>,
) -> Result<T> {
    let end = Instant::now() + patience.limit;
    loop {
        match check().await {
            Ok(seen) => return Ok(seen),
            Err(error) if Instant::now() >= end => {
                return Err(error).with_context(|| {
                    format!(
                        "gave up after {:?} waiting until {what}; last seen",
                        patience.limit
                    )
                });
            }
            Err(_) => sleep(patience.pause).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn giving_up_names_what_was_awaited_and_the_last_state() {
        let error = eventually("pods are ready", async || -> Result<()> {
            anyhow::bail!("1 of 3 ready")
        })
        .await
        .unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("until pods are ready; last seen: 1 of 3 ready"),
            "{text}"
        );
    }
}
