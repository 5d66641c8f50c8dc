//! The client of a long-running process: one that does not wait for ever.
//!
//! kube leaves reads without a limit for the sake of terminals. A controller whose LIST hangs on a
//! connection that died without a word would never look again.

use std::env;
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

/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Where a client's configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A kubeconfig.
    File(PathBuf),
    /// What the environment has: `$KUBECONFIG`, `~/.kube/config`, a pod's service account.
    Environment,
}

impl Source {
    /// A file if one is named, otherwise the environment.
    pub fn new(kubeconfig: Option<&Path>) -> Self {
        kubeconfig.map_or(Self::Environment, |path| Self::File(path.into()))
    }

    /// Reads the configuration as it is now.
    pub async fn load(&self) -> Result<Config, ConnectError> {
        let config = self.read().await?;
        let scheme = config.proxy_url.as_ref().map(|proxy| proxy.scheme_str());
        match scheme {
            None | Some(Some("http" | "https" | "socks5")) => Ok(config),
            // Its URL may have a password in it.
            Some(scheme) => Err(ConnectError::Proxy {
                scheme: scheme.unwrap_or("none").to_owned(),
            }),
        }
    }

    async fn read(&self) -> Result<Config, ConnectError> {
        let Self::File(path) = self else {
            return Config::infer().await.map_err(ConnectError::Nowhere);
        };
        let unusable = |source| ConnectError::Kubeconfig {
            path: path.clone(),
            source,
        };
        let kubeconfig = Kubeconfig::read_from(path).map_err(unusable)?;
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(unusable)
    }

    /// The files that decide, as far as they can be known now: the kubeconfigs and what they name.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let (mut files, kubeconfig) = match self {
            Self::File(path) => (vec![path.clone()], Kubeconfig::read_from(path).ok()),
            Self::Environment => {
                let variable = env::var_os("KUBECONFIG").unwrap_or_default();
                let mut files: Vec<PathBuf> = env::split_paths(&variable).collect();
                files.extend(env::home_dir().map(|home| home.join(".kube/config")));
                files.extend(["token", "ca.crt"].map(|name| Path::new(SERVICE_ACCOUNT).join(name)));
                (files, Kubeconfig::read().ok())
            }
        };
        let Some(kubeconfig) = kubeconfig else {
            return files;
        };
        let clusters = kubeconfig.clusters.into_iter();
        let authorities = clusters.filter_map(|named| named.cluster?.certificate_authority);
        files.extend(authorities.map(PathBuf::from));
        for user in kubeconfig.auth_infos {
            let Some(user) = user.auth_info else { continue };
            let named = [user.client_certificate, user.client_key, user.token_file];
            files.extend(named.into_iter().flatten().map(PathBuf::from));
        }
        files
    }
}

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
    /// The proxy of a kubeconfig, or of the environment, is of a sort that we cannot speak to.
    #[error(
        "proxy-url or HTTPS_PROXY has scheme {scheme}: only http://, https:// and socks5:// proxies can be used"
    )]
    Proxy {
        /// Scheme of its URL.
        scheme: String,
    },
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

/// A client for one command. What runs for long takes [`crate::credentials::client`]. Nothing is sent yet.
pub async fn connect(source: &Source, agent: &str) -> Result<Client, ConnectError> {
    with_timeouts(source.load().await?, agent)
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
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(unreadable)?;
    with_timeouts(config, agent)
}

/// A client that waits for an answer, and for the next byte of it, but not for ever.
pub fn with_timeouts(mut config: Config, agent: &str) -> Result<Client, ConnectError> {
    config.read_timeout = Some(SILENCE_TIMEOUT);
    config.reset_reader_on_write = true;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_read_is_named() {
        let path = Path::new("/nowhere/kubeconfig");
        let refused = connect(&Source::new(Some(path)), "test")
            .await
            .err()
            .unwrap();
        assert_eq!(refused.to_string(), "kubeconfig /nowhere/kubeconfig");
    }

    #[tokio::test]
    async fn a_proxy_is_used_or_refused_with_a_sentence_that_has_no_password() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        for (proxy, scheme) in [
            ("http://somebody:secret@127.0.0.1:1", None),
            ("socks5://127.0.0.1:1", None),
            ("ftp://somebody:secret@127.0.0.1:1", Some("ftp")),
            ("https://somebody:secret@127.0.0.1:1", None),
            ("127.0.0.1:1", Some("none")),
        ] {
            let cluster = json!({ "server": "https://a", "proxy-url": proxy });
            let kubeconfig = json!({
                "clusters": [{ "name": "a", "cluster": cluster }], "current-context": "a",
                "contexts": [{ "name": "a", "context": { "cluster": "a" } }],
            });
            std::fs::write(&path, kubeconfig.to_string()).unwrap();
            let refused = connect(&Source::new(Some(&path)), "test").await.err();
            let wanted = scheme.map(|scheme| {
                format!("proxy-url or HTTPS_PROXY has scheme {scheme}: only http://, https:// and socks5:// proxies can be used")
            });
            assert_eq!(refused.map(|error| error.to_string()), wanted, "{proxy}");
        }
    }
}
