//! The way upstream: one client with the wrapper's identity, one that leaves the caller's alone.

use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use std::time::Duration;
use tower::{BoxError, ServiceBuilder};
use tower_http::decompression::DecompressionLayer;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A link that is cut without a word is found out after about this time and three tries.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;
/// Idle connections are given back after this time.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// The two ways to ask upstream.
#[derive(Clone)]
pub struct Link {
    /// With the wrapper's own credentials.
    pub own: Client,
    /// With none: the caller's go along.
    pub bare: Client,
}

impl Link {
    /// Makes both clients; nothing is connected yet. The error names what the kubeconfig lacks.
    pub fn new(config: &Config) -> Result<Self, kube::Error> {
        let mut bare = config.clone();
        bare.auth_info = kube::config::AuthInfo::default();
        bare.headers = Vec::new();
        Ok(Self {
            own: client(config)?,
            bare: client(&bare)?,
        })
    }

    /// The same client for both: where no credentials are involved.
    pub fn from_client(client: Client) -> Self {
        Self {
            own: client.clone(),
            bare: client,
        }
    }
}

/// A client that does not retry (its callers do, each in its way) and notices a dead link.
fn client(config: &Config) -> Result<Client, kube::Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let pool: Pool<_, Body> = Pool::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(4)
        .pool_timer(TokioTimer::new())
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(DecompressionLayer::new())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(pool);
    Ok(Client::new(service, "default"))
}
