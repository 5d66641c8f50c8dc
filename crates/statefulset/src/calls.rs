//! The calls to the API server, each with a limit of time and an error that names the object.

use std::fmt;
use std::time::Duration;

use edgegrid_runtime::logging::chain;
use edgegrid_runtime::{Fence, NotLeader};
use kube::Client;
use kube::api::{
    ApiResource, DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::{DynamicObject, Request, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::names::FIELD_MANAGER;
use crate::rules::version;

/// A call that takes longer is given up; the next pass sees what became of it.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a pass over a set failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused, or could not be reached.
    #[error("{call}")]
    Call {
        /// What we were doing.
        call: String,
        /// What kube's client says about it.
        #[source]
        source: kube::Error,
    },
    /// The API server did not answer in time.
    #[error("{call}: no answer within {CALL_TIMEOUT:?}")]
    NoAnswer {
        /// What we were doing.
        call: String,
    },
    /// Another process may lead.
    #[error("{call}")]
    NotLeader {
        /// What we were about to do.
        call: String,
        /// The lease is not ours, or not any more.
        #[source]
        source: NotLeader,
    },
    /// A pod has to wait for an old claim of its name to go.
    #[error("pvc {name} is being deleted")]
    ClaimBeingDeleted {
        /// Name of the `PersistentVolumeClaim`.
        name: String,
    },
    /// Several claims of one pod.
    #[error("{}", join(.0, |error| chain(error)))]
    Several(Vec<Error>),
    /// The set that we know is not the one that exists.
    #[error("StatefulSet {name} was replaced or is being deleted: it adopts nothing")]
    CannotAdopt {
        /// Name of the StatefulSet.
        name: String,
    },
    /// Something was gone when we wanted to adopt it.
    #[error("{name} is gone or somebody else's meanwhile")]
    Vanished {
        /// Name of the pod or revision.
        name: String,
    },
    /// The watches lag behind our own writes.
    #[error("cache of {kind} is older than our last write")]
    StaleCache {
        /// Plural kind of the objects in the cache.
        kind: &'static str,
    },
}

impl Error {
    /// The API server's own status, if it answered.
    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Error::Call {
                source: kube::Error::Api(status),
                ..
            } => Some(status),
            _ => None,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_not_found)
    }

    pub(crate) fn is_already_exists(&self) -> bool {
        self.status()
            .is_some_and(kube::core::Status::is_already_exists)
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_conflict)
    }

    pub(crate) fn is_invalid(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_invalid)
    }

    /// For users: the message of the API server, as Kubernetes' events show it.
    pub(crate) fn for_users(&self) -> String {
        match self {
            Error::Call {
                source: kube::Error::Api(status),
                ..
            } => status.message.clone(),
            Error::Several(errors) => join(errors, Error::for_users),
            other => chain(other),
        }
    }
}

fn join(errors: &[Error], text: impl Fn(&Error) -> String) -> String {
    errors.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// What an answer says about the object that was written.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Written {
    metadata: WrittenMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenMetadata {
    resource_version: Option<String>,
}

impl Written {
    pub(crate) fn version(&self) -> u64 {
        version(self.metadata.resource_version.as_deref())
    }
}

/// The calls about the objects of one namespace.
#[derive(Clone)]
pub(crate) struct Calls<'a> {
    pub(crate) client: &'a Client,
    /// Whether we may write.
    pub(crate) fence: &'a Fence,
    pub(crate) namespace: &'a str,
}

impl Calls<'_> {
    pub(crate) async fn create(
        &self,
        kind: &ApiResource,
        name: &str,
        body: &Value,
    ) -> Result<Written, Error> {
        self.create_text(kind, name, body.to_string()).await
    }

    /// Creates an object whose very bytes matter.
    pub(crate) async fn create_text(
        &self,
        kind: &ApiResource,
        name: &str,
        body: String,
    ) -> Result<Written, Error> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PostParams::default()
        };
        let request = self.path(kind).create(&params, body.into_bytes());
        self.send(Call::new("create", kind, name), request).await
    }

    pub(crate) async fn patch(
        &self,
        kind: &ApiResource,
        name: &str,
        patch: Patch<&Value>,
    ) -> Result<Written, Error> {
        let request = self.path(kind).patch(name, &writing(), &patch);
        self.send(Call::new("patch", kind, name), request).await
    }

    pub(crate) async fn patch_status(
        &self,
        kind: &ApiResource,
        name: &str,
        patch: &Value,
    ) -> Result<Written, Error> {
        let request =
            self.path(kind)
                .patch_subresource("status", name, &writing(), &Patch::Merge(patch));
        self.send(Call::new("write status of", kind, name), request)
            .await
    }

    /// The object as it would be after a patch.
    pub(crate) async fn dry_run_patch(
        &self,
        kind: &ApiResource,
        name: &str,
        patch: &Value,
    ) -> Result<DynamicObject, Error> {
        let params = writing().dry_run();
        let request = self
            .path(kind)
            .patch(name, &params, &Patch::Strategic(patch));
        self.send(Call::new("try to patch", kind, name), request)
            .await
    }

    /// Deletes one object and no other of its name. That it is gone already is a success.
    pub(crate) async fn delete(
        &self,
        kind: &ApiResource,
        name: &str,
        uid: &str,
    ) -> Result<(), Error> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        let request = self.path(kind).delete(name, &params);
        let call = Call::new("delete", kind, name);
        match self.send::<Written>(call, request).await {
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            other => other.map(drop),
        }
    }

    /// The object as it is stored, not as a cache has it.
    pub(crate) async fn get(&self, kind: &ApiResource, name: &str) -> Result<DynamicObject, Error> {
        let request = self.path(kind).get(name, &GetParams::default());
        self.send(Call::new("get", kind, name), request).await
    }

    /// By when an answer must have come: sooner where a write has to end before somebody else may lead.
    fn deadline(&self, request: &http::Request<Vec<u8>>) -> Result<Instant, NotLeader> {
        let timeout = Instant::now() + CALL_TIMEOUT;
        if request.method() == http::Method::GET {
            return Ok(timeout);
        }
        let limit = self.fence.check()?;
        Ok(limit.map_or(timeout, |limit| limit.min(timeout)))
    }

    fn path(&self, kind: &ApiResource) -> Request {
        Request::new(DynamicObject::url_path(kind, Some(self.namespace)))
    }

    async fn send<T: DeserializeOwned>(
        &self,
        call: Call<'_>,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, Error> {
        let failed = |source| Error::Call {
            call: format!("{call} of namespace {}", self.namespace),
            source,
        };
        let request = request.map_err(kube::Error::BuildRequest).map_err(failed)?;
        let deadline = self.deadline(&request).map_err(|source| Error::NotLeader {
            call: call.to_string(),
            source,
        })?;
        match tokio::time::timeout_at(deadline, self.client.request(request)).await {
            Ok(answer) => answer.map_err(failed),
            Err(_) => Err(Error::NoAnswer {
                call: call.to_string(),
            }),
        }
    }
}

/// A call in words.
struct Call<'a> {
    verb: &'static str,
    kind: &'a str,
    name: &'a str,
}

impl<'a> Call<'a> {
    fn new(verb: &'static str, kind: &'a ApiResource, name: &'a str) -> Self {
        Self {
            verb,
            kind: &kind.kind,
            name,
        }
    }
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.verb, self.kind, self.name)
    }
}

fn writing() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}
