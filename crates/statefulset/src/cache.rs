//! What the watches have seen so far, with one question more than kube's store answers: is it as new
//! as what we wrote?
//!
//! Events of one resource come in the order of their resource versions, so that one number says how far
//! the cache has come. A list says it too: it is newer than all that was written before it began.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use tokio::sync::watch;

/// An object of a cache.
pub(crate) trait Entry {
    fn namespace(&self) -> &str;
    fn name(&self) -> &str;
    /// Identity of the object that controls it.
    fn owner(&self) -> Option<&str>;
    /// The object's resource version as a number.
    fn version(&self) -> u64;
}

/// What an event changed.
#[derive(Debug)]
pub(crate) struct Change<T> {
    pub(crate) before: Option<Arc<T>>,
    pub(crate) after: Option<Arc<T>>,
}

/// All objects of one resource.
pub(crate) struct Cache<T> {
    state: Mutex<State<T>>,
    /// Counts what happened, so that others can wait for the next.
    ticks: watch::Sender<u64>,
}

type NamespacedName = (String, String);

struct State<T> {
    objects: BTreeMap<NamespacedName, Arc<T>>,
    /// Names by namespace and owner.
    owned: BTreeMap<(String, Option<String>), BTreeSet<String>>,
    /// What a list that is under way has brought so far.
    listing: Option<Listing<T>>,
    is_ready: bool,
    seen: u64,
    /// Highest resource version that we wrote.
    written: u64,
}

struct Listing<T> {
    objects: BTreeMap<NamespacedName, Arc<T>>,
    written_before: u64,
}

impl<T: Entry> Default for Cache<T> {
    fn default() -> Self {
        let state = State {
            objects: BTreeMap::new(),
            owned: BTreeMap::new(),
            listing: None,
            is_ready: false,
            seen: 0,
            written: 0,
        };
        Self {
            state: Mutex::new(state),
            ticks: watch::Sender::new(0),
        }
    }
}

impl<T: Entry> Cache<T> {
    /// Applies an event and returns what it changed.
    pub(crate) fn apply(&self, event: Event<T>) -> Vec<Change<T>> {
        let changes = self.state.lock().apply(event);
        self.ticks.send_modify(|ticks| *ticks += 1);
        changes
    }

    /// Notes a write, so that a later list counts as having seen it.
    pub(crate) fn note_written(&self, version: u64) {
        let mut state = self.state.lock();
        state.written = state.written.max(version);
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.state.lock().objects.get(&key).cloned()
    }

    /// All objects of a namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.with_prefix(namespace, "")
    }

    /// Objects of a namespace whose name begins so.
    pub(crate) fn with_prefix(&self, namespace: &str, prefix: &str) -> Vec<Arc<T>> {
        let from = (namespace.to_owned(), prefix.to_owned());
        let state = self.state.lock();
        let after = state.objects.range(from..);
        after
            .take_while(|((ns, name), _)| ns == namespace && name.starts_with(prefix))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Objects of a namespace that this owner controls, or nobody.
    pub(crate) fn owned_or_orphaned(&self, namespace: &str, owner: &str) -> Vec<Arc<T>> {
        let state = self.state.lock();
        let owned_by = |owner: Option<&str>| {
            let names = state
                .owned
                .get(&(namespace.to_owned(), owner.map(str::to_owned)));
            let objects = names.into_iter().flatten();
            let object = |name: &String| {
                state
                    .objects
                    .get(&(namespace.to_owned(), name.clone()))
                    .cloned()
            };
            objects.filter_map(object).collect::<Vec<_>>()
        };
        let mut found = owned_by(Some(owner));
        found.extend(owned_by(None));
        found
    }

    /// Waits until a whole list was seen.
    pub(crate) async fn wait_until_ready(&self) {
        self.wait_for(|state| state.is_ready).await;
    }

    /// Waits until what was written at this resource version has been seen.
    pub(crate) async fn wait_until_seen(&self, version: u64) {
        self.wait_for(|state| state.seen >= version).await;
    }

    /// Waits until the object of this name, if it is there, is as it should be.
    pub(crate) async fn wait_for_object(
        &self,
        (namespace, name): (&str, &str),
        is_right: impl Fn(&T) -> bool,
    ) {
        let key = (namespace.to_owned(), name.to_owned());
        self.wait_for(|state| {
            state
                .objects
                .get(&key)
                .is_none_or(|object| is_right(object))
        })
        .await;
    }

    async fn wait_for(&self, condition: impl Fn(&State<T>) -> bool) {
        let mut ticks = self.ticks.subscribe();
        while !condition(&self.state.lock()) {
            if ticks.changed().await.is_err() {
                return;
            }
        }
    }
}

impl<T: Entry> State<T> {
    fn apply(&mut self, event: Event<T>) -> Vec<Change<T>> {
        match event {
            Event::Apply(object) => {
                self.seen = self.seen.max(object.version());
                vec![self.put(Arc::new(object))]
            }
            Event::Delete(object) => {
                self.seen = self.seen.max(object.version());
                vec![self.remove(&key(&object))]
            }
            Event::Init => {
                self.listing = Some(Listing {
                    objects: BTreeMap::new(),
                    written_before: self.written,
                });
                Vec::new()
            }
            Event::InitApply(object) => {
                if let Some(listing) = &mut self.listing {
                    listing.objects.insert(key(&object), Arc::new(object));
                }
                Vec::new()
            }
            Event::InitDone => self
                .listing
                .take()
                .map(|listing| self.replace(listing))
                .unwrap_or_default(),
        }
    }

    fn replace(&mut self, listing: Listing<T>) -> Vec<Change<T>> {
        self.is_ready = true;
        let newest = listing
            .objects
            .values()
            .map(|object| object.version())
            .max();
        self.seen = self
            .seen
            .max(listing.written_before)
            .max(newest.unwrap_or_default());
        let gone: Vec<NamespacedName> = self
            .objects
            .keys()
            .filter(|key| !listing.objects.contains_key(*key))
            .cloned()
            .collect();
        let mut changes: Vec<_> = gone.iter().map(|key| self.remove(key)).collect();
        changes.extend(listing.objects.into_values().map(|object| self.put(object)));
        changes
    }

    fn put(&mut self, object: Arc<T>) -> Change<T> {
        let before = self.objects.insert(key(&*object), object.clone());
        if let Some(before) = &before {
            self.forget_owner(before);
        }
        self.owned
            .entry(owner_key(&*object))
            .or_default()
            .insert(object.name().to_owned());
        Change {
            before,
            after: Some(object),
        }
    }

    fn remove(&mut self, key: &NamespacedName) -> Change<T> {
        let before = self.objects.remove(key);
        if let Some(before) = &before {
            self.forget_owner(before);
        }
        Change {
            before,
            after: None,
        }
    }

    fn forget_owner(&mut self, object: &T) {
        let key = owner_key(object);
        if let Some(names) = self.owned.get_mut(&key) {
            names.remove(object.name());
            if names.is_empty() {
                self.owned.remove(&key);
            }
        }
    }
}

fn key<T: Entry>(object: &T) -> NamespacedName {
    (object.namespace().to_owned(), object.name().to_owned())
}

fn owner_key<T: Entry>(object: &T) -> (String, Option<String>) {
    (
        object.namespace().to_owned(),
        object.owner().map(str::to_owned),
    )
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[derive(Debug, Clone)]
    struct Thing {
        name: &'static str,
        owner: Option<&'static str>,
        version: u64,
    }

    impl Entry for Thing {
        fn namespace(&self) -> &'static str {
            "ns"
        }

        fn name(&self) -> &str {
            self.name
        }

        fn owner(&self) -> Option<&str> {
            self.owner
        }

        fn version(&self) -> u64 {
            self.version
        }
    }

    fn thing(name: &'static str, owner: Option<&'static str>, version: u64) -> Thing {
        Thing {
            name,
            owner,
            version,
        }
    }

    fn names(found: &[Arc<Thing>]) -> Vec<&'static str> {
        found.iter().map(|thing| thing.name).collect()
    }

    #[test]
    fn objects_are_found_by_owner_also_after_they_changed_hands() {
        let cache = Cache::default();
        cache.apply(Event::Apply(thing("a", Some("x"), 1)));
        cache.apply(Event::Apply(thing("b", None, 2)));
        cache.apply(Event::Apply(thing("c", Some("y"), 3)));
        assert_eq!(names(&cache.owned_or_orphaned("ns", "x")), ["a", "b"]);
        cache.apply(Event::Apply(thing("a", Some("y"), 4)));
        assert_eq!(names(&cache.owned_or_orphaned("ns", "x")), ["b"]);
        cache.apply(Event::Delete(thing("c", Some("y"), 5)));
        assert_eq!(names(&cache.owned_or_orphaned("ns", "y")), ["a", "b"]);
        assert_eq!(names(&cache.with_prefix("ns", "b")), ["b"]);
        assert!(cache.in_namespace("other").is_empty());
    }

    #[test]
    fn a_write_is_seen_when_its_event_comes_or_a_list_that_began_after_it() {
        let cache = Cache::default();
        let has_seen = |version| cache.wait_until_seen(version).now_or_never().is_some();
        cache.note_written(7);
        assert!(!has_seen(7));
        cache.apply(Event::Apply(thing("a", None, 7)));
        assert!(has_seen(7));

        // Deleted before the next list: no event will ever come for version 9.
        cache.apply(Event::Init);
        cache.note_written(9);
        cache.apply(Event::InitDone);
        assert!(!has_seen(9), "the list began before");
        cache.apply(Event::Init);
        cache.apply(Event::InitDone);
        assert!(has_seen(9));
    }

    #[test]
    fn a_list_removes_what_it_does_not_have_and_says_so() {
        let cache = Cache::default();
        assert!(cache.wait_until_ready().now_or_never().is_none());
        cache.apply(Event::Apply(thing("a", None, 1)));
        cache.apply(Event::Init);
        assert!(
            cache
                .apply(Event::InitApply(thing("b", None, 2)))
                .is_empty()
        );
        assert!(cache.get("ns", "a").is_some(), "until the list is whole");
        let changes = cache.apply(Event::InitDone);
        assert_eq!(changes.len(), 2);
        assert!(changes[0].after.is_none());
        assert_eq!(names(&cache.in_namespace("ns")), ["b"]);
        assert!(cache.wait_until_ready().now_or_never().is_some());
    }
}
