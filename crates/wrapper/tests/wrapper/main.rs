//! The wrapper as its clients see it, in one process and in virtual time: a cloud to be cut off
//! from, and clients that trust what they are sent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod changes;
mod cloud;
mod cut_off;
mod discovery;
mod disk;
mod fuzz;
mod gone;
mod history;
mod ingress;
mod lines;
mod mirror;
mod model;
mod readiness;
mod rule;
mod superedge_defects;
mod watcher;

use edgegrid_runtime::shutdown::{self, Trigger};
use edgegrid_wrapper::{Config, Link, Wrapper};
use jiff::Timestamp;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::JoinHandle;

/// One clock for all runs of a test: it goes on over restarts.
static START: OnceLock<tokio::time::Instant> = OnceLock::new();

/// A wrapper that runs, without sockets.
pub(crate) struct Running {
    wrapper: Wrapper,
    trigger: Trigger,
    task: JoinHandle<std::io::Result<()>>,
}

impl Running {
    pub(crate) fn start(node: &str, client: kube::Client, state: Option<&Path>) -> Self {
        let state = state.map(Path::to_owned);
        let defaults = Config::new(node);
        Self::with(&Config { state, ..defaults }, client)
    }

    pub(crate) fn with(config: &Config, client: kube::Client) -> Self {
        let start = *START.get_or_init(tokio::time::Instant::now);
        let clock = move || Timestamp::constant(1_767_225_600, 0) + start.elapsed();
        let wrapper = Wrapper::new(config, Link::from_client(client), Arc::new(clock));
        let (trigger, stop) = shutdown::channel();
        #[expect(clippy::disallowed_methods, reason = "joined by stop()")]
        let task = tokio::spawn(wrapper.clone().run(Vec::new(), stop));
        Self {
            wrapper,
            trigger,
            task,
        }
    }

    pub(crate) fn client(&self) -> kube::Client {
        self.wrapper.client()
    }

    /// Ends it as SIGTERM does.
    pub(crate) async fn stop(self) {
        self.trigger.pull();
        self.task.await.unwrap().unwrap();
    }

    /// Ends it as a crash does.
    pub(crate) async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Looks until it holds; virtual time makes it cheap.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> Result<(), String>) {
    let mut last = String::new();
    for _ in 0..6000 {
        match holds().await {
            Ok(()) => return,
            Err(seen) => last = seen,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never {what}; last seen: {last}");
}
