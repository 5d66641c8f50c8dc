//! Member clusters as the control cluster knows them: each namespace has a Lease, by which its member is heard of.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use edgegrid_api::names::MEMBER_LEASE;
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::federation::contact::{Contact, PATIENCE};
use edgegrid_plan::{Kind, ObjectId, Step};
use edgegrid_runtime::executor::{Class, WriteError};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use serde_json::json;
use tokio::time::sleep;

use super::reactions::all_originals;
use crate::context::Context;
use crate::controller;
use crate::queue::key;

/// How often it is looked whether members fell silent.
const LOOK: Duration = Duration::from_secs(15);

/// When members were heard of, by namespace.
#[derive(Clone, Default)]
pub(crate) struct Contacts(Arc<Mutex<BTreeMap<String, Contact>>>);

impl Contacts {
    /// Notes what a member's Lease says.
    pub(crate) fn apply(&self, namespace: &str, lease: Option<&Lease>, now: Timestamp) {
        let mut contacts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lease) = lease else {
            contacts.remove(namespace);
            return;
        };
        let renewed = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.renew_time.as_ref());
        let earlier = contacts.get(namespace);
        let contact = Contact::seen(earlier, renewed.map(|time| time.0), now);
        contacts.insert(namespace.to_owned(), contact);
    }

    /// Since when a member is out of contact.
    pub(crate) fn away_since(&self, namespace: &str, now: Timestamp) -> Option<Timestamp> {
        let contacts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        contacts.get(namespace)?.away_since(now)
    }

    /// All members that are out of contact.
    fn away(&self, now: Timestamp) -> BTreeMap<String, Timestamp> {
        let contacts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let away = contacts
            .iter()
            .filter_map(|(namespace, contact)| Some((namespace.clone(), contact.away_since(now)?)));
        away.collect()
    }
}

/// Gives every member its Lease, until the queue is closed.
pub(super) async fn run(context: &Context) {
    let pass = |namespace| pass(context.clone(), namespace);
    controller::run(
        "membership",
        context.caches.members.clone(),
        context.queues.federation.members.clone(),
        context.metrics.clone(),
        pass,
    )
    .await;
}

async fn pass(
    context: Context,
    namespace: Arc<PartialObjectMeta<Namespace>>,
) -> Result<Option<Duration>, WriteError> {
    let (_, name) = key(&*namespace);
    let known = ObjectRef::new(MEMBER_LEASE).within(&name);
    let has_lease = context.caches.member_leases.get(&known).is_some();
    if has_lease || namespace.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let id = ObjectId::namespaced(Kind::Lease, &name, MEMBER_LEASE);
    if let Some(wait) = context.execution.writes.behind(&id, None) {
        return Ok(Some(wait));
    }
    let body = json!({ "spec": { "leaseDurationSeconds": PATIENCE.as_secs() } });
    match context
        .execution
        .run_in_order(&[Step::Create { id, body }])
        .await
    {
        Err(error) if !matches!(error.class, Class::Taken) => Err(error),
        _ => Ok(None),
    }
}

/// Lets every federated grid say so when a member falls silent or is heard of again.
pub(super) async fn notice_silence(context: &Context) {
    let mut known = BTreeMap::new();
    loop {
        tokio::select! {
            () = sleep(LOOK) => {}
            () = context.queues.federation.members.closed() => return,
        }
        let away = context.federation.contacts.away((context.clock)());
        if away != known {
            all_originals::<DeploymentGrid>(context);
            all_originals::<StatefulSetGrid>(context);
            all_originals::<ServiceGrid>(context);
            known = away;
        }
    }
}
