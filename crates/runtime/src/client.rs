//! The client of a long-running process: one that does not wait for ever.
//!
//! kube leaves reads without a limit for the sake of terminals. A controller whose LIST hangs on a
//! connection that died without a word would never look again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::client::ClientBuilder;
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;

/// An answer begins within this time; the API server itself gives up after as long.
const ANSWER: Duration = Duration::from_secs(65);
/// A connection is silent no longer than this: watches are ended by the server within 5 minutes.
const SILENCE: Duration = Duration::from_secs(330);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file that was named cannot be used.
    #[error("kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: KubeconfigError,
    },
    /// No file was named, and there is neither one in the usual places nor a service account.
    #[error("neither a kubeconfig nor a service account found: name a file with --kubeconfig")]
    Nowhere(#[source] InferConfigError),
    /// The configuration makes no client.
    #[error("make a client for {url}")]
    Unusable {
        /// The API server.
        url: String,
        /// What is wrong.
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
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    if let Ok(agent) = HeaderValue::from_str(agent) {
        config.headers.push((USER_AGENT, agent));
    }
    let url = config.cluster_url.to_string();
    let builder =
        ClientBuilder::try_from(config).map_err(|source| ConnectError::Unusable { url, source })?;
    Ok(builder.with_layer(&TimeoutLayer::new(ANSWER)).build())
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
