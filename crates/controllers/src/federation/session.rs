//! A member's link to its control cluster, for as long as the Secret stays as it is.
//!
//! A Secret that comes late or changes needs no restart: the old link is dropped and a new one made. One that goes ends
//! the link and nothing else.

use edgegrid_api::names::{YES, label, parent_secret};
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_runtime::logging::chain;
use futures::future::{BoxFuture, join3, pending};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store;
use kube::runtime::watcher::{self, watch_object};
use tracing::{info, warn};

use super::control_cluster::ControlCluster;
use super::{enqueue_followers, enqueue_mirrors, member_lease, mirrors, reactions};
use crate::context::Context;
use crate::federated_grid::FederatedGrid;
use crate::join;
use crate::reflector::{Change, Reflector, drop_managed_fields};
use crate::registration::Registration;

/// Writes to the control cluster at the same time: a hundred members share it.
const CONCURRENCY: usize = 4;

/// Follows the Secret, until the queues are closed.
pub(super) async fn run(context: &Context) {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), parent_secret::NAMESPACE);
    let mut seen = watch_object(secrets, parent_secret::NAME)
        .default_backoff()
        .boxed();
    let mut current: Option<Registration> = None;
    let mut session: BoxFuture<'_, ()> = pending().boxed();
    let mut is_failing = false;
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
                if !std::mem::replace(&mut is_failing, true) {
                    warn!(
                        namespace = parent_secret::NAMESPACE, name = parent_secret::NAME, %error,
                        "cannot watch the Secret that registers this cluster as a member, retrying"
                    );
                }
            }
            Some(Ok(secret)) => {
                is_failing = false;
                let found = secret.as_ref().and_then(registration);
                if found != current {
                    session = start_session(context, found.clone());
                    current = found;
                }
            }
        }
    }
}

fn registration(secret: &Secret) -> Option<Registration> {
    Registration::read(secret)
        .inspect_err(|error| warn!(%error, "cannot join the control cluster"))
        .ok()
}

/// Forgets the former control cluster, and follows the one of this registration, if there is one.
fn start_session(context: &Context, registration: Option<Registration>) -> BoxFuture<'_, ()> {
    let namespace = registration.as_ref().map(|found| found.namespace.clone());
    context.federation.control_link.reset(namespace);
    context.federation.missing.clear();
    context.metrics.control_cluster_lost.set(0);
    context.metrics.copies_missing.set(0);
    let Some(registration) = registration else {
        info!("not a member of any control cluster");
        enqueue_followers::<DeploymentGrid>(context);
        enqueue_followers::<StatefulSetGrid>(context);
        enqueue_followers::<ServiceGrid>(context);
        return pending().boxed();
    };
    enqueue_mirrors::<DeploymentGrid>(context);
    enqueue_mirrors::<StatefulSetGrid>(context);
    enqueue_mirrors::<ServiceGrid>(context);
    follow_control_cluster(context, registration).boxed()
}

async fn follow_control_cluster(context: &Context, registration: Registration) {
    let (url, namespace) = (
        registration.access.url.clone(),
        registration.namespace.clone(),
    );
    info!(%url, %namespace, "joined the control cluster");
    let client = match (context.federation.connector)(registration).await {
        Ok(client) => client,
        Err(error) => {
            warn!(%url, error = %chain(&error), "cannot connect to the control cluster: register this cluster again with `edgegrid join`");
            return pending().await;
        }
    };
    let executor = context
        .execution
        .executor
        .towards(client.clone(), CONCURRENCY);
    let control = ControlCluster {
        client,
        executor,
        namespace,
    };
    join::all(vec![
        Box::pin(member_lease::run(context, &control)),
        Box::pin(follow_copies::<DeploymentGrid>(context, &control)),
        Box::pin(follow_copies::<StatefulSetGrid>(context, &control)),
        Box::pin(follow_copies::<ServiceGrid>(context, &control)),
    ])
    .await;
}

/// Watches the copies of one kind and mirrors them.
async fn follow_copies<K: FederatedGrid>(context: &Context, control: &ControlCluster) {
    let (copies, writer) = store::<K>();
    let queue = &K::federation_queues(&context.queues).copies;
    let watched = Reflector {
        api: Api::namespaced(control.client.clone(), &control.namespace),
        selection: watcher::Config::default().labels(&format!("{}={YES}", label::DISTRIBUTED)),
        kind: (),
        prune: drop_managed_fields::<K>,
        writer,
    };
    let link = &context.federation.control_link;
    let watching = watched.run(|change| {
        link.apply(&change);
        queue.push(change.key());
        if !matches!(change, Change::Changed { .. }) {
            let (_, name) = change.key();
            reactions::enqueue_mirror::<K>(context, &(parent_secret::NAMESPACE.into(), name));
        }
    });
    let syncing = async {
        if copies.wait_until_ready().await.is_ok() {
            link.set_synced(K::KIND);
            enqueue_mirrors::<K>(context);
        }
    };
    let mirroring = mirrors::run(context, control, copies.clone());
    join3(watching, syncing, mirroring).await;
}
