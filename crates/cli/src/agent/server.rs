//! Options of the node's own DNS server.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use anyhow::{Context, Result};
use edgegrid_dns::names::Names;
use edgegrid_dns::server::{Config, Rate, Resolvers, Server};
use ipnet::IpNet;

// No doc comment: clap would show it instead of the command's own.
#[derive(clap::Args)]
pub(super) struct ServerArgs {
    /// Address to answer DNS queries on, over UDP and TCP; may be repeated. Without one no DNS server
    /// runs.
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "DNS server")]
    dns_listen: Vec<SocketAddr>,

    /// Network whose clients may send queries, besides this machine: usually that of its pods; may be
    /// repeated.
    #[arg(
        long,
        value_name = "CIDR",
        requires = "dns_listen",
        help_heading = "DNS server"
    )]
    dns_allow: Vec<IpNet>,

    /// DNS server to forward names of the cluster domain to that belong to no Service; may be repeated.
    /// Without one they do not exist.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        requires = "dns_listen",
        help_heading = "DNS server"
    )]
    cluster_dns: Vec<SocketAddr>,

    /// DNS server to forward all other names to; may be repeated. Default: those of /etc/resolv.conf.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        requires = "dns_listen",
        help_heading = "DNS server"
    )]
    dns_resolver: Vec<SocketAddr>,

    /// Queries a second that are answered to one client, with bursts of twice as many; 0 sets no limit.
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = Rate::default().per_second.get(),
        help_heading = "DNS server"
    )]
    dns_rate: u32,
}

impl ServerArgs {
    /// Takes the addresses; none if no server is wanted.
    pub(super) async fn bind(&self, domain: &str, names: &Names) -> Result<Option<Server>> {
        if self.dns_listen.is_empty() {
            return Ok(None);
        }
        let defaults = Config::new(self.dns_listen.clone(), domain);
        let config = Config {
            cluster_dns: self.cluster_dns.clone(),
            resolvers: match self.dns_resolver.as_slice() {
                [] => defaults.resolvers,
                these => Resolvers::These(these.to_vec()),
            },
            allow: self.dns_allow.clone(),
            rate: NonZeroU32::new(self.dns_rate).map(|per_second| Rate {
                per_second,
                burst: per_second.saturating_mul(TWICE),
            }),
            ..defaults
        };
        let server = Server::bind(config, names.records().clone()).await;
        Ok(Some(server.context("start the DNS server")?))
    }
}

const TWICE: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);
