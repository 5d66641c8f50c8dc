//! One grid in many clusters: who watches what, and what the parts share.
//!
//! ```text
//! control cluster                                  member
//! distribution: original ─► copies                 session: Secret ─► watches of the control cluster
//! membership:   namespace ─► Lease, contact          mirrors: copy ─► mirror; its grid ─► copy's status
//! grid controllers: copies' status ─► one status     grids:   mirror ─► the member's grid
//! ```
//!
//! A cluster may be both. All parts are generic in the kind of grid.

mod contact;
mod distribution;
mod grids;
mod index;
mod membership;
mod mirrors;
pub(crate) mod reactions;
mod registration;
mod session;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use edgegrid_api::names::{component, finalizer};
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::Kind;
use edgegrid_plan::failure::Trouble;
use edgegrid_plan::federation::copies::{Member, clusters};
use edgegrid_plan::federation::status::{self, About, Report, read};
use edgegrid_plan::federation::{
    GridObject, has_finalizer, is_federated, is_from_control, is_mirror,
};
use futures::future::BoxFuture;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::core::ObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::all_of;
use crate::context::{Caches, Context, Queues};
use crate::process::ask;
use crate::queue::{Key, Queue};
use index::Copies;
use membership::Contacts;

pub use registration::{Connector, Registration, by_token};

/// A kind of grid that can be sent to members.
pub(crate) trait FederatedGrid:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Its kind.
    const KIND: Kind;
    /// Source of the events that federation writes about it.
    const FEDERATION: &'static str;

    /// Where its kind is kept.
    fn store(caches: &Caches) -> &Store<Self>;
    /// Who of its kind its own controller should look at.
    fn own_queue(queues: &Queues) -> &Queue;
    /// Who of its kind federation should look at.
    fn federation_queues(queues: &Queues) -> &KindQueues;
    /// What it reports.
    fn reported(&self) -> Value;
}

/// What federation should look at, of one kind.
#[derive(Clone, Default)]
pub struct KindQueues {
    /// Originals, and copies that may have lost theirs.
    pub(crate) distribution: Queue,
    /// Mirrors.
    pub(crate) mirrors: Queue,
    /// Copies in the control cluster, by their key there.
    pub(crate) copies: Queue,
}

/// What federation should look at.
#[derive(Clone, Default)]
pub struct FederationQueues {
    deployment_grids: KindQueues,
    stateful_set_grids: KindQueues,
    service_grids: KindQueues,
    /// Namespaces of members.
    pub(crate) members: Queue,
}

impl FederationQueues {
    /// Takes no more work.
    pub(crate) fn close(&self) {
        for kind in [
            &self.deployment_grids,
            &self.stateful_set_grids,
            &self.service_grids,
        ] {
            kind.distribution.close();
            kind.mirrors.close();
            kind.copies.close();
        }
        self.members.close();
    }
}

/// What the parts of federation share.
#[derive(Clone)]
pub struct Federation {
    /// Which copies and mirrors stand for which grid.
    pub(crate) copies: Copies,
    /// When members were heard of.
    pub(crate) contacts: Contacts,
    /// What keeps members from getting their copies, by original and namespace.
    pub(crate) undelivered: Troubles,
    /// What keeps this member from having its grids, by mirror.
    pub(crate) held: Troubles,
    /// Grids of this member that its control cluster no longer shows.
    pub(crate) missing: Troubles,
    /// What this member hears of its control cluster.
    pub(crate) heard: session::Heard,
    connector: Connector,
}

impl Federation {
    pub(crate) fn new(connector: Connector) -> Self {
        Self {
            copies: Copies::default(),
            contacts: Contacts::default(),
            undelivered: Troubles::default(),
            held: Troubles::default(),
            missing: Troubles::default(),
            heard: session::Heard::default(),
            connector,
        }
    }
}

/// Troubles by kind and key, each with a part: a member's namespace, or nothing.
#[derive(Clone, Default)]
pub(crate) struct Troubles(Arc<Mutex<BTreeMap<(Kind, Key), Parts>>>);

/// What is wrong, by part.
type Parts = BTreeMap<String, Trouble>;

impl Troubles {
    /// Notes what is wrong, and says whether that is news.
    pub(crate) fn set(&self, kind: Kind, key: &Key, troubles: &Parts) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (kind, key.clone());
        if troubles.is_empty() {
            return all.remove(&place).is_some();
        }
        all.insert(place, troubles.clone()).as_ref() != Some(troubles)
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.clear();
    }

    /// Kinds and keys of all that something is wrong with.
    pub(crate) fn all(&self) -> Vec<(Kind, Key)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.keys().cloned().collect()
    }

    /// What is wrong with one object.
    pub(crate) fn of(&self, kind: Kind, key: &Key) -> BTreeMap<String, Trouble> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(kind, key.clone())).cloned().unwrap_or_default()
    }
}

/// All of federation, until the queues are closed.
pub(crate) async fn run(context: &Context) {
    let parts: Vec<BoxFuture<'_, ()>> = vec![
        Box::pin(membership::run(context)),
        Box::pin(membership::notice_silence(context)),
        Box::pin(session::run(context)),
        Box::pin(distribution::run::<DeploymentGrid>(context)),
        Box::pin(distribution::run::<StatefulSetGrid>(context)),
        Box::pin(distribution::run::<ServiceGrid>(context)),
        Box::pin(grids::run::<DeploymentGrid>(context)),
        Box::pin(grids::run::<StatefulSetGrid>(context)),
        Box::pin(grids::run::<ServiceGrid>(context)),
    ];
    all_of(parts).await;
}

/// Asks for a look at everything.
pub(crate) fn ask_for_all(context: &Context) {
    let queues = &context.queues.federation;
    ask(&context.caches.members, &queues.members);
    ask_for_kind::<DeploymentGrid>(context);
    ask_for_kind::<StatefulSetGrid>(context);
    ask_for_kind::<ServiceGrid>(context);
}

fn ask_for_kind<K: FederatedGrid>(context: &Context) {
    let queues = K::federation_queues(&context.queues);
    ask(K::store(&context.caches), &queues.distribution);
    ask_for_mirrors::<K>(context);
}

/// Asks for a look at every mirror of a kind.
fn ask_for_mirrors<K: FederatedGrid>(context: &Context) {
    let mirrors = K::store(&context.caches).state_filter(|grid| is_mirror(grid.meta()));
    let keys = mirrors.iter().map(|mirror| crate::queue::key(&**mirror));
    K::federation_queues(&context.queues).mirrors.extend(keys);
}

/// The members by namespace.
pub(crate) fn members(context: &Context) -> BTreeMap<String, Member> {
    let namespaces = context.caches.members.state();
    clusters(namespaces.iter().map(|namespace| &namespace.metadata))
}

/// What the members report about a grid; `None` if it concerns none.
pub(crate) fn reports<K: FederatedGrid>(
    context: &Context,
    metadata: &ObjectMeta,
) -> Option<Vec<Report>> {
    let key = edgegrid_plan::federation::key(metadata);
    let is_held = has_finalizer(metadata, finalizer::FEDERATED);
    let is_removing = metadata.deletion_timestamp.is_some();
    if !is_held && (is_removing || !is_federated(metadata)) {
        return None;
    }
    let members = members(context);
    if members.is_empty() && !is_held {
        return None;
    }
    let now = (context.clock)();
    let undelivered = context.federation.undelivered.of(K::KIND, &key);
    let copies: BTreeMap<String, Arc<K>> = copies_of(context, &key)
        .into_iter()
        .filter_map(|copy: Arc<K>| Some((copy.meta().namespace.clone()?, copy)))
        .collect();
    let staying = members.into_iter().filter(|(_, member)| !member.is_leaving);
    let reports = staying.map(|(namespace, member)| {
        let copy = copies.get(&namespace);
        Report {
            cluster: member.cluster,
            generation: copy.and_then(|copy| copy.meta().generation),
            status: copy.map(|copy| read(&copy.reported())).unwrap_or_default(),
            away_since: context.federation.contacts.away_since(&namespace, now),
            trouble: undelivered.get(&namespace).cloned(),
        }
    });
    Some(reports.collect())
}

/// Says in the status of a grid that came from the control cluster whether it follows that.
pub(crate) fn say_link<K: FederatedGrid>(
    context: &Context,
    about: About<'_>,
    conditions: &mut Vec<Condition>,
) {
    let heard = &context.federation.heard;
    if heard.namespace().is_none() || !is_from_control(about.metadata) {
        return;
    }
    let key = edgegrid_plan::federation::key(about.metadata);
    let missing = context.federation.missing.of(K::KIND, &key);
    let trouble = heard.lost().or_else(|| missing.into_values().next());
    conditions.push(status::follows(about, trouble.as_ref()));
}

/// Asks for a look at every grid that came from the control cluster.
fn ask_for_followers<K: FederatedGrid>(context: &Context) {
    let grids = K::store(&context.caches).state_filter(|grid| is_from_control(grid.meta()));
    let keys = grids.iter().map(|grid| crate::queue::key(&**grid));
    K::own_queue(&context.queues).extend(keys);
}

/// The copies of a grid in the control cluster.
fn copies_of<K: FederatedGrid>(context: &Context, original: &Key) -> Vec<Arc<K>> {
    let keys = context.federation.copies.of(K::KIND, original);
    keys.iter()
        .filter_map(|key| stored::<K>(context, key))
        .filter(|copy| !is_mirror(copy.meta()))
        .collect()
}

/// A grid that a cache shows.
fn stored<K: FederatedGrid>(context: &Context, (namespace, name): &Key) -> Option<Arc<K>> {
    K::store(&context.caches).get(&ObjectRef::new(name).within(namespace))
}

/// A grid as plans see it.
fn object<K: FederatedGrid>(grid: &K) -> GridObject {
    GridObject::of(K::KIND, grid.meta(), grid)
}

/// How federation finds its way about one kind.
macro_rules! federated {
    ($kind:ident, $field:ident, $component:ident) => {
        impl FederatedGrid for $kind {
            const KIND: Kind = Kind::$kind;
            const FEDERATION: &'static str = component::$component;

            fn store(caches: &Caches) -> &Store<Self> {
                &caches.$field
            }

            fn own_queue(queues: &Queues) -> &Queue {
                &queues.$field
            }

            fn federation_queues(queues: &Queues) -> &KindQueues {
                &queues.federation.$field
            }

            fn reported(&self) -> Value {
                serde_json::to_value(&self.status).unwrap_or_default()
            }
        }
    };
}

federated!(DeploymentGrid, deployment_grids, FEDERATED_DEPLOYMENT_GRID);
federated!(
    StatefulSetGrid,
    stateful_set_grids,
    FEDERATED_STATEFUL_SET_GRID
);
federated!(ServiceGrid, service_grids, FEDERATED_SERVICE_GRID);
