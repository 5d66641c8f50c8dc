//! Member clusters as the control cluster knows them: each namespace has a Lease, which its member renews.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_api::names::MEMBER_LEASE;
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::federation::contact::LEASE_DURATION;
use edgegrid_plan::{ObjectId, ObjectKind, Step};
use edgegrid_runtime::executor::{Class, WriteError};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use serde_json::json;
use tokio::time::sleep;

use super::reactions::enqueue_originals;
use crate::context::Context;
use crate::controller;
use crate::queue::key;

/// How often it is checked which members are out of contact.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// Gives every member its Lease, until the queue is closed.
pub(super) async fn run(context: &Context) {
    let reconcile = |namespace| reconcile(context.clone(), namespace);
    controller::run(
        "membership",
        context.caches.members.clone(),
        context.queues.federation.members.clone(),
        context.metrics.clone(),
        reconcile,
    )
    .await;
}

async fn reconcile(
    context: Context,
    namespace: Arc<PartialObjectMeta<Namespace>>,
) -> Result<Option<Duration>, WriteError> {
    let (_, name) = key(&*namespace);
    let known = ObjectRef::new(MEMBER_LEASE).within(&name);
    let has_lease = context.caches.member_leases.get(&known).is_some();
    if has_lease || namespace.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let id = ObjectId::namespaced(ObjectKind::Lease, &name, MEMBER_LEASE);
    if let Some(wait) = context.execution.writes.behind(&id, None) {
        return Ok(Some(wait));
    }
    let body = json!({ "spec": { "leaseDurationSeconds": LEASE_DURATION.as_secs() } });
    match context
        .execution
        .run_in_order(&[Step::Create { id, body }])
        .await
    {
        Err(error) if !matches!(error.class, Class::AlreadyExists) => Err(error),
        _ => Ok(None),
    }
}

/// Enqueues every federated grid when a member goes out of contact or comes back, so that its status says so.
pub(super) async fn watch_contacts(context: &Context) {
    let mut known = BTreeMap::new();
    loop {
        tokio::select! {
            () = sleep(CHECK_INTERVAL) => {}
            () = context.queues.federation.members.closed() => return,
        }
        let away = context.federation.contacts.away((context.clock)());
        if away != known {
            enqueue_originals::<DeploymentGrid>(context);
            enqueue_originals::<StatefulSetGrid>(context);
            enqueue_originals::<ServiceGrid>(context);
            known = away;
        }
    }
}
