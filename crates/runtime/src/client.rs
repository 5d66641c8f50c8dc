//! The client of a long-running process: one that does not wait for ever.
//!
//! kube leaves reads without a limit for the sake of terminals. A controller whose LIST hangs on a
//! connection that died without a word would never look again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::ByteString;
use kube::client::ClientBuilder;
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde_json::json;
use tower::timeout::TimeoutLayer;

/// An answer begins within this time; the API server itself gives up after as long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(65);
/// A connection is silent no longer than this: watches are ended by the server within 5 minutes.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(330);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file that was named cannot be used.
    #[error("kubeconfig {}", path.display())]
    Kubeconfig {
        /// Path of the kubeconfig.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: KubeconfigError,
    },
    /// No file was named, and there is neither one in the usual places nor a service account.
    #[error("neither a kubeconfig nor a service account found: name a file with --kubeconfig")]
    Nowhere(#[source] InferConfigError),
    /// The address of the API server cannot be read.
    #[error("{url} is no URL of an API server")]
    NoUrl {
        /// The text that was given as a URL.
        url: String,
    },
    /// URL or certificate authority of a cluster cannot be used.
    #[error("use the access to {url}")]
    Access {
        /// URL of the API server.
        url: String,
        /// What is wrong with it.
        #[source]
        source: KubeconfigError,
    },
    /// The configuration makes no client.
    #[error("make a client for {url}")]
    Unusable {
        /// URL of the API server.
        url: String,
        /// What kube's client says about it.
        #[source]
        source: kube::Error,
    },
}

/// A client by a kubeconfig, or by what the environment has: `$KUBECONFIG`, `~/.kube/config`, a pod's
/// service account. Nothing is sent yet.
pub async fn connect(kubeconfig: Option<&Path>, agent: &str) -> Result<Client, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => from_file(path).await?,
        None => Config::infer().await.map_err(ConnectError::Nowhere)?,
    };
    set_timeouts(&mut config);
    build(config, agent)
}

/// How to reach a cluster with a bearer token.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// URL of its API server.
    pub url: String,
    /// The token that authenticates us.
    pub token: String,
    /// Certificate authority of the API server, as PEM; without it those of the system are trusted.
    pub certificate_authority: Option<Vec<u8>>,
}

/// A client by a token. Nothing is sent yet.
pub async fn connect_with_token(access: &Access, agent: &str) -> Result<Client, ConnectError> {
    let unreadable = |source| ConnectError::Access {
        url: access.url.clone(),
        source,
    };
    let authority = access.certificate_authority.clone().map(ByteString);
    let cluster = json!({ "server": access.url, "certificate-authority-data": authority });
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{ "name": "control", "cluster": cluster }],
        "users": [{ "name": "member", "user": { "token": access.token } }],
        "contexts": [{ "name": "control", "context": { "cluster": "control", "user": "member" } }],
        "current-context": "control",
    }))
    .map_err(|_| ConnectError::NoUrl {
        url: access.url.clone(),
    })?;
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(unreadable)?;
    set_timeouts(&mut config);
    build(config, agent)
}

fn set_timeouts(config: &mut Config) {
    config.read_timeout = Some(SILENCE_TIMEOUT);
    config.reset_reader_on_write = true;
}

fn build(mut config: Config, agent: &str) -> Result<Client, ConnectError> {
    if let Ok(agent) = HeaderValue::from_str(agent) {
        config.headers.push((USER_AGENT, agent));
    }
    let url = config.cluster_url.to_string();
    let builder =
        ClientBuilder::try_from(config).map_err(|source| ConnectError::Unusable { url, source })?;
    Ok(builder
        .with_layer(&TimeoutLayer::new(ANSWER_TIMEOUT))
        .build())
}

async fn from_file(path: &Path) -> Result<Config, ConnectError> {
    let refused = |source| ConnectError::Kubeconfig {
        path: path.into(),
        source,
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(refused)?;
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_read_is_named() {
        let path = Path::new("/nowhere/kubeconfig");
        let refused = connect(Some(path), "test").await.err().unwrap();
        assert_eq!(refused.to_string(), "kubeconfig /nowhere/kubeconfig");
    }
}
