//! The watches, and which sets are due after a change.

use std::sync::Arc;

use edgegrid_runtime::logging::chain;
use futures::{StreamExt, TryStreamExt};
use kube::Api;
use kube::core::{DynamicObject, SelectorExt};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use tokio::task::JoinSet;

use crate::cache::Change;
use crate::context::Context;
use crate::entries::{self, WireClaim, WirePod};
use crate::names::SET_KIND;
use crate::queue::SetName;
use crate::rules::{Claim, Pod, Revision, Set};

/// Starts the watches of the four resources.
pub(crate) fn start(tasks: &mut JoinSet<()>, context: &Arc<Context>, store: Writer<DynamicObject>) {
    tasks.spawn(watch_sets(context.clone(), store));
    tasks.spawn(watch_pods(context.clone()));
    tasks.spawn(watch_claims(context.clone()));
    tasks.spawn(watch_revisions(context.clone()));
}

async fn watch_sets(context: Arc<Context>, store: Writer<DynamicObject>) {
    let api = Api::<DynamicObject>::all_with(context.client.clone(), &entries::sets());
    let observe = |event: &Event<DynamicObject>| {
        if let Event::Apply(object) | Event::InitApply(object) = event {
            context.other_managers.observe_set(&object.metadata);
        }
    };
    watch(api, watcher::Config::default())
        .default_backoff()
        .inspect_ok(observe)
        .modify(|object| object.metadata.managed_fields = None)
        .reflect(store)
        .for_each(async |event| match event {
            Ok(event) => apply_sets(&context, event),
            Err(error) => warn_retrying("StatefulSets", &error),
        })
        .await;
}

fn apply_sets(context: &Context, event: Event<DynamicObject>) {
    let parse = |object: DynamicObject| match Set::parse(&object) {
        Ok(set) => Some(set),
        Err(error) => {
            let namespace = object.metadata.namespace.as_deref();
            let (set, error) = (object.metadata.name.as_deref(), chain(&error));
            tracing::error!(
                namespace,
                set,
                error,
                "cannot parse StatefulSet, ignoring it"
            );
            None
        }
    };
    let event = match event {
        Event::Apply(object) => parse(object).map(Event::Apply),
        Event::InitApply(object) => parse(object).map(Event::InitApply),
        Event::Delete(object) => parse(object).map(Event::Delete),
        Event::Init => Some(Event::Init),
        Event::InitDone => Some(Event::InitDone),
    };
    let Some(event) = event else { return };
    for Change { before, after } in context.caches.sets.apply(event) {
        let gone =
            before.filter(|before| after.as_ref().is_none_or(|after| after.uid != before.uid));
        if let Some(gone) = gone {
            context.forget(&gone);
        }
        let name = |set: Arc<Set>| (set.namespace.clone(), set.name.clone());
        context.queue.add(after.map(name));
    }
}

async fn watch_pods(context: Arc<Context>) {
    let api = Api::<WirePod>::all_with(context.client.clone(), &entries::pods());
    watch(api, watcher::Config::default())
        .default_backoff()
        .for_each(async |event| match event {
            Ok(event) => apply_pods(&context, event),
            Err(error) => warn_retrying("Pods", &error),
        })
        .await;
}

fn apply_pods(context: &Context, event: Event<WirePod>) {
    if let Event::Apply(wire) = &event {
        observe_new_pod(context, wire);
    }
    let event = map(event, entries::pod);
    for change in context.caches.pods.apply(event) {
        context.queue.add(concerned_sets(context, &change));
    }
}

/// Takes note of who created a pod that we did not see before although it has a controller.
fn observe_new_pod(context: &Context, wire: &WirePod) {
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
        context.other_managers.observe_new_pod(&owner.uid, metadata);
    }
}

/// The sets that a pod's change concerns: its owners before and after, and who could adopt it.
fn concerned_sets(context: &Context, change: &Change<Pod>) -> Vec<SetName> {
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
        let all = context.caches.sets.in_namespace(&after.namespace);
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
                for Change { before, after } in context.caches.claims.apply(event) {
                    if let Some(claim) = after.or(before) {
                        context.claim_changed(&claim.namespace, &claim.name);
                    }
                }
            }
            Err(error) => warn_retrying("PersistentVolumeClaims", &error),
        })
        .await;
}

async fn watch_revisions(context: Arc<Context>) {
    let api = Api::<DynamicObject>::all_with(context.client.clone(), &entries::revisions());
    watch(api, watcher::Config::default())
        .default_backoff()
        .for_each(async |event| match event {
            Ok(event) => {
                context.caches.revisions.apply(map(event, Revision::new));
            }
            Err(error) => warn_retrying("ControllerRevisions", &error),
        })
        .await;
}

fn warn_retrying(kind: &str, error: &watcher::Error) {
    tracing::warn!(kind, error = %chain(error), "watch failed, retrying");
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
