//! `edgegrid statefulset`: our StatefulSet controller in the place of kube-controller-manager's.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, bail};
use edgegrid_api::names;
use edgegrid_runtime::client::{self, Source};
use edgegrid_runtime::credentials;
use edgegrid_runtime::{Elector, Shutdown};
use edgegrid_statefulset::{Config, Metrics};
use kube::Client;

use crate::service::{self, Election, Log, Service};

/// Name of the task that does the work.
const CONTROLLER: &str = "statefulsets";

const WHY_NOT: &str = "\
kube-controller-manager already runs a StatefulSet controller, and two controllers would overwrite each other's work.
To put this one in its place:
  1. start kube-controller-manager with --controllers=*,-statefulset-controller
  2. run edgegrid statefulset --take-over
Rollouts in progress continue, and no pod is restarted. To go back, stop this command and start
kube-controller-manager without that flag";

/// Run the StatefulSet controller of a cluster in place of kube-controller-manager's.
///
/// Any number of replicas may run: one leads, the others stand by. On SIGTERM or SIGINT it finishes what
/// it has begun; a second signal stops it at once.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Confirm that kube-controller-manager runs with --controllers=*,-statefulset-controller. Without
    /// this the command only explains itself and ends.
    #[arg(long)]
    take_over: bool,

    /// Path to a kubeconfig file. Default: $KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Number of StatefulSets that may be reconciled at the same time.
    #[arg(long, default_value_t = Config::default().concurrency, value_name = "N")]
    concurrency: u16,

    #[command(flatten)]
    election: Election,

    /// Address to serve /healthz, /readyz and /metrics on, over plain HTTP and without authentication. In
    /// a pod use 0.0.0.0:8081, which the kubelet's probes reach.
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "ADDRESS")]
    bind_address: SocketAddr,

    #[command(flatten)]
    log: Log,
}

/// Runs until a signal ends it.
pub(crate) fn run(args: Args) -> Result<()> {
    if !args.take_over {
        bail!("{WHY_NOT}");
    }
    service::block_on(serve(args))
}

async fn serve(args: Args) -> Result<()> {
    args.log.start()?;
    let agent = concat!("edgegrid-statefulset/", env!("CARGO_PKG_VERSION"));
    let source = Source::new(args.kubeconfig.as_deref());
    let make = move |config| client::with_timeouts(config, agent);
    let mut service = Service::new(args.bind_address);
    let client = credentials::client(source, service.refusals.clone(), Box::new(make)).await?;
    let lease = names::STATEFULSET_CONTROLLER;
    let registry = &mut service.registry;
    let (elector, fence) = args.election.elector(lease, &client, registry)?;
    let metrics = Metrics::default();
    metrics.register(registry);
    let config = Config {
        concurrency: args.concurrency,
        fence,
        readiness: service.readiness.clone(),
        metrics,
        ..Config::default()
    };
    let work = |shutdown| lead(elector, client, config, shutdown);
    service.run(CONTROLLER, work).await
}

/// Runs the controller, while it leads if others could.
async fn lead(elector: Option<Elector>, client: Client, config: Config, shutdown: Shutdown) {
    let work = || term(client.clone(), config.clone(), shutdown.clone());
    match elector {
        Some(elector) => elector.run(shutdown.requested(), work).await,
        None => work().await,
    }
}

/// From being elected to the shutdown.
fn term(client: Client, config: Config, shutdown: Shutdown) -> impl Future<Output = ()> {
    let asked = async move { shutdown.requested().await };
    edgegrid_statefulset::run(client, config, asked)
}
