//! How a process ends: the first signal asks everything to finish what it has begun, the second
//! stops at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

/// Lets tasks wait for the end of the process; clones wait for the same.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Stage>);

/// Asks the process to end.
#[derive(Debug)]
pub struct Trigger(watch::Sender<Stage>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Running,
    Draining,
    Aborting,
}

/// A shutdown and what triggers it.
pub fn channel() -> (Trigger, Shutdown) {
    let (trigger, stage) = watch::channel(Stage::default());
    (Trigger(trigger), Shutdown(stage))
}

impl Trigger {
    /// Asks once more: the first time to drain, the second to stop at once.
    pub fn pull(&self) {
        self.0.send_modify(|stage| {
            *stage = match stage {
                Stage::Running => Stage::Draining,
                Stage::Draining | Stage::Aborting => Stage::Aborting,
            };
        });
    }

    /// Pulls at every SIGTERM and SIGINT, for ever.
    pub async fn pull_on_signals(self) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        loop {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            self.pull();
            if *self.0.borrow() == Stage::Aborting {
                warn!(signal = name, "second signal, stopping at once");
            } else {
                info!(
                    signal = name,
                    "shutting down, a second signal stops at once"
                );
            }
        }
    }
}

impl Shutdown {
    /// Ends when the process is to finish what it has begun.
    pub async fn requested(&self) {
        self.reached(Stage::Draining).await;
    }

    /// Ends when the process is to stop at once.
    pub async fn aborted(&self) {
        self.reached(Stage::Aborting).await;
    }

    /// A trigger that is gone without being pulled means that nobody will ever ask.
    async fn reached(&self, stage: Stage) {
        let mut current = self.0.clone();
        if current.wait_for(|now| *now >= stage).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_first_pull_drains_and_the_second_aborts() {
        let (trigger, shutdown) = channel();
        assert!(shutdown.requested().now_or_never().is_none());
        trigger.pull();
        assert!(shutdown.requested().now_or_never().is_some());
        assert!(shutdown.aborted().now_or_never().is_none());
        trigger.pull();
        assert!(shutdown.clone().aborted().now_or_never().is_some());
        assert!(shutdown.requested().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_trigger_that_is_gone_asks_for_nothing() {
        let (trigger, shutdown) = channel();
        drop(trigger);
        assert!(shutdown.requested().now_or_never().is_none());
        assert!(shutdown.aborted().now_or_never().is_none());
    }
}
