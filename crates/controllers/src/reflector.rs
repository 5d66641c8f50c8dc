//! One watch per kind, and a copy of what it shows.
//!
//! ```text
//! watch ─► prune ─► store (kube's reflector) ─► what changed? ─► reactions
//! ```
//!
//! The reflector does not say what an event changed, which is what saves work here: a heartbeat
//! changes nothing that anybody decides on. Whoever reacts finds the change in the store.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use kube::Resource;
use kube::api::Api;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;
use tracing::warn;

use crate::queue::{ObjectKey, key};

/// What one event changed.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// Seen for the first time.
    Added(Arc<K>),
    /// Seen before and different now.
    Changed {
        /// As it was before.
        old: Arc<K>,
        /// As the watch shows it now.
        new: Arc<K>,
    },
    /// Gone; this is how it was last.
    Removed(Arc<K>),
}

impl<K: Resource> Change<K> {
    fn between(old: Option<Arc<K>>, new: Option<Arc<K>>) -> Option<Self> {
        match (old, new) {
            (None, None) => None,
            (None, Some(new)) => Some(Self::Added(new)),
            (Some(old), None) => Some(Self::Removed(old)),
            (Some(old), Some(new)) => {
                (!is_same(&*old, &*new)).then_some(Self::Changed { old, new })
            }
        }
    }

    /// The object before, if there was one.
    pub fn before(&self) -> Option<&Arc<K>> {
        match self {
            Self::Added(_) => None,
            Self::Changed { old, .. } | Self::Removed(old) => Some(old),
        }
    }

    /// The object now, if there is one.
    pub fn after(&self) -> Option<&Arc<K>> {
        match self {
            Self::Added(new) | Self::Changed { new, .. } => Some(new),
            Self::Removed(_) => None,
        }
    }

    /// The object, as it is or as it was last.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Added(object) | Self::Changed { new: object, .. } | Self::Removed(object) => {
                object
            }
        }
    }

    /// Namespace and name of the object.
    pub fn key(&self) -> ObjectKey {
        key(&**self.object())
    }
}

/// The reflector of one kind: where from, how much of it, and where to.
pub struct Reflector<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Which kind, in which namespaces.
    pub api: Api<K>,
    /// Label and field selectors.
    pub selection: watcher::Config,
    /// Its group, version and kind, for kinds known only at run time.
    pub kind: K::DynamicType,
    /// Drops the fields that nobody reads.
    pub prune: fn(&mut K),
    /// The store that it fills.
    pub writer: Writer<K>,
}

impl<K> Reflector<K>
where
    K: Resource + 'static,
    K: Clone + DeserializeOwned + Debug + Send + Sync,
    K::DynamicType: Eq + Hash + Clone + Debug,
{
    /// Watches for ever, and calls `changed` for each change once the store shows it.
    pub async fn run(self, mut changed: impl FnMut(Change<K>)) {
        let Self {
            api,
            selection,
            kind,
            prune,
            mut writer,
        } = self;
        let store = writer.as_reader();
        let mut events = watcher(api, selection).default_backoff().boxed();
        loop {
            match events.try_next().await {
                Ok(Some(mut event)) => {
                    pruned(&mut event, prune);
                    let before = concerned(&store, &event, &kind);
                    writer.apply_watcher_event(&event);
                    let after = concerned(&store, &event, &kind);
                    changes(before, after).for_each(&mut changed);
                }
                Ok(None) => return,
                // The watcher itself waits and resumes.
                Err(error) => warn!(kind = %K::plural(&kind), %error, "watch failed, retrying"),
            }
        }
    }
}

fn pruned<K>(event: &mut watcher::Event<K>, prune: fn(&mut K)) {
    match event {
        watcher::Event::Apply(object)
        | watcher::Event::InitApply(object)
        | watcher::Event::Delete(object) => prune(object),
        watcher::Event::Init | watcher::Event::InitDone => {}
    }
}

/// The stored objects that an event may change: one, or all when a list ends, because then the
/// store takes the whole list at once.
fn concerned<K>(
    store: &Store<K>,
    event: &watcher::Event<K>,
    kind: &K::DynamicType,
) -> BTreeMap<ObjectKey, Arc<K>>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let objects = match event {
        watcher::Event::Apply(object) | watcher::Event::Delete(object) => store
            .get(&ObjectRef::from_obj_with(object, kind.clone()))
            .into_iter()
            .collect(),
        watcher::Event::InitDone => store.state(),
        watcher::Event::Init | watcher::Event::InitApply(_) => Vec::new(),
    };
    objects
        .into_iter()
        .map(|object| (key(&*object), object))
        .collect()
}

fn changes<K: Resource>(
    mut before: BTreeMap<ObjectKey, Arc<K>>,
    after: BTreeMap<ObjectKey, Arc<K>>,
) -> impl Iterator<Item = Change<K>> {
    let mut changes: Vec<_> = after
        .into_iter()
        .filter_map(|(key, new)| Change::between(before.remove(&key), Some(new)))
        .collect();
    changes.extend(before.into_values().map(Change::Removed));
    changes.into_iter()
}

/// Drops `managedFields` altogether.
pub(crate) fn drop_managed_fields<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

/// Whether an event only showed again what was known, as a list does.
fn is_same<K: Resource>(old: &K, new: &K) -> bool {
    let (old, new) = (old.meta(), new.meta());
    old.uid == new.uid
        && old.resource_version == new.resource_version
        && new.resource_version.is_some()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use kube::runtime::reflector;

    use super::*;

    fn node(name: &str, version: &str) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some(name.into());
        node.metadata.uid = Some(format!("uid-{name}"));
        node.metadata.resource_version = Some(version.into());
        node
    }

    /// Feeds events and returns `(name, before, after)` of each change.
    fn changes_of(events: Vec<watcher::Event<Node>>) -> Vec<(String, bool, bool)> {
        let (store, mut writer) = reflector::store::<Node>();
        let mut all = Vec::new();
        for event in events {
            let before = concerned(&store, &event, &());
            writer.apply_watcher_event(&event);
            let after = concerned(&store, &event, &());
            all.extend(changes(before, after).map(|change| {
                (
                    change.key().1,
                    change.before().is_some(),
                    change.after().is_some(),
                )
            }));
        }
        all
    }

    #[test]
    fn a_second_list_shows_what_came_changed_and_went_while_the_watch_was_away() {
        use watcher::Event::{Init, InitApply, InitDone};
        let changes = changes_of(vec![
            Init,
            InitApply(node("kept", "1")),
            InitApply(node("changed", "2")),
            InitApply(node("gone", "3")),
            InitDone,
            Init,
            InitApply(node("kept", "1")),
            InitApply(node("changed", "4")),
            InitApply(node("new", "5")),
            InitDone,
        ]);
        let second: Vec<_> = changes[3..].to_vec();
        assert_eq!(
            second,
            [
                ("changed".into(), true, true),
                ("new".into(), false, true),
                ("gone".into(), true, false)
            ]
        );
    }

    #[test]
    fn a_deletion_shows_what_was_there() {
        use watcher::Event::{Apply, Delete};
        let changes = changes_of(vec![
            Apply(node("a", "1")),
            Delete(node("a", "2")),
            Delete(node("b", "3")),
        ]);
        assert_eq!(
            changes,
            [("a".into(), false, true), ("a".into(), true, false)]
        );
    }
}
