//! A request that may write, resolved: what it is about and what it says.

use std::sync::Arc;

use axum::body::Bytes;
use edgegrid_listwatch::{Memo, served_object};
use edgegrid_machinery::status::Status;
use edgegrid_store::Entry;
use serde_json::Value;

use crate::admission::{Attributes, Operation};
use crate::options::Options;
use crate::path::Target;
use crate::served::ServedResource;
use crate::state::ServerState;

/// Tries at a write, when others are faster.
const TRIES: usize = 5;

pub(crate) struct Request<'a> {
    pub(crate) server: &'a ServerState,
    pub(crate) served: Arc<ServedResource>,
    pub(crate) target: Target,
    pub(crate) options: Options,
    pub(crate) media_type: String,
    pub(crate) body: Bytes,
}

/// A stored object, ready to be changed.
pub(crate) struct Live {
    pub(crate) entry: Arc<Entry<Memo>>,
    /// In the version of the request, with its revision.
    pub(crate) object: Value,
}

impl<'a> Request<'a> {
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.target.namespace.as_deref()
    }

    pub(crate) fn subresource(&self) -> Option<&str> {
        self.target.subresource.as_deref()
    }

    /// The name in the path; empty for a collection.
    pub(crate) fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    /// The same request about an object of another resource.
    pub(crate) fn about(&self, served: Arc<ServedResource>, target: Target) -> Request<'a> {
        Request {
            server: self.server,
            served,
            target,
            options: self.options.clone(),
            media_type: self.media_type.clone(),
            body: self.body.clone(),
        }
    }

    /// Tries until an attempt comes through; it gives nothing when somebody else was faster.
    pub(crate) fn retried<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, Status>,
    ) -> Result<T, Status> {
        for _ in 0..TRIES {
            if let Some(done) = attempt()? {
                return Ok(done);
            }
        }
        let resource = self.served.group_resource();
        Err(Status::modified(&resource, self.name()))
    }

    /// Asks every admission in turn; the first refusal counts.
    pub(crate) fn admit(
        &self,
        operation: Operation,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<(), Status> {
        let attributes = Attributes {
            operation,
            group: &self.served.read.group,
            resource: &self.served.read.plural,
            subresource: self.subresource(),
            namespace: self.namespace(),
            old,
            store: self.server.reader.store(),
            registry: &self.server.registry,
        };
        for admission in &self.server.admission {
            admission.admit(&attributes, object)?;
        }
        Ok(())
    }

    /// Where an object of this resource is stored.
    pub(crate) fn key(&self, name: &str) -> String {
        self.served.read.key(self.namespace(), name)
    }

    /// The stored object of a name, or 404.
    pub(crate) fn live(&self, name: &str) -> Result<Live, Status> {
        self.find(name)?.ok_or_else(|| self.not_found(name))
    }

    pub(crate) fn not_found(&self, name: &str) -> Status {
        Status::not_found(&self.served.group_resource(), name)
    }

    /// The stored object of a name, if there is one.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Live>, Status> {
        let entry = self.server.reader.store().get(&self.key(name));
        entry.map(|entry| live(&self.served, entry)).transpose()
    }
}

/// Decodes a stored object.
pub(crate) fn live(served: &ServedResource, entry: Arc<Entry<Memo>>) -> Result<Live, Status> {
    let served_object = served_object(&entry, &served.read).map_err(Status::internal)?;
    let object = serde_json::from_slice(&served_object.to_json(entry.revision()))
        .map_err(Status::internal)?;
    Ok(Live { entry, object })
}
