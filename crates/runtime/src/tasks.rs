//! Tasks that have names and are joined: none outlives its owner, none dies unnoticed.

use std::collections::BTreeMap;
use std::future::Future;

use tokio::task::{Id, JoinSet};
use tracing::{Instrument, error_span};

/// Tasks of one process; dropping it aborts them.
#[derive(Debug, Default)]
pub struct Tasks {
    running: JoinSet<()>,
    names: BTreeMap<Id, &'static str>,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The name under which it was spawned.
    pub name: &'static str,
    /// Whether it ended by a panic.
    pub has_panicked: bool,
}

impl Tasks {
    /// Starts a task; what it logs carries its name.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self
            .running
            .spawn(task.instrument(error_span!("task", name)));
        self.names.insert(handle.id(), name);
    }

    /// The next task that ends; `None` if there is none left.
    pub async fn next_end(&mut self) -> Option<Ended> {
        let (id, has_panicked) = match self.running.join_next_with_id().await? {
            Ok((id, ())) => (id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let name = self.names.remove(&id).unwrap_or_default();
        Some(Ended { name, has_panicked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_end_is_reported_by_name_panics_too() {
        let mut tasks = Tasks::default();
        tasks.spawn("ends", async {});
        tasks.spawn("fails", async { panic!("on purpose") });
        let mut ends = vec![tasks.next_end().await.unwrap()];
        ends.push(tasks.next_end().await.unwrap());
        ends.sort_by_key(|ended| ended.name);
        let seen: Vec<_> = ends
            .iter()
            .map(|end| (end.name, end.has_panicked))
            .collect();
        assert_eq!(seen, [("ends", false), ("fails", true)]);
        assert_eq!(tasks.next_end().await, None);
    }

    #[tokio::test]
    async fn what_is_dropped_stops() {
        let (alive, gone) = tokio::sync::oneshot::channel::<()>();
        let mut tasks = Tasks::default();
        tasks.spawn("waits", async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        drop(tasks);
        assert!(gone.await.is_err(), "its half of the channel is dropped");
    }
}
