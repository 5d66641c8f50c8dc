//! What may be set on the command line of `edgegrid controller`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use edgegrid_api::names;
use edgegrid_controllers::Config;
use edgegrid_runtime::Limits;

use crate::service::{Election, Log, duration};

/// Run the controller of grids, node units and node groups.
///
/// Any number of replicas may run: one leads and writes, the others keep their caches warm and take over
/// within seconds. On SIGTERM or SIGINT it finishes what it has begun; a second signal stops it at once.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Path to a kubeconfig file. Default: $KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Create missing custom resource definitions of edgegrid's kinds and upgrade older ones. Newer ones,
    /// and what others added, stay as they are.
    #[arg(long, alias = "ensure-crd", default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set, value_name = "BOOL")]
    pub(super) manage_crds: bool,

    /// How long the workloads of a unit are kept after its last Node was deleted. If its Nodes only lost
    /// the label, they are deleted at once.
    #[arg(long, default_value = "5m", value_parser = duration, value_name = "DURATION")]
    pub(super) unit_grace: Duration,

    /// As a member of a control cluster, create missing namespaces of federated grids.
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set, value_name = "BOOL")]
    pub(super) create_namespaces: bool,

    /// Number of writes to the API server that may be in flight at the same time.
    #[arg(long, visible_alias = "worker", default_value_t = Limits::default().concurrency, value_name = "N")]
    pub(super) concurrency: usize,

    #[command(flatten)]
    pub(super) election: Election,

    /// Name of the Lease. The shipped Role allows only the default.
    #[arg(long, default_value = names::CONTROLLER, value_name = "NAME", help_heading = "Leader election")]
    pub(super) lease_name: String,

    /// Address to serve /healthz, /readyz and /metrics on, over plain HTTP and without authentication. In
    /// a pod use 0.0.0.0:8080, which the kubelet's probes reach.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    pub(super) bind_address: SocketAddr,

    #[command(flatten)]
    pub(super) log: Log,
}

impl Args {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            concurrency: self.concurrency,
            ..Limits::default()
        }
    }

    pub(super) fn config(&self) -> Config {
        Config {
            unit_grace: self.unit_grace,
            creates_namespaces: self.create_namespaces,
        }
    }
}
