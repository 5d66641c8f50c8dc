//! `edgegrid wrapper`: the API as this node's kube-proxy and CoreDNS are to see it.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use edgegrid_runtime::client::Source;
use edgegrid_runtime::shutdown;
use edgegrid_wrapper::{Access, Config, Link, Socket, Tls, Wrapper};
use tracing::{info, warn};

use crate::service::{self, Log, duration};

/// Serve the API to this node's kube-proxy and CoreDNS, with each service's endpoints cut to
/// what the node may reach.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the Node that this runs on.
    #[arg(long, value_name = "NODE")]
    hostname: String,

    /// Path to a kubeconfig file for the API server, or for the lite-apiserver in front of it. Default:
    /// $KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Address to serve the API on; may be repeated. Any other than a loopback address is served over
    /// TLS and needs --cert-file, --key-file and --ca-file.
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:51006")]
    bind_address: Vec<String>,

    /// Serve plain HTTP on loopback addresses; if false, TLS there too.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    insecure: bool,

    #[command(flatten)]
    beyond_loopback: BeyondLoopback,

    /// Folder for the state that a start without connection to the API server needs; with an empty value
    /// nothing is stored.
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "/var/lib/edgegrid/wrapper"
    )]
    state_folder: OsString,

    /// Ask the API server for lists as watch streams. Not behind a lite-apiserver, which caches only
    /// plain lists.
    #[arg(long)]
    stream_lists: bool,

    /// How long this node and its peers stay where they were when their Node objects are deleted. With 0
    /// they lose their place at once.
    #[arg(long, default_value = "5m", value_parser = duration, value_name = "DURATION")]
    node_grace: Duration,

    /// Also serve /debug/feeds, with figures of every list and watch.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    debug: bool,

    #[command(flatten)]
    log: Log,

    #[command(flatten)]
    without_effect: WithoutEffect,
}

// No doc comments on these two: clap would show them instead of the command's own.

// How to serve elsewhere than on loopback, and to whom.
#[derive(clap::Args)]
struct BeyondLoopback {
    /// CA that signs client certificates, in PEM; for TLS.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Server certificate, in PEM; for TLS.
    #[arg(long, value_name = "FILE")]
    cert_file: Option<PathBuf>,

    /// Private key of the server certificate, in PEM; for TLS.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Over TLS, authenticate clients by the cluster's service account tokens too.
    #[arg(long)]
    bearer_tokens: bool,

    /// User that may read over TLS, instead of kube-proxy and CoreDNS under their usual names; may be
    /// repeated.
    #[arg(long, value_name = "USER")]
    allow_user: Vec<String>,

    /// Group that may read over TLS; may be repeated. It too replaces the usual names of kube-proxy and
    /// CoreDNS.
    #[arg(long, value_name = "GROUP")]
    allow_group: Vec<String>,
}

// Flags of SuperEdge's wrapper that mean nothing here, so that its manifests start.
#[derive(clap::Args)]
struct WithoutEffect {
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true")]
    wrapper_in_cluster: Option<String>,
    #[arg(long, hide = true)]
    notify_channel_size: Option<String>,
    #[arg(long, hide = true)]
    kube_qps: Option<String>,
    #[arg(long, hide = true)]
    kube_burst: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true")]
    support_endpointslice: Option<String>,
    #[arg(long, hide = true)]
    service_autonomy_enhancement: Option<String>,
}

impl WithoutEffect {
    fn given(&self) -> impl Iterator<Item = &'static str> {
        [
            ("--wrapper-in-cluster", &self.wrapper_in_cluster),
            ("--notify-channel-size", &self.notify_channel_size),
            ("--kube-qps", &self.kube_qps),
            ("--kube-burst", &self.kube_burst),
            ("--support-endpointslice", &self.support_endpointslice),
            (
                "--service-autonomy-enhancement",
                &self.service_autonomy_enhancement,
            ),
        ]
        .into_iter()
        .filter_map(|(flag, value)| value.is_some().then_some(flag))
    }
}

impl Args {
    /// Logs from here on, first about flags that mean nothing.
    pub(crate) fn start_log(&self) -> Result<()> {
        self.log.start()?;
        for flag in self.without_effect.given() {
            warn!(flag, "flag has no effect");
        }
        Ok(())
    }
}

impl BeyondLoopback {
    /// All three files or no TLS: clients that cannot be authenticated are not served.
    fn tls(&self) -> Option<Tls> {
        Some(Tls {
            certificate: self.cert_file.clone()?,
            key: self.key_file.clone()?,
            client_ca: self.ca_file.clone()?,
            tokens: self.bearer_tokens,
        })
    }

    fn access(&self) -> Access {
        if self.allow_user.is_empty() && self.allow_group.is_empty() {
            return Access::default();
        }
        Access {
            users: self.allow_user.iter().cloned().collect(),
            groups: self.allow_group.iter().cloned().collect(),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.start_log()?;
    service::block_on(serve(args))
}

async fn serve(args: &Args) -> Result<()> {
    let (wrapper, sockets) = set_up(args, false).await?;
    let (trigger, stop) = shutdown::channel();
    tokio::select! {
        ended = wrapper.run(sockets, stop.clone()) => ended.context("serve")?,
        ended = trigger.pull_on_signals() => ended.context("listen for signals")?,
        () = stop.aborted() => {}
    }
    Ok(())
}

/// A wrapper and where it is to listen; with short names if they are wanted.
pub(crate) async fn set_up(args: &Args, names: bool) -> Result<(Wrapper, Vec<Socket>)> {
    let link = Link::new(Source::new(args.kubeconfig.as_deref())).await?;
    let tls = args.beyond_loopback.tls();
    let mut sockets = Vec::new();
    for text in &args.bind_address {
        sockets.extend(bind(args, tls.as_ref(), text).await?);
    }
    let state = Some(&args.state_folder).filter(|folder| !folder.is_empty());
    let config = Config {
        state: state.map(PathBuf::from),
        stream_lists: args.stream_lists,
        debug: args.debug,
        access: args.beyond_loopback.access(),
        tokens: args.beyond_loopback.bearer_tokens,
        names,
        node_grace: args.node_grace,
        ..Config::new(&args.hostname)
    };
    let wrapper = Wrapper::new(&config, link, Arc::new(jiff::Timestamp::now));
    Ok((wrapper, sockets))
}

/// Opens the sockets of an address. A name may have an address of each family, of which one is
/// enough.
async fn bind(args: &Args, tls: Option<&Tls>, text: &str) -> Result<Vec<Socket>> {
    let (mut sockets, mut failed) = (Vec::new(), None);
    for address in addresses(text)? {
        let plain = address.ip().is_loopback() && args.insecure;
        let missing = || format!("{address} needs TLS: pass --cert-file, --key-file and --ca-file");
        let tls = if plain {
            None
        } else {
            Some(tls.with_context(missing)?)
        };
        match Socket::bind(address, tls).await {
            Ok(socket) => {
                info!(%address, tls = tls.is_some(), "listening");
                sockets.push(socket);
            }
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if sockets.is_empty() => Err(error.into()),
        _ => Ok(sockets),
    }
}

/// All addresses behind a name and port.
fn addresses(text: &str) -> Result<Vec<SocketAddr>> {
    let found = text
        .to_socket_addrs()
        .with_context(|| format!("resolve {text} (--bind-address)"))?;
    let mut found: Vec<SocketAddr> = found.collect();
    found.sort();
    found.dedup();
    Ok(found)
}
