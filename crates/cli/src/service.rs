//! What the long-running commands have in common: options, and a life from the first listening socket to
//! the last task.
//!
//! ```text
//! signals ─► shutdown ─► work ─► exit
//! health, readiness, metrics ──────┘   (whatever else ends first is a fault)
//! ```

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{ArgAction, ValueEnum};
use edgegrid_api::names;
use edgegrid_runtime::credentials::Refusals;
use edgegrid_runtime::logging::Format;
use edgegrid_runtime::{
    Elector, Fence, LeaseConfig, Readiness, Shutdown, Tasks, admin, logging, shutdown,
};
use kube::Client;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tracing::info;

/// What the names of our metrics begin with.
const PREFIX: &str = "edgegrid";
/// Names of the process's tasks besides its work.
const ADMIN: &str = "admin";
const SIGNALS: &str = "signals";

// No doc comments: clap would show them instead of the command's own.
#[derive(clap::Args)]
pub(crate) struct Election {
    /// Elect a leader before working: of all replicas only the leader writes. Turn it off only where a
    /// single replica runs, as two without it overwrite each other.
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set, value_name = "BOOL", help_heading = "Leader election")]
    leader_elect: bool,

    /// Namespace of the Lease that the replicas compete for; it must exist.
    #[arg(long, default_value = names::SYSTEM_NAMESPACE, value_name = "NAMESPACE", help_heading = "Leader election")]
    lease_namespace: String,

    /// Duration that non-leaders wait after the last renewal they observed before they try to acquire
    /// the lease: how long a crashed leader is missed at most. Whole seconds, longer than
    /// --renew-deadline.
    #[arg(long, default_value = "15s", value_parser = duration, value_name = "DURATION", help_heading = "Leader election")]
    lease_duration: Duration,

    /// Duration that the leader keeps trying to renew the lease before it gives up leadership and stops
    /// writing. Longer than --retry-period.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION", help_heading = "Leader election")]
    renew_deadline: Duration,

    /// Duration that the replicas wait between tries to renew the lease, or to acquire it.
    #[arg(long, default_value = "2s", value_parser = duration, value_name = "DURATION", help_heading = "Leader election")]
    retry_period: Duration,
}

#[derive(clap::Args)]
pub(crate) struct Log {
    /// Format of the log lines on standard error.
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    log_format: LogFormat,

    /// Lowest level that is logged: error, warn, info, debug or trace, or one for each module as in
    /// `info,edgegrid_runtime=debug`.
    #[arg(
        long,
        env = "EDGEGRID_LOG",
        default_value = "info",
        value_name = "LEVEL"
    )]
    log_level: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// What a process shows of itself, and where.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) readiness: Readiness,
    pub(crate) refusals: Refusals,
    pub(crate) registry: Registry,
}

impl Election {
    /// Takes part in the election under this name, unless the user says that this is the only replica.
    pub(crate) fn elector(
        &self,
        lease_name: &str,
        client: &Client,
        registry: &mut Registry,
    ) -> Result<(Option<Elector>, Fence)> {
        if !self.leader_elect {
            return Ok((None, Fence::always()));
        }
        let lease = LeaseConfig {
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
            ..LeaseConfig::new(&self.lease_namespace, lease_name, &identity())
        };
        let (elector, fence) = Elector::new(client.clone(), lease)?;
        elector.register(registry);
        Ok((Some(elector), fence))
    }
}

impl Log {
    /// Logs from here on.
    pub(crate) fn start(&self) -> Result<()> {
        let format = match self.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        };
        logging::start(format, self.log_level.parse()?);
        Ok(())
    }
}

impl Service {
    /// One that nothing is waited for and only refusals are counted in yet.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let (refusals, mut registry) = (Refusals::default(), Registry::with_prefix(PREFIX));
        refusals.register(&mut registry);
        Self {
            address,
            readiness: Readiness::default(),
            refusals,
            registry,
        }
    }

    /// Runs `work` until it ends after a signal; anything else that ends first is a fault.
    pub(crate) async fn run<F>(
        self,
        name: &'static str,
        work: impl FnOnce(Shutdown) -> F,
    ) -> Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (trigger, shutdown) = shutdown::channel();
        let listener = listen(self.address).await?;
        let mut tasks = Tasks::default();
        tasks.spawn(SIGNALS, async {
            let _ = trigger.pull_on_signals().await;
        });
        tasks.spawn(name, work(shutdown.clone()));
        tasks.spawn(ADMIN, async {
            let router = admin::router(self.readiness, self.refusals, self.registry);
            let _ = admin::serve(listener, router).await;
        });
        finish(name, &mut tasks, &shutdown).await
    }
}

/// Runs a command. One thread is enough: planning a thousand units takes milliseconds, and all else is
/// waiting for the API server.
pub(crate) fn block_on(command: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?
        .block_on(command)
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listen on {address} (--bind-address)"))?;
    let address = listener
        .local_addr()
        .context("read the address listened on")?;
    info!(%address, "serving /healthz, /readyz and /metrics");
    Ok(listener)
}

async fn finish(work: &str, tasks: &mut Tasks, shutdown: &Shutdown) -> Result<()> {
    let ended = tokio::select! {
        ended = tasks.next_end() => ended,
        () = shutdown.aborted() => bail!("stopped by a second signal, before the work in progress was finished"),
    };
    match ended {
        Some(ended) if ended.name == work && !ended.has_panicked => {
            info!("stopped");
            Ok(())
        }
        Some(ended) => bail!("task {} ended unexpectedly", ended.name),
        None => Ok(()),
    }
}

/// The host's name, for people, and a number that no other process has, not even this one restarted.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let unique = RandomState::new().hash_one(std::process::id());
    format!("{}_{unique:016x}", host.trim())
}

/// Reads `90s`, `5m`, `1h30m`, `250ms`, or `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let span: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "expected a duration such as 90s, 5m or 1h30m".to_owned())?;
    Duration::try_from(span).map_err(|_| "expected a duration that is not negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let read = |text| duration(text).unwrap();
        assert_eq!(read("5m"), Duration::from_mins(5));
        assert_eq!(read("1h30m"), Duration::from_mins(90));
        assert_eq!(read("250ms"), Duration::from_millis(250));
        assert_eq!(read("0"), Duration::ZERO);
        for text in ["", "5", "-5m", "soon"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_two_processes_have_the_same_identity() {
        assert_ne!(identity(), identity());
    }
}
