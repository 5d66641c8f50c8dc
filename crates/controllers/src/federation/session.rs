//! A member's link to its control cluster, for as long as the Secret stays as it is.
//!
//! A Secret that comes late or changes needs no restart: the old link is dropped and a new one made. One that goes ends
//! the link and nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use edgegrid_api::names::{MEMBER_LEASE, YES, annotation, label, manager, parent_secret};
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::failure::Trouble;
use edgegrid_plan::{Kind, ObjectId};
use edgegrid_runtime::executor::Executor;
use edgegrid_runtime::logging::chain;
use futures::future::{BoxFuture, join3, pending};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store;
use kube::runtime::watcher::{self, watch_object};
use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::contact::Contact;
use super::registration::Registration;
use super::{FederatedGrid, ask_for_followers, ask_for_mirrors, mirrors, reactions};
use crate::all_of;
use crate::cache::{Change, Watched};
use crate::context::Context;
use crate::execute::target;
use crate::queue::Key;
use crate::watches::bare;

/// Writes to the control cluster at the same time: a hundred members share it.
const CONCURRENCY: usize = 4;
/// Most grids that the Lease names.
const MISSING_SHOWN: usize = 10;
/// A renewal that is not answered for this long has failed.
const ANSWER: Duration = Duration::from_secs(20);

/// What a member hears of its control cluster.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// The member's namespace there; `None` while this cluster is no member.
    namespace: Option<String>,
    /// Kinds of which all copies were seen.
    synced: BTreeSet<Kind>,
    /// The copies that are there.
    copies: BTreeSet<(Kind, Key)>,
    /// What keeps the control cluster from answering, if it did not for a while.
    lost: Option<Trouble>,
}

impl Heard {
    /// The member's namespace in the control cluster; `None` while this cluster is no member.
    pub(crate) fn namespace(&self) -> Option<String> {
        self.lock().namespace.clone()
    }

    /// Whether the control cluster answers and does not show a copy.
    pub(crate) fn misses(&self, kind: Kind, name: &str) -> bool {
        let inner = self.lock();
        let Some(namespace) = inner.namespace.clone() else {
            return false;
        };
        inner.synced.contains(&kind)
            && !inner.copies.contains(&(kind, (namespace, name.to_owned())))
    }

    /// What keeps the control cluster from answering, if it did not for a while.
    pub(crate) fn lost(&self) -> Option<Trouble> {
        self.lock().lost.clone()
    }

    pub(super) fn lose(&self, trouble: Option<Trouble>) {
        self.lock().lost = trouble;
    }

    fn begin(&self, namespace: Option<String>) {
        *self.lock() = Inner {
            namespace,
            ..Inner::default()
        };
    }

    fn synced(&self, kind: Kind) {
        self.lock().synced.insert(kind);
    }

    fn apply<K: FederatedGrid>(&self, change: &Change<K>) {
        let copy = (K::KIND, change.key());
        match change {
            Change::Removed(_) => self.lock().copies.remove(&copy),
            _ => self.lock().copies.insert(copy),
        };
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows the Secret, until the queues are closed.
pub(super) async fn run(context: &Context) {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), parent_secret::NAMESPACE);
    let mut seen = watch_object(secrets, parent_secret::NAME)
        .default_backoff()
        .boxed();
    let mut current: Option<Registration> = None;
    let mut session: BoxFuture<'_, ()> = pending().boxed();
    let mut is_troubled = false;
    loop {
        let event = tokio::select! {
            () = context.queues.federation.members.closed() => return,
            () = &mut session => {
                session = pending().boxed();
                continue;
            }
            event = seen.next() => event,
        };
        match event {
            None => return,
            Some(Err(error)) => {
                if !std::mem::replace(&mut is_troubled, true) {
                    warn!(%error, "whether this cluster is a member is not known");
                }
            }
            Some(Ok(secret)) => {
                is_troubled = false;
                let found = secret.as_ref().and_then(registration);
                if found != current {
                    session = begin(context, found.clone());
                    current = found;
                }
            }
        }
    }
}

fn registration(secret: &Secret) -> Option<Registration> {
    Registration::read(secret)
        .inspect_err(|error| warn!(%error, "this cluster cannot be a member"))
        .ok()
}

fn begin(context: &Context, registration: Option<Registration>) -> BoxFuture<'_, ()> {
    let namespace = registration.as_ref().map(|found| found.namespace.clone());
    context.federation.heard.begin(namespace);
    context.federation.missing.clear();
    context.metrics.control_cluster_lost.set(0);
    context.metrics.copies_missing.set(0);
    let Some(registration) = registration else {
        info!("this cluster is not a member of a control cluster");
        ask_for_followers::<DeploymentGrid>(context);
        ask_for_followers::<StatefulSetGrid>(context);
        ask_for_followers::<ServiceGrid>(context);
        return pending().boxed();
    };
    ask_for_mirrors::<DeploymentGrid>(context);
    ask_for_mirrors::<StatefulSetGrid>(context);
    ask_for_mirrors::<ServiceGrid>(context);
    link(context, registration).boxed()
}

async fn link(context: &Context, registration: Registration) {
    let (url, namespace) = (
        registration.access.url.clone(),
        registration.namespace.clone(),
    );
    info!(%url, %namespace, "this cluster is a member");
    let client = match (context.federation.connector)(registration).await {
        Ok(client) => client,
        Err(error) => {
            warn!(%url, error = %chain(&error), "no way to the control cluster: register the cluster again");
            return pending().await;
        }
    };
    let executor = context
        .execution
        .executor
        .towards(client.clone(), CONCURRENCY);
    let parent = Parent {
        client,
        executor,
        namespace,
    };
    all_of(vec![
        Box::pin(renew(context, &parent)),
        Box::pin(follow::<DeploymentGrid>(context, &parent)),
        Box::pin(follow::<StatefulSetGrid>(context, &parent)),
        Box::pin(follow::<ServiceGrid>(context, &parent)),
    ])
    .await;
}

/// The control cluster, as a member reaches it.
#[derive(Clone)]
pub(super) struct Parent {
    pub(super) client: Client,
    pub(super) executor: Executor,
    pub(super) namespace: String,
}

/// Watches the copies of one kind and passes over them.
async fn follow<K: FederatedGrid>(context: &Context, parent: &Parent) {
    let (copies, writer) = store::<K>();
    let queue = &K::federation_queues(&context.queues).copies;
    let watched = Watched {
        api: Api::namespaced(parent.client.clone(), &parent.namespace),
        selection: watcher::Config::default().labels(&format!("{}={YES}", label::DISTRIBUTED)),
        kind: (),
        prune: bare::<K>,
        writer,
    };
    let heard = &context.federation.heard;
    let watching = watched.run(|change| {
        heard.apply(&change);
        queue.push(change.key());
        if !matches!(change, Change::Changed { .. }) {
            let (_, name) = change.key();
            reactions::mirror::<K>(context, &(parent_secret::NAMESPACE.into(), name));
        }
    });
    let syncing = async {
        if copies.wait_until_ready().await.is_ok() {
            heard.synced(K::KIND);
            ask_for_mirrors::<K>(context);
        }
    };
    let passing = mirrors::run(context, parent, copies.clone());
    join3(watching, syncing, passing).await;
}

/// Lets the control cluster hear of this member, for ever, and people here when it does not.
async fn renew(context: &Context, parent: &Parent) {
    let mut contact = Contact::new(context);
    loop {
        let wait = match timeout(ANSWER, renewed(context, parent)).await {
            Ok(Ok(())) => contact.kept(context).await,
            Ok(Err(error)) => contact.failed(context, &chain(&*error)).await,
            Err(_) => contact.failed(context, "no answer").await,
        };
        sleep(wait).await;
    }
}

async fn renewed(
    context: &Context,
    parent: &Parent,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let leases: Api<Lease> = Api::namespaced(parent.client.clone(), &parent.namespace);
    let lease = leases.get_metadata(MEMBER_LEASE).await?;
    let id = ObjectId::namespaced(Kind::Lease, &parent.namespace, MEMBER_LEASE);
    let now = MicroTime((context.clock)());
    let mut body = json!({ "spec": { "holderIdentity": parent.namespace, "renewTime": now } });
    let missing = context.federation.missing.all();
    if !missing.is_empty() {
        let name =
            |(kind, (namespace, name)): &(Kind, Key)| format!("{} {namespace}/{name}", kind.name());
        let mut names: Vec<String> = missing.iter().take(MISSING_SHOWN).map(name).collect();
        if let Some(more) = missing
            .len()
            .checked_sub(MISSING_SHOWN)
            .filter(|more| *more > 0)
        {
            names.push(format!("and {more} more"));
        }
        body["metadata"] = json!({ "annotations": { annotation::MISSING: names.join(", ") } });
    }
    let uid = lease.metadata.uid.as_deref();
    parent
        .executor
        .apply(&target(&id), &body, manager::MEMBER, uid)
        .await?;
    Ok(())
}
