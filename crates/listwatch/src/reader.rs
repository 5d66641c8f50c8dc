//! Answers a request to read one object or a collection.

use crate::Store;
use crate::accept::Form;
use crate::body::{Body, json, status_response};
use crate::encode::Encoder;
use crate::filter::Filter;
use crate::list;
use crate::options::{ListAt, Query};
use crate::resource::Resource;
use crate::served_object::served_object;
use crate::watch;
use edgegrid_machinery::status::{GroupResource, Status};
use http::Response;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch as signal;
use tokio::time::timeout;

/// How long a read waits for a revision that is not there yet.
const FRESH_WITHIN: Duration = Duration::from_secs(3);

/// Serves what a store holds; clones share it.
#[derive(Debug, Clone)]
pub struct Reader {
    store: Store,
    rng: Arc<Mutex<fastrand::Rng>>,
    stop: signal::Sender<bool>,
}

/// A request to read.
#[derive(Debug, Clone, Copy)]
pub struct Read<'a> {
    /// What kind of objects.
    pub resource: &'a Arc<Resource>,
    /// The namespace in the path; none for all.
    pub namespace: Option<&'a str>,
    /// The name in the path; none for a list or watch.
    pub name: Option<&'a str>,
    /// The query, without its question mark and still percent-encoded.
    pub query: &'a str,
    /// The `Accept` header, empty if absent.
    pub accept: &'a str,
}

impl<'a> Read<'a> {
    /// A plain list of all objects, to be narrowed by struct update.
    pub fn all(resource: &'a Arc<Resource>) -> Self {
        Self {
            resource,
            namespace: None,
            name: None,
            query: "",
            accept: "",
        }
    }
}

impl Reader {
    /// Serves a store; the seed decides how watches without a timeout spread theirs.
    pub fn new(store: Store, seed: u64) -> Self {
        Self {
            store,
            rng: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))),
            stop: signal::Sender::new(false),
        }
    }

    /// The store that is served.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Answers a request, refusals included.
    pub async fn read(&self, read: Read<'_>) -> Response<Body> {
        self.try_read(read)
            .await
            .unwrap_or_else(|status| status_response(&status))
    }

    /// Answers a request, or says why not.
    pub async fn try_read(&self, read: Read<'_>) -> Result<Response<Body>, Status> {
        let form = Form::negotiate(read.accept)?;
        let query = Query::parse(read.query)?;
        if let Some(name) = read.name {
            self.fresh(query.get()?).await?;
            return self.get(read, name, form);
        }
        let (labels, fields) = (&query.label_selector, &query.field_selector);
        let filter = Filter::parse(read.resource, read.namespace, labels, fields)?;
        let encoder = Encoder { filter, form };
        if query.is_watch() {
            return self.watch(&query, encoder).await;
        }
        let options = query.list()?;
        if let ListAt::NotOlderThan(revision) | ListAt::Exact(revision) = options.at {
            self.fresh(revision).await?;
        }
        list::list(&self.store, &options, encoder)
    }

    /// Ends all watches cleanly, and those opened from now on after their initial events.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    fn get(&self, read: Read<'_>, name: &str, form: Form) -> Result<Response<Body>, Status> {
        let resource = read.resource;
        let missing = || {
            let resource = GroupResource::new(&*resource.group, &*resource.plural);
            Status::not_found(&resource, name)
        };
        if name.is_empty() || (resource.namespaced && read.namespace.is_none()) {
            return Err(missing());
        }
        let entry = self
            .store
            .get(&resource.key(read.namespace, name))
            .ok_or_else(missing)?;
        let object = served_object(&entry, resource).map_err(Status::internal)?;
        let mut bytes = Vec::with_capacity(object.length(form, entry.revision()));
        object.write(form, entry.revision(), &mut bytes);
        Ok(json(Body::full(bytes.into())))
    }

    async fn watch(&self, query: &Query, encoder: Encoder) -> Result<Response<Body>, Status> {
        let options = query.watch()?;
        if let crate::WatchStart::State { not_older_than, .. } = options.start {
            self.fresh(not_older_than).await?;
        }
        let plan = watch::Plan {
            timeout: watch::timeout(options.timeout_seconds, self.rng.lock().u64(..)),
            stop: self.stop.subscribe(),
            options,
        };
        watch::watch(&self.store, plan, encoder)
    }

    /// Waits a little for a revision that is not there yet, as a client may be ahead of a cache.
    async fn fresh(&self, revision: u64) -> Result<(), Status> {
        if revision > self.store.revision() {
            let reached = timeout(FRESH_WITHIN, self.store.reached(revision)).await;
            reached.map_err(|_| {
                Status::too_large_resource_version(revision, self.store.revision(), 1)
            })?;
        }
        Ok(())
    }
}
