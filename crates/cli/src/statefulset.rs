//! `edgegrid statefulset`: our StatefulSet controller in the place of kube-controller-manager's.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::ArgAction;
use edgegrid_api::names;
use edgegrid_runtime::{
    Elector, Fence, LeaseConfig, Readiness, Shutdown, Tasks, admin, client, logging, shutdown,
};
use edgegrid_statefulset::{Config, Metrics};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

const PREFIX: &str = "edgegrid";
const LEASE: &str = "edgegrid-statefulset";
/// Names of the process's tasks.
const CONTROLLER: &str = "statefulsets";
const ADMIN: &str = "admin";
const SIGNALS: &str = "signals";
const THREADS: usize = 2;

const WHY_NOT: &str = "\
a cluster has a StatefulSet controller already, that of kube-controller-manager, and two of them on one set would fight.
To put this one in its place:
  1. start kube-controller-manager with --controllers=*,-statefulset-controller
  2. run edgegrid statefulset --take-over
Sets go on where they are, also in the middle of a rollout: no pod is restarted. To go back, stop this and
start kube-controller-manager without that flag";

/// Take over the StatefulSets of a cluster from kube-controller-manager.
///
/// Any number may run at the same time: one works, the others stand by. SIGTERM and SIGINT let it finish
/// what it has begun; a second one stops it at once.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Says that kube-controller-manager runs with --controllers=*,-statefulset-controller.
    #[arg(long)]
    take_over: bool,

    /// How to reach the cluster. Default: $KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Sets that are worked on at the same time.
    #[arg(long, default_value_t = Config::default().concurrency, value_name = "N")]
    concurrency: u16,

    /// Take turns with others of this kind. Only for a single one: two without it fight.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    leader_elect: bool,

    /// Namespace of the lease; it must exist.
    #[arg(long, default_value = names::SYSTEM_NAMESPACE, value_name = "NAMESPACE")]
    lease_namespace: String,

    /// Where /healthz, /readyz and /metrics are served, without authentication.
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "ADDRESS")]
    bind_address: SocketAddr,

    /// What is logged: error, warn, info, debug, trace, or by part.
    #[arg(
        long,
        env = "EDGEGRID_LOG",
        default_value = "info",
        value_name = "LEVEL"
    )]
    log_level: String,
}

/// Runs until a signal ends it.
pub(crate) fn run(args: Args) -> Result<()> {
    if !args.take_over {
        bail!("{WHY_NOT}");
    }
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .context("start the runtime")?
        .block_on(serve(args))
}

async fn serve(args: Args) -> Result<()> {
    logging::start(logging::Format::Text, args.log_level.parse()?);
    let agent = concat!("edgegrid-statefulset/", env!("CARGO_PKG_VERSION"));
    let client = client::connect(args.kubeconfig.as_deref(), agent).await?;
    let mut registry = Registry::with_prefix(PREFIX);
    let (elector, fence) = elect(&args, &client, &mut registry)?;
    let metrics = Metrics::default();
    metrics.register(&mut registry);
    let readiness = Readiness::default();
    let config = Config {
        concurrency: args.concurrency,
        fence,
        readiness: readiness.clone(),
        metrics,
        ..Config::default()
    };
    let (trigger, heard) = shutdown::channel();
    let listener = TcpListener::bind(args.bind_address)
        .await
        .with_context(|| format!("listen on {} (--bind-address)", args.bind_address))?;
    let mut tasks = Tasks::default();
    tasks.spawn(SIGNALS, async {
        let _ = trigger.pull_on_signals().await;
    });
    tasks.spawn(ADMIN, async {
        let _ = admin::serve(listener, admin::router(readiness, registry)).await;
    });
    tasks.spawn(CONTROLLER, lead(elector, client, config, heard.clone()));
    finish(&mut tasks, &heard).await
}

fn elect(
    args: &Args,
    client: &kube::Client,
    registry: &mut Registry,
) -> Result<(Option<Elector>, Fence)> {
    if !args.leader_elect {
        return Ok((None, Fence::always()));
    }
    let lease = LeaseConfig::new(&args.lease_namespace, LEASE, &identity());
    let (elector, fence) = Elector::new(client.clone(), lease)?;
    elector.register(registry);
    Ok((Some(elector), fence))
}

/// Runs the controller, while it leads if others could.
async fn lead(elector: Option<Elector>, client: kube::Client, config: Config, shutdown: Shutdown) {
    let work = || {
        let shutdown = shutdown.clone();
        let asked = async move { shutdown.requested().await };
        edgegrid_statefulset::run(client.clone(), config.clone(), asked)
    };
    match elector {
        Some(elector) => elector.run(shutdown.requested(), work).await,
        None => work().await,
    }
}

/// Waits for the controller to end; anything else that ends first is a fault.
async fn finish(tasks: &mut Tasks, shutdown: &Shutdown) -> Result<()> {
    let ended = tokio::select! {
        ended = tasks.next_end() => ended,
        () = shutdown.aborted() => bail!("stopped by a second signal before all was in order"),
    };
    match ended {
        Some(ended) if ended.name != CONTROLLER || ended.has_panicked => {
            bail!("task {} ended unexpectedly", ended.name)
        }
        _ => Ok(()),
    }
}

/// The host's name, for people, and a number that no other process has, not even this one restarted.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let unique = RandomState::new().hash_one(std::process::id());
    format!("{}_{unique:016x}", host.trim())
}
