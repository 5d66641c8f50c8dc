//! How a cluster knows that it is a member: a Secret, as clusternet leaves it or `edgegrid join` makes it.

use std::sync::Arc;

use edgegrid_api::names::parent_secret;
use edgegrid_runtime::client::{Access, ConnectError, connect_with_token};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;

/// What a member needs to reach its control cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Registration {
    /// URL, token and CA of the control cluster.
    pub access: Access,
    /// The member's namespace there.
    pub namespace: String,
}

/// Makes a client of a control cluster; tests make one without a socket.
pub type Connector =
    Arc<dyn Fn(Registration) -> BoxFuture<'static, Result<Client, ConnectError>> + Send + Sync>;

/// Why a Secret does not register this cluster as a member.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Secret lacks a key.
    #[error(
        "Secret {}/{} has no {key}: register the cluster again with `edgegrid join`",
        parent_secret::NAMESPACE,
        parent_secret::NAME
    )]
    Missing {
        /// The key that is missing or empty.
        key: &'static str,
    },
}

/// The connector of a process: by the Secret's token.
pub fn by_token(agent: &'static str) -> Connector {
    Arc::new(move |registration: Registration| {
        async move { connect_with_token(&registration.access, agent).await }.boxed()
    })
}

impl Registration {
    /// Reads the Secret that registers a member.
    pub fn read(secret: &Secret) -> Result<Self, Error> {
        let value = |key: &'static str| {
            let data = secret.data.as_ref().and_then(|data| data.get(key));
            let text = data.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
            text.map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty())
        };
        let needed = |key| value(key).ok_or(Error::Missing { key });
        Ok(Self {
            access: Access {
                url: needed(parent_secret::URL)?,
                token: needed(parent_secret::TOKEN)?,
                certificate_authority: value(parent_secret::CA).map(String::into_bytes),
            },
            namespace: needed(parent_secret::MEMBER_NAMESPACE)?,
        })
    }
}
