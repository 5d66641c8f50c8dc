//! What may be set on the command line of `edgegrid controller`.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, ValueEnum};
use edgegrid_api::names;
use edgegrid_controllers::Config;
use edgegrid_runtime::logging::Format;
use edgegrid_runtime::{LeaseConfig, Limits};

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

    /// Writes to the API server under way at the same time.
    #[arg(long, visible_alias = "worker", default_value_t = Limits::default().concurrency, value_name = "N")]
    pub(super) concurrency: usize,

    /// Take turns with other controllers. Only for a single one: two without it fight.
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set, value_name = "BOOL", help_heading = "Leader election")]
    pub(super) leader_elect: bool,

    /// Namespace of the lease; it must exist.
    #[arg(long, default_value = names::SYSTEM_NAMESPACE, value_name = "NAMESPACE", help_heading = "Leader election")]
    lease_namespace: String,

    /// Name of the lease. The shipped rights are for the default.
    #[arg(long, default_value = names::CONTROLLER, value_name = "NAME", help_heading = "Leader election")]
    lease_name: String,

    /// The others wait so long after the last renewal they saw. Whole seconds.
    #[arg(long, default_value = "15s", value_parser = duration, value_name = "TIME", help_heading = "Leader election")]
    lease_duration: Duration,

    /// Nothing is written later than this after the last renewal.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME", help_heading = "Leader election")]
    renew_deadline: Duration,

    /// Time between renewals, and between looks of those who stand by.
    #[arg(long, default_value = "2s", value_parser = duration, value_name = "TIME", help_heading = "Leader election")]
    retry_period: Duration,

    /// Where /healthz, /readyz and /metrics are served, without authentication. In a pod, whose probes
    /// come from outside: 0.0.0.0:8080.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    pub(super) bind_address: SocketAddr,

    /// How log lines on standard error look.
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub(super) log_format: LogFormat,

    /// What is logged: error, warn, info, debug, trace, or by part as in
    /// `info,edgegrid_runtime=debug`.
    #[arg(
        long,
        env = "EDGEGRID_LOG",
        default_value = "info",
        value_name = "LEVEL"
    )]
    pub(super) log_level: String,
}

/// How log lines look.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

impl Args {
    pub(super) fn lease(&self) -> LeaseConfig {
        LeaseConfig {
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
            ..LeaseConfig::new(&self.lease_namespace, &self.lease_name, &identity())
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            concurrency: self.concurrency,
            ..Limits::default()
        }
    }

    pub(super) fn config(&self) -> Config {
        Config {
            unit_grace: self.unit_grace,
        }
    }
}

/// The host's name, for people, and a number that no other process has, not even this one restarted.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let unique = RandomState::new().hash_one(std::process::id());
    format!("{}_{unique:016x}", host.trim())
}

/// Reads `90s`, `5m`, `1h30m`, `250ms`, or `0`.
fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let span: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "expected a time such as 90s, 5m or 1h30m".to_owned())?;
    Duration::try_from(span).map_err(|_| "expected a time that is not negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
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
