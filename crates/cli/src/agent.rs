//! `edgegrid agent`: the wrapper, the short names of the own site's pods, and a DNS server if one is wanted; one
//! process, one cache.

mod server;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use edgegrid_api::names::{DEFAULT_CLUSTER_DOMAIN, DEFAULT_HOSTS_FILE};
use edgegrid_dns::hosts::{Hosts, Metrics, WriteMode};
use edgegrid_dns::names::Names;
use edgegrid_dns::server::Server;
use edgegrid_runtime::{Shutdown, shutdown};
use edgegrid_wrapper::Wrapper;
use server::ServerArgs;
use tokio::task::JoinSet;

use crate::{service, wrapper};

#[derive(clap::Args)]
#[command(
    about = "Run all that a node needs in one process: the wrapper, short names of its own site, a DNS server",
    long_about = None
)]
#[group(skip)] // the wrapper's arguments are a group of the same name
pub(crate) struct Args {
    #[command(flatten)]
    wrapper: wrapper::Args,

    #[command(flatten)]
    names: NameArgs,

    #[command(flatten)]
    server: ServerArgs,
}

// No doc comment: clap would show it instead of the command's own.
#[derive(clap::Args)]
struct NameArgs {
    /// Hosts file to write the short names to, for a CoreDNS that does not read the API through this
    /// node; with an empty value none is written.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_HOSTS_FILE, help_heading = "Names")]
    hostpath: OsString,

    /// Write into the existing hosts file instead of replacing it: for a file that is itself a mount.
    #[arg(long, help_heading = "Names")]
    hosts_in_place: bool,

    /// DNS domain of the cluster.
    #[arg(long, value_name = "DOMAIN", default_value = DEFAULT_CLUSTER_DOMAIN, help_heading = "Names")]
    cluster_domain: String,
}

impl NameArgs {
    fn domain(&self) -> String {
        self.cluster_domain.trim_matches('.').to_ascii_lowercase()
    }

    fn hosts(&self) -> Option<Hosts> {
        let path = PathBuf::from(&self.hostpath);
        let hosts = Hosts {
            path,
            mode: if self.hosts_in_place {
                WriteMode::InPlace
            } else {
                WriteMode::Rename
            },
            domain: self.domain(),
        };
        (!self.hostpath.is_empty()).then_some(hosts)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.wrapper.start_log()?;
    service::block_on(serve(args))
}

async fn serve(args: &Args) -> Result<()> {
    let (wrapper, sockets) = wrapper::set_up(&args.wrapper, true).await?;
    let (trigger, stop) = shutdown::channel();
    let names = Names::default();
    let server = args.server.bind(&args.names.domain(), &names).await?;
    let mut following = follow(&args.names, &wrapper, &names, &stop);
    let dns = answer(server, &wrapper, stop.clone());
    let serving = async {
        tokio::try_join!(
            async {
                wrapper
                    .clone()
                    .run(sockets, stop.clone())
                    .await
                    .context("serve")
            },
            dns,
        )
    };
    tokio::select! {
        ended = serving => { ended?; }
        ended = trigger.pull_on_signals() => ended.context("listen for signals")?,
        () = stop.aborted() => return Ok(()),
    }
    while following.join_next().await.is_some() {}
    Ok(())
}

/// Follows the names of the wrapper's view, and keeps the hosts file.
fn follow(args: &NameArgs, wrapper: &Wrapper, names: &Names, stop: &Shutdown) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(names.clone().follow(wrapper.follow(), stop.clone()));
    if let Some(hosts) = args.hosts() {
        let metrics = Metrics::default();
        wrapper.register(|registry| metrics.register(registry));
        tasks.spawn(hosts.keep(names.clone(), metrics, stop.clone()));
    }
    tasks
}

/// Runs the DNS server, if there is to be one.
async fn answer(server: Option<Server>, wrapper: &Wrapper, stop: Shutdown) -> Result<()> {
    let Some(server) = server else { return Ok(()) };
    wrapper.register(|registry| server.metrics().register(registry));
    server.run(stop).await.context("answer DNS questions")
}
