//! Any interleaving of writes, watches, reconnects and compactions against a plain model: a watcher
//! that follows the protocol ends with exactly the store's state, and the past reads as it was.

#![allow(clippy::unwrap_used, reason = "helpers of a test may fail it")]

use edgegrid_store::{Change, Expect, Limits, RevisionError, Store, Watch, Write};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use std::collections::BTreeMap;

const PREFIXES: [&str; 4] = ["", "a/", "a/b", "c/"];
const KEYS: [&str; 6] = ["a/a", "a/b", "a/b/x", "a/bc", "c/x", "d"];
const HISTORY: usize = 12;

type Contents = BTreeMap<String, (u64, u8)>;

/// Every state there ever was, by revision; the model keeps all of the past.
#[derive(Debug, Clone)]
struct Model {
    states: Vec<Contents>,
}

#[derive(Debug, Clone)]
enum Step {
    Put {
        key: usize,
        value: u8,
        expect: Expectation,
    },
    Delete {
        key: usize,
    },
    Both {
        put: usize,
        delete: usize,
        value: u8,
    },
    Compact {
        back: u64,
    },
    Open {
        watcher: usize,
        prefix: usize,
        back: u64,
    },
    Pull {
        watcher: usize,
        most: usize,
    },
    ReadPast {
        prefix: usize,
        back: u64,
    },
}

#[derive(Debug, Clone, Copy)]
enum Expectation {
    Anything,
    Right,
    Stale,
}

impl Model {
    fn revision(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    fn now(&self) -> &Contents {
        self.states.last().unwrap()
    }

    fn push(&mut self, change: impl FnOnce(&mut Contents, u64)) {
        let mut next = self.now().clone();
        change(&mut next, self.states.len() as u64);
        self.states.push(next);
    }

    fn at(&self, revision: u64, prefix: &str) -> Contents {
        let state = &self.states[usize::try_from(revision).unwrap()];
        state
            .iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .map(|(k, v)| (k.clone(), *v))
            .collect()
    }
}

impl ReferenceStateMachine for Model {
    type State = Model;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Model> {
        Just(Model {
            states: vec![Contents::new(); 2],
        })
        .boxed()
    }

    fn transitions(_: &Model) -> BoxedStrategy<Step> {
        let key = 0..KEYS.len();
        let expect = prop_oneof![
            3 => Just(Expectation::Anything), 2 => Just(Expectation::Right), 1 => Just(Expectation::Stale)
        ];
        prop_oneof![
            6 => (key.clone(), any::<u8>(), expect)
                .prop_map(|(key, value, expect)| Step::Put { key, value, expect }),
            3 => key.clone().prop_map(|key| Step::Delete { key }),
            2 => (key.clone(), key, any::<u8>())
                .prop_map(|(put, delete, value)| Step::Both { put, delete, value }),
            1 => (0..8_u64).prop_map(|back| Step::Compact { back }),
            2 => (0..3_usize, 0..PREFIXES.len(), 0..20_u64)
                .prop_map(|(watcher, prefix, back)| Step::Open { watcher, prefix, back }),
            5 => (0..3_usize, 1..6_usize).prop_map(|(watcher, most)| Step::Pull { watcher, most }),
            2 => (0..PREFIXES.len(), 0..20_u64)
                .prop_map(|(prefix, back)| Step::ReadPast { prefix, back }),
        ]
        .boxed()
    }

    fn apply(mut model: Model, step: &Step) -> Model {
        match *step {
            Step::Put {
                expect: Expectation::Stale,
                ..
            } => {}
            Step::Put { key, value, .. } => {
                model.push(|state, at| _ = state.insert(KEYS[key].into(), (at, value)));
            }
            Step::Delete { key } if model.now().contains_key(KEYS[key]) => {
                model.push(|state, _| _ = state.remove(KEYS[key]));
            }
            Step::Both { put, delete, value } if put != delete => {
                model.push(|state, at| _ = state.insert(KEYS[put].into(), (at, value)));
                if model.now().contains_key(KEYS[delete]) {
                    model.push(|state, _| _ = state.remove(KEYS[delete]));
                }
            }
            _ => {}
        }
        model
    }
}

/// A client of the protocol: a mirror of one prefix, fed by a watch.
struct Mirror {
    watch: Watch,
    prefix: &'static str,
    contents: Contents,
}

struct System {
    store: Store,
    mirrors: [Option<Mirror>; 3],
}

impl System {
    fn put(&self, key: &str, value: u8, expect: Expectation) {
        let found = self.store.get(key).map(|entry| entry.revision());
        let expect = match expect {
            Expectation::Anything => Expect::Anything,
            Expectation::Right => found.map_or(Expect::Absent, Expect::Revision),
            Expectation::Stale => Expect::Revision(found.unwrap_or(0) + 1),
        };
        let outcome = self.store.put(key, vec![value], expect);
        assert_eq!(
            outcome.is_err(),
            found.unwrap_or(0) + 1 == revision_of(expect)
        );
    }

    fn open(&mut self, slot: usize, prefix: &'static str, back: u64, model: &Model) {
        let after = model.revision().saturating_sub(back);
        self.mirrors[slot] = match self.store.watch(prefix, after) {
            Ok(watch) => Some(Mirror {
                watch,
                prefix,
                contents: model.at(after, prefix),
            }),
            Err(RevisionError::TooOld { oldest, .. }) => {
                assert!(after < oldest && oldest == self.store.oldest());
                None
            }
            Err(error) => panic!("{error}"),
        };
    }

    fn pull(&mut self, slot: usize, most: usize, model: &Model) {
        let Some(mirror) = &mut self.mirrors[slot] else {
            return;
        };
        match mirror.watch.try_batch(most) {
            Err(lagged) => {
                assert!(lagged.at < self.store.oldest());
                self.mirrors[slot] = None;
            }
            Ok(batch) => {
                for event in &batch.events {
                    let before = event.before().map(|old| (old.revision(), old.value()[0]));
                    assert_eq!(mirror.contents.get(event.key()).copied(), before);
                    match event.after() {
                        Some(new) => drop(
                            mirror
                                .contents
                                .insert(event.key().to_owned(), (new.revision(), new.value()[0])),
                        ),
                        None => drop(mirror.contents.remove(event.key())),
                    }
                }
                assert_eq!(mirror.contents, model.at(batch.through, mirror.prefix));
                assert!(batch.events.len() == most || batch.through == model.revision());
            }
        }
    }

    fn read_past(&self, prefix: &str, back: u64, model: &Model) {
        let revision = model.revision().saturating_sub(back);
        match self.store.snapshot_at(prefix, revision) {
            Ok(snapshot) => assert_eq!(contents(&snapshot), model.at(revision, prefix)),
            Err(_) => assert!(revision < self.store.oldest()),
        }
    }
}

fn revision_of(expect: Expect) -> u64 {
    if let Expect::Revision(revision) = expect {
        revision
    } else {
        0
    }
}

fn contents(snapshot: &edgegrid_store::Snapshot) -> Contents {
    snapshot
        .iter()
        .map(|it| (it.key().to_owned(), (it.revision(), it.value()[0])))
        .collect()
}

impl StateMachineTest for System {
    type SystemUnderTest = System;
    type Reference = Model;

    fn init_test(_: &Model) -> System {
        let limits = Limits {
            events: HISTORY,
            ..Limits::default()
        };
        System {
            store: Store::builder().limits(limits).build(),
            mirrors: [None, None, None],
        }
    }

    fn apply(mut system: System, model: &Model, step: Step) -> System {
        match step {
            Step::Put { key, value, expect } => system.put(KEYS[key], value, expect),
            Step::Delete { key } => drop(system.store.delete(KEYS[key], Expect::Anything).unwrap()),
            Step::Both { put, delete, value } => {
                let write = |key: usize, change| Write {
                    key: KEYS[key].into(),
                    expect: Expect::Anything,
                    change,
                };
                let writes = vec![
                    write(put, Change::Put(vec![value].into())),
                    write(delete, Change::Delete),
                ];
                assert_eq!(system.store.commit(writes).is_ok(), put != delete);
            }
            Step::Compact { back } => system.store.compact(model.revision().saturating_sub(back)),
            Step::Open {
                watcher,
                prefix,
                back,
            } => system.open(watcher, PREFIXES[prefix], back, model),
            Step::Pull { watcher, most } => system.pull(watcher, most, model),
            Step::ReadPast { prefix, back } => system.read_past(PREFIXES[prefix], back, model),
        }
        system
    }

    fn check_invariants(system: &System, model: &Model) {
        assert_eq!(system.store.revision(), model.revision());
        assert_eq!(&contents(&system.store.snapshot()), model.now());
        assert!(system.store.revision() - system.store.oldest() <= HISTORY as u64);
    }

    fn teardown(mut system: System, model: Model) {
        for slot in 0..system.mirrors.len() {
            system.pull(slot, usize::MAX, &model);
            if let Some(mirror) = &system.mirrors[slot] {
                assert_eq!(mirror.contents, model.at(model.revision(), mirror.prefix));
            }
        }
        system.mirrors = [None, None, None];
        assert_eq!(system.store.watched_prefixes(), 0);
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_watcher_that_follows_the_protocol_ends_with_the_stores_state(sequential 1..120 => System);
}
