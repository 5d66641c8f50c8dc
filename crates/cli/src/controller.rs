//! `edgegrid controller`: keeps every grid, unit and group as its manifest says.

mod args;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use edgegrid_controllers::process::{self, Process};
use edgegrid_controllers::{Setup, metrics as passes};
use edgegrid_runtime::executor::{self, Executor};
use edgegrid_runtime::{
    Elector, Fence, Readiness, Shutdown, Tasks, admin, client, logging, shutdown,
};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tracing::info;

pub(crate) use args::Args;

/// What the names of our metrics begin with.
const PREFIX: &str = "edgegrid";
/// Names of the process's tasks.
const CONTROLLERS: &str = "controllers";
const ADMIN: &str = "admin";
const SIGNALS: &str = "signals";

/// Threads: the lease is renewed and probes are answered while a large grid is planned.
const THREADS: usize = 2;

/// Runs until a signal ends it.
pub(crate) fn run(args: Args) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .context("start the runtime")?
        .block_on(serve(args))
}

async fn serve(args: Args) -> Result<()> {
    logging::start(args.log_format.into(), args.log_level.parse()?);
    let agent = concat!("edgegrid-controller/", env!("CARGO_PKG_VERSION"));
    let client = client::connect(args.kubeconfig.as_deref(), agent).await?;
    let mut registry = Registry::with_prefix(PREFIX);
    let (elector, fence) = elect(&args, &client, &mut registry)?;
    let writes = executor::Metrics::register(&mut registry);
    let setup = Setup {
        executor: Executor::new(client.clone(), fence, args.limits(), writes),
        client,
        config: args.config(),
        metrics: passes::Metrics::register(&mut registry),
        clock: Arc::new(jiff::Timestamp::now),
    };
    let (trigger, heard) = shutdown::channel();
    let readiness = Readiness::default();
    let process = Process {
        elector,
        manages_definitions: args.manage_crds,
        readiness: readiness.clone(),
        shutdown: heard.clone(),
    };
    let listener = listen(args.bind_address).await?;
    let mut tasks = Tasks::default();
    tasks.spawn(SIGNALS, async {
        let _ = trigger.pull_on_signals().await;
    });
    tasks.spawn(ADMIN, async {
        let _ = admin::serve(listener, admin::router(readiness, registry)).await;
    });
    tasks.spawn(CONTROLLERS, process::run(setup, process));
    finish(&mut tasks, &heard).await
}

/// The election, unless the user says that this is the only controller.
fn elect(
    args: &Args,
    client: &kube::Client,
    registry: &mut Registry,
) -> Result<(Option<Elector>, Fence)> {
    if !args.leader_elect {
        return Ok((None, Fence::always()));
    }
    let (elector, fence) = Elector::new(client.clone(), args.lease())?;
    elector.register(registry);
    Ok((Some(elector), fence))
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

/// Waits for the controllers to end; anything else that ends first is a fault.
async fn finish(tasks: &mut Tasks, shutdown: &Shutdown) -> Result<()> {
    let ended = tokio::select! {
        ended = tasks.next_end() => ended,
        () = shutdown.aborted() => bail!("stopped by a second signal before all was in order"),
    };
    match ended {
        Some(ended) if ended.name == CONTROLLERS && !ended.has_panicked => {
            info!("stopped");
            Ok(())
        }
        Some(ended) => bail!("task {} ended unexpectedly", ended.name),
        None => Ok(()),
    }
}
