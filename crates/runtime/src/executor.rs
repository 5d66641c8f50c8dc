//! The one place that writes to a cluster.
//!
//! ```text
//! apply, patch, create, delete ─► a free slot (first come, first served) ─► fence ─► API server
//!                                                              the answer's class ◄─┘
//! ```
//!
//! Every write asks the [`Fence`] once it has a slot, and is given up before somebody else could
//! have become leader. Nothing is retried here: kube's client repeats what the server asked to be
//! repeated, and everything else is for the next pass to decide. Answers are metadata only.

mod error;
mod metrics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::header::ACCEPT;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, PartialObjectMeta, Patch, PatchParams, PostParams,
    Preconditions, Resource,
};
use kube::core::Request as Requests;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

pub use error::{Cause, Class, Verb, WriteError};
pub use metrics::Metrics;

use crate::fence::Fence;

/// Asks for the object's metadata instead of the whole object.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Writes to one cluster; clones share slots, fence and metrics.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    fence: Fence,
    slots: Arc<Semaphore>,
    timeout: Duration,
    metrics: Metrics,
}

/// How much is written at once, and how long one write may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Writes under way at the same time.
    pub concurrency: usize,
    /// A write without an answer is given up after this time, if the fence does not ask for less.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrency: 32,
            timeout: Duration::from_secs(10),
        }
    }
}

/// The object that a write is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its kind and where that is served.
    pub api: ApiResource,
    /// Its namespace, `None` for kinds that have none.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
}

/// The body of a write. Nothing but its metadata is copied: a grid's status may be large.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Complete<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Value,
    #[serde(flatten)]
    rest: BTreeMap<&'a String, &'a Value>,
}

impl Executor {
    /// An executor whose writes pass `fence`.
    pub fn new(client: Client, fence: Fence, limits: Limits, metrics: Metrics) -> Self {
        Self {
            client,
            fence,
            slots: Arc::new(Semaphore::new(limits.concurrency.max(1))),
            timeout: limits.timeout,
            metrics,
        }
    }

    /// One that writes to another cluster under the same fence, so many writes at the same time.
    #[must_use]
    pub fn towards(&self, client: Client, concurrency: usize) -> Self {
        Self {
            client,
            slots: Arc::new(Semaphore::new(concurrency.max(1))),
            ..self.clone()
        }
    }

    /// Whether this process may write now; for writes that others make for us, as of Events.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Applies a manager's whole intent for one object.
    ///
    /// With the uid of an object that is ours the apply is forced and hits that object alone.
    /// Without, it is not forced: whoever took the name meanwhile wins ([`Class::Conflict`]).
    pub async fn apply(
        &self,
        target: &Target,
        body: &Value,
        manager: &str,
        ours: Option<&str>,
    ) -> Result<ObjectMeta, WriteError> {
        self.send_apply(target, None, body, (manager, ours)).await
    }

    /// [`Executor::apply`] for the status of an object.
    pub async fn apply_status(
        &self,
        target: &Target,
        body: &Value,
        manager: &str,
        ours: Option<&str>,
    ) -> Result<ObjectMeta, WriteError> {
        let status = Some("status");
        self.send_apply(target, status, body, (manager, ours)).await
    }

    async fn send_apply(
        &self,
        target: &Target,
        subresource: Option<&str>,
        body: &Value,
        (manager, ours): (&str, Option<&str>),
    ) -> Result<ObjectMeta, WriteError> {
        let verb = subresource.map_or(Verb::Apply, |_| Verb::ApplyStatus);
        let patch = Patch::Apply(target.complete(body, ours));
        // Apply knows every field's type and refuses what it does not know, whatever is asked for here. The
        // default makes the server read the body a second time, in search of keys that stand there twice.
        let mut params = PatchParams::apply(manager).validation_ignore();
        params.force = ours.is_some();
        let requests = target.requests();
        let request = match subresource {
            Some(name) => requests.patch_subresource(name, &target.name, &params, &patch),
            None => requests.patch(&target.name, &params, &patch),
        };
        self.send_for_metadata(target, verb, request).await
    }

    /// Makes RFC 6902 operations while the object is still at `resource_version`; if it is not,
    /// the answer is [`Class::Conflict`].
    pub async fn patch_json(
        &self,
        target: &Target,
        resource_version: &str,
        operations: &[Value],
        manager: &str,
    ) -> Result<ObjectMeta, WriteError> {
        let test =
            json!({ "op": "test", "path": "/metadata/resourceVersion", "value": resource_version });
        let all = std::iter::once(test).chain(operations.iter().cloned());
        let patch = serde_json::from_value(Value::Array(all.collect()))
            .map_err(|source| target.error(Verb::Patch, Class::Malformed(source.to_string())))?;
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        let request = target
            .requests()
            .patch(&target.name, &params, &Patch::<()>::Json(patch));
        self.send_for_metadata(target, Verb::Patch, request).await
    }

    /// Creates an object that must not exist yet.
    pub async fn create(
        &self,
        target: &Target,
        body: &Value,
        manager: &str,
    ) -> Result<ObjectMeta, WriteError> {
        let params = PostParams {
            field_manager: Some(manager.to_owned()),
            ..PostParams::default()
        };
        let body = serde_json::to_vec(&target.complete(body, None))
            .map_err(|source| target.error(Verb::Create, Class::Malformed(source.to_string())))?;
        let request = target.requests().create(&params, body);
        self.send_for_metadata(target, Verb::Create, request).await
    }

    /// Deletes the very object that has `uid`, what it owns going after it. One that is already
    /// gone is a success; another one of its name is not touched ([`Class::Conflict`]).
    pub async fn delete(&self, target: &Target, uid: &str) -> Result<(), WriteError> {
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        let request = target.requests().delete(&target.name, &params);
        let answer = self.send::<Value>(target, Verb::Delete, request).await;
        match answer {
            Err(error) if matches!(error.class, Class::NotFound) => Ok(()),
            other => other.map(drop),
        }
    }

    async fn send_for_metadata(
        &self,
        target: &Target,
        verb: Verb,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<ObjectMeta, WriteError> {
        let request = request.map(|mut request| {
            let only = http::HeaderValue::from_static(METADATA_ONLY);
            request.headers_mut().insert(ACCEPT, only);
            request
        });
        let answer: PartialObjectMeta<DynamicObject> = self.send(target, verb, request).await?;
        Ok(answer.metadata)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        target: &Target,
        verb: Verb,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, WriteError> {
        let failed = |class| target.error(verb, class);
        let request = request.map_err(|source| failed(Class::Malformed(source.to_string())))?;
        let Ok(_slot) = self.slots.acquire().await else {
            unreachable!("invariant: nobody closes the semaphore")
        };
        let started = Instant::now();
        let answer = self.send_fenced(verb, request, started).await;
        let outcome = answer.as_ref().err().map(Class::name);
        self.metrics
            .observe(verb, target, outcome, started.elapsed());
        answer.map_err(failed)
    }

    /// Sends a request if the fence is open, and gives it up before it must have ended.
    async fn send_fenced<T: DeserializeOwned>(
        &self,
        verb: Verb,
        request: Request<Vec<u8>>,
        now: Instant,
    ) -> Result<T, Class> {
        let limit = self.fence.check().map_err(|_| Class::NotLeader)?;
        let own = now + self.timeout;
        let deadline = limit.map_or(own, |limit| limit.min(own));
        match timeout_at(deadline, self.client.request::<T>(request)).await {
            Ok(answer) => answer.map_err(|error| Class::from_error(verb, error)),
            Err(_) => Err(Class::NoAnswer),
        }
    }
}

impl Target {
    fn requests(&self) -> Requests {
        Requests::new(DynamicObject::url_path(
            &self.api,
            self.namespace.as_deref(),
        ))
    }

    /// The body with what the target says about it.
    fn complete<'a>(&'a self, body: &'a Value, uid: Option<&str>) -> Complete<'a> {
        let mut metadata = body["metadata"].clone();
        metadata["name"] = json!(self.name);
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = json!(namespace);
        }
        if let Some(uid) = uid {
            metadata["uid"] = json!(uid);
        }
        let fields = body.as_object().into_iter().flatten();
        Complete {
            api_version: &self.api.api_version,
            kind: &self.api.kind,
            metadata,
            rest: fields
                .filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
                .collect(),
        }
    }

    fn error(&self, verb: Verb, class: Class) -> WriteError {
        WriteError {
            verb,
            object: self.to_string(),
            class,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, name) = (&self.api.kind, &self.name);
        match &self.namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{name}"),
            None => write!(f, "{kind} {name}"),
        }
    }
}
