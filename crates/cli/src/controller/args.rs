//! What may be set on the command line of `edgegrid controller`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use edgegrid_api::names;
use edgegrid_controllers::Config;
use edgegrid_runtime::Limits;

use crate::service::{Election, Log, duration};

/// Run the controller: it stamps grids into every site and looks after units and groups.
///
/// Any number may run at the same time: one works, the others stand by with warm caches and take over
/// within seconds. SIGTERM and SIGINT let it finish what it has begun; a second one stops it at once.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How to reach the cluster. Default: $KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Create missing definitions of edgegrid's kinds and upgrade older ones. Newer ones and what
    /// others added are kept.
    #[arg(long, alias = "ensure-crd", default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set, value_name = "BOOL")]
    pub(super) manage_crds: bool,

    /// How long a unit whose Nodes were deleted keeps its workloads. One whose nodes merely lost the
    /// label loses them at once.
    #[arg(long, default_value = "5m", value_parser = duration, value_name = "TIME")]
    pub(super) unit_grace: Duration,

    /// As a member of a control cluster, create the namespaces that federated grids are for.
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set, value_name = "BOOL")]
    pub(super) create_namespaces: bool,

    /// Writes to the API server under way at the same time.
    #[arg(long, visible_alias = "worker", default_value_t = Limits::default().concurrency, value_name = "N")]
    pub(super) concurrency: usize,

    #[command(flatten)]
    pub(super) election: Election,

    /// Name of the lease. The shipped rights are for the default.
    #[arg(long, default_value = names::CONTROLLER, value_name = "NAME", help_heading = "Leader election")]
    pub(super) lease_name: String,

    /// Where /healthz, /readyz and /metrics are served, without authentication. In a pod, whose probes
    /// come from outside: 0.0.0.0:8080.
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
