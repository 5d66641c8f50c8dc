//! What is watched, and whom a change concerns.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use kube::Api;
use kube::core::{DynamicObject, SelectorExt};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use tokio::task::JoinSet;

use crate::cache::Change;
use crate::controller::Context;
use crate::entries::{self, WireClaim, WirePod};
use crate::names::SET_KIND;
use crate::rules::{Claim, Pod, Revision, Set};
use crate::wake::SetName;

/// Starts all watches.
pub(crate) fn start(tasks: &mut JoinSet<()>, context: &Arc<Context>, store: Writer<DynamicObject>) {
    tasks.spawn(watch_sets(context.clone(), store));
    tasks.spawn(watch_pods(context.clone()));
    tasks.spawn(watch_claims(context.clone()));
    tasks.spawn(watch_revisions(context.clone()));
}

async fn watch_sets(context: Arc<Context>, store: Writer<DynamicObject>) {
    let api = Api::<DynamicObject>::all_with(context.client.clone(), &entries::sets());
    let told = |event: &Event<DynamicObject>| {
        if let Event::Apply(object) | Event::InitApply(object) = event {
            context.foreigners.look_at_set(&object.metadata);
        }
    };
    watch(api, watcher::Config::default())
        .default_backoff()
        .inspect_ok(told)
        .modify(|object| object.metadata.managed_fields = None)
        .reflect(store)
        .for_each(async |event| match event {
            Ok(event) => take_sets(&context, event),
            Err(error) => tracing::warn!(%error, "watch StatefulSets"),
        })
        .await;
}

fn take_sets(context: &Context, event: Event<DynamicObject>) {
    let parsed = |object: DynamicObject| match Set::parse(&object) {
        Ok(set) => Some(set),
        Err(error) => {
            tracing::error!(%error, "left alone");
            None
        }
    };
    let event = match event {
        Event::Apply(object) => parsed(object).map(Event::Apply),
        Event::InitApply(object) => parsed(object).map(Event::InitApply),
        Event::Delete(object) => parsed(object).map(Event::Delete),
        Event::Init => Some(Event::Init),
        Event::InitDone => Some(Event::InitDone),
    };
    let Some(event) = event else { return };
    for Change { before, after } in context.caches.sets.take(event) {
        let gone =
            before.filter(|before| after.as_ref().is_none_or(|after| after.uid != before.uid));
        if let Some(gone) = gone {
            context.forget(&gone);
        }
        let name = |set: Arc<Set>| (set.namespace.clone(), set.name.clone());
        context.wake.wake(after.map(name));
    }
}

async fn watch_pods(context: Arc<Context>) {
    let api = Api::<WirePod>::all_with(context.client.clone(), &entries::pods());
    watch(api, watcher::Config::default())
        .default_backoff()
        .for_each(async |event| match event {
            Ok(event) => take_pods(&context, event),
            Err(error) => tracing::warn!(%error, "watch Pods"),
        })
        .await;
}

fn take_pods(context: &Context, event: Event<WirePod>) {
    if let Event::Apply(wire) = &event {
        look_for_foreigners(context, wire);
    }
    let event = map(event, entries::pod);
    for change in context.caches.pods.take(event) {
        context.wake.wake(concerned(context, &change));
    }
}

/// A pod that we did not see before although it has an owner of ours.
fn look_for_foreigners(context: &Context, wire: &WirePod) {
    let metadata = &wire.metadata;
    let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else {
        return;
    };
    let known = context.caches.pods.get(namespace, name);
    let is_new = known.is_none_or(|known| Some(&known.uid) != metadata.uid.as_ref());
    let owner = metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true));
    if let (true, Some(owner)) = (is_new, owner) {
        context.foreigners.look_at_new_pod(&owner.uid, metadata);
    }
}

/// The sets that a pod's change concerns: its owners before and after, and who could adopt it.
fn concerned(context: &Context, change: &Change<Pod>) -> Vec<SetName> {
    let owner = |pod: &Pod| {
        let owner = pod.owner.as_ref().filter(|owner| owner.kind == SET_KIND)?;
        Some((pod.namespace.clone(), owner.name.clone()))
    };
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    let mut sets: Vec<SetName> = Vec::new();
    match (before, after) {
        (Some(before), Some(after)) if before.is_like(after) => return sets,
        (Some(before), after) if after.is_none_or(|after| after.owner != before.owner) => {
            sets.extend(owner(before));
        }
        _ => {}
    }
    let Some(after) = after else { return sets };
    sets.extend(owner(after));
    if after.owner.is_none() {
        let all = context.caches.sets.of_namespace(&after.namespace);
        let adopters = all.iter().filter(|set| set.selector.matches(&after.labels));
        sets.extend(adopters.map(|set| (set.namespace.clone(), set.name.clone())));
    }
    sets
}

async fn watch_claims(context: Arc<Context>) {
    let api = Api::<WireClaim>::all(context.client.clone());
    watch(api, watcher::Config::default())
        .default_backoff()
        .for_each(async |event| match event {
            Ok(event) => {
                let event = map(event, |wire| Claim::new(wire.metadata));
                for Change { before, after } in context.caches.claims.take(event) {
                    if let Some(claim) = after.or(before) {
                        context.claim_changed(&claim.namespace, &claim.name);
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "watch PersistentVolumeClaims"),
        })
        .await;
}

async fn watch_revisions(context: Arc<Context>) {
    let api = Api::<DynamicObject>::all_with(context.client.clone(), &entries::revisions());
    watch(api, watcher::Config::default())
        .default_backoff()
        .for_each(async |event| match event {
            Ok(event) => {
                context.caches.revisions.take(map(event, Revision::new));
            }
            Err(error) => tracing::warn!(%error, "watch ControllerRevisions"),
        })
        .await;
}

fn map<A, B>(event: Event<A>, with: impl FnOnce(A) -> B) -> Event<B> {
    match event {
        Event::Apply(object) => Event::Apply(with(object)),
        Event::Delete(object) => Event::Delete(with(object)),
        Event::InitApply(object) => Event::InitApply(with(object)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}
