//! The way upstream: one client with the wrapper's identity, one that leaves the caller's alone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use edgegrid_runtime::client::{ConnectError, Source};
use edgegrid_runtime::credentials::{self, Refusals};
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::config::AuthInfo;
use kube::{Client, Config};
use percent_encoding::percent_decode_str;
use std::time::Duration;
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::decompression::DecompressionLayer;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A link that is cut without a word is found out after about this time and three tries.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;
/// Idle connections are given back after this time.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// The two ways to ask upstream, and how often it refused us.
#[derive(Clone)]
pub struct Link {
    /// With the wrapper's own credentials.
    pub own: Client,
    /// With none: the caller's go along.
    pub bare: Client,
    /// How often upstream refused the wrapper's own credentials.
    pub refusals: Refusals,
}

impl Link {
    /// Makes both clients, which follow the files of the kubeconfig; nothing is connected yet. The
    /// error names what the kubeconfig lacks.
    pub async fn new(source: Source) -> Result<Self, ConnectError> {
        let refusals = Refusals::default();
        let own = |config| client(&config);
        let bare = |mut config: Config| {
            config.auth_info = AuthInfo::default();
            config.headers = Vec::new();
            client(&config)
        };
        Ok(Self {
            own: credentials::client(source.clone(), refusals.clone(), Box::new(own)).await?,
            // Whom it refuses are others.
            bare: credentials::client(source, Refusals::default(), Box::new(bare)).await?,
            refusals,
        })
    }

    /// The same client for both: where no credentials are involved.
    pub fn from_client(client: Client) -> Self {
        Self {
            own: client.clone(),
            bare: client,
            refusals: Refusals::default(),
        }
    }
}

/// A client that does not retry (its callers do, each in its way) and notices a dead link.
fn client(config: &Config) -> Result<Client, ConnectError> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    let made = match &config.proxy_url {
        None => over(connector, config),
        Some(proxy) => match proxy.scheme_str() {
            Some("http") => over(tunnel(proxy, connector), config),
            // As in kube's own client the kubeconfig's CA vouches for the proxy too.
            Some("https") => config
                .rustls_https_connector_with_connector(connector)
                .and_then(|connector| over(tunnel(proxy, connector), config)),
            Some("socks5") => over(SocksV5::new(proxy.clone(), connector), config),
            _ => Err(kube::Error::ProxyProtocolUnsupported {
                proxy_url: Box::new(proxy.clone()),
            }),
        },
    };
    made.map_err(|source| ConnectError::Unusable {
        url: config.cluster_url.to_string(),
        source,
    })
}

/// Connects through an HTTP proxy, as the user that its URL names.
fn tunnel<C>(proxy: &Uri, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.clone(), connector);
    let authority = proxy.authority().map_or("", |authority| authority.as_str());
    let Some((user, _)) = authority.rsplit_once('@') else {
        return tunnel;
    };
    let user: Vec<u8> = percent_decode_str(user).collect();
    match HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(user))) {
        Ok(header) => tunnel.with_auth(header),
        Err(_) => tunnel,
    }
}

fn over<C>(connector: C, config: &Config) -> Result<Client, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
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
