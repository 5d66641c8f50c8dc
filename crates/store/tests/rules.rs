//! One test for each promise of the store.

use edgegrid_store::{
    Change, CommitError, Expect, Journal, Lagged, Limits, Record, RevisionError, Store, Write,
};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn small(events: usize) -> Store {
    Store::builder()
        .limits(Limits {
            events,
            ..Limits::default()
        })
        .build()
}

fn keys(snapshot: &edgegrid_store::Snapshot) -> Vec<String> {
    snapshot
        .iter()
        .map(|entry| entry.key().to_owned())
        .collect()
}

#[test]
fn a_write_goes_ahead_only_under_its_expectation() {
    let store: Store = Store::default();
    let first = store.put("a", "1", Expect::Absent).unwrap().revision;
    assert!(matches!(
        store.put("a", "2", Expect::Absent),
        Err(CommitError::Conflict { found: Some(found), .. }) if found == first
    ));
    let second = store
        .put("a", "2", Expect::Revision(first))
        .unwrap()
        .revision;
    assert!(store.put("a", "3", Expect::Revision(first)).is_err());
    assert!(store.delete("b", Expect::Present).is_err());
    assert!(store.delete("b", Expect::Anything).unwrap().is_none());
    assert_eq!(
        store.revision(),
        second,
        "what did not happen makes no revision"
    );
    let gone = store
        .delete("a", Expect::Revision(second))
        .unwrap()
        .unwrap();
    assert_eq!(
        (gone.revision, gone.before().unwrap().value().as_ref()),
        (4, b"2".as_ref())
    );
}

#[test]
fn a_transaction_is_all_or_nothing_and_its_changes_are_numbered() {
    let store: Store = Store::default();
    let write = |key: &str, expect, change| Write {
        key: key.into(),
        expect,
        change,
    };
    let refused = store.commit(vec![
        write("a", Expect::Absent, Change::Put("1".into())),
        write("b", Expect::Present, Change::Check),
    ]);
    assert!(refused.is_err());
    assert_eq!((store.revision(), store.get("a").is_some()), (1, false));
    let twice = vec![
        write("a", Expect::Anything, Change::Delete),
        write("a", Expect::Anything, Change::Put("1".into())),
    ];
    assert!(matches!(store.commit(twice), Err(CommitError::Twice(_))));
    let events = store
        .commit(vec![
            write("a", Expect::Absent, Change::Put("1".into())),
            write("c", Expect::Absent, Change::Check),
            write("b", Expect::Absent, Change::Put("1".into())),
        ])
        .unwrap();
    assert_eq!(
        events
            .iter()
            .map(|event| event.revision)
            .collect::<Vec<_>>(),
        [2, 3]
    );
}

#[test]
fn a_list_shows_a_prefix_in_key_order_from_a_start_key() {
    let store: Store = Store::default();
    for key in ["p/b", "p/a", "q/a", "p", "p/", "p0", "p/c"] {
        store.put(key, "", Expect::Absent).unwrap();
    }
    let snapshot = store.snapshot().under("p/");
    assert_eq!(keys(&snapshot), ["p/", "p/a", "p/b", "p/c"]);
    let page: Vec<_> = snapshot
        .iter_from("p/a\0")
        .take(1)
        .map(|entry| entry.key())
        .collect();
    assert_eq!(page, ["p/b"]);
    assert!(
        snapshot.get("q/a").is_none(),
        "outside of the prefix is out of sight"
    );
    assert!(keys(&snapshot.clone().under("q/")).is_empty());
    assert_eq!(snapshot.iter_from("zzz").count(), 0);
}

#[test]
fn the_past_is_readable_until_compaction_and_then_too_old() {
    let store: Store = Store::default();
    store.put("k/a", "1", Expect::Absent).unwrap();
    store.put("k/b", "1", Expect::Absent).unwrap();
    store.put("k/a", "2", Expect::Present).unwrap();
    store.delete("k/b", Expect::Present).unwrap();
    let then = store.snapshot_at("k/", 3).unwrap();
    assert_eq!(
        (then.revision(), keys(&then)),
        (3, vec!["k/a".to_owned(), "k/b".to_owned()])
    );
    assert_eq!(then.get("k/a").unwrap().value().as_ref(), b"1");
    store.compact(4);
    let too_old = RevisionError::TooOld {
        asked: 3,
        oldest: 4,
    };
    assert_eq!(store.snapshot_at("k/", 3).unwrap_err(), too_old);
    assert_eq!(store.watch("k/", 3).unwrap_err(), too_old);
    assert!(store.snapshot_at("k/", 4).is_ok());
    let too_new = RevisionError::TooNew {
        asked: 9,
        current: 5,
    };
    assert_eq!(store.watch("k/", 9).unwrap_err(), too_new);
}

#[test]
fn bytes_bound_the_history_too() {
    let store: Store = Store::builder()
        .limits(Limits {
            events: 1000,
            bytes: 10_000,
        })
        .build();
    for _ in 0..100 {
        store.put("a", vec![0; 1000], Expect::Anything).unwrap();
    }
    let kept = store.revision() - store.oldest();
    assert!((5..10).contains(&kept), "{kept} events of a thousand bytes");
}

#[tokio::test]
async fn a_watch_delivers_the_past_and_then_the_present_without_a_gap() {
    let store: Store = Store::default();
    for revision in 0..2000_u32 {
        store
            .put(
                if revision % 2 == 0 { "x/a" } else { "y/a" },
                "",
                Expect::Anything,
            )
            .unwrap();
    }
    let mut watch = store.watch("x/", 500).unwrap();
    let mut seen = Vec::new();
    while seen.len() < 750 {
        seen.extend(
            watch
                .batch(64)
                .await
                .unwrap()
                .events
                .iter()
                .map(|event| event.revision),
        );
    }
    store.put("x/b", "", Expect::Absent).unwrap();
    seen.extend(
        watch
            .batch(64)
            .await
            .unwrap()
            .events
            .iter()
            .map(|event| event.revision),
    );
    let expected: Vec<u64> = (501..=2001)
        .filter(|revision| revision % 2 == 0)
        .chain([2002])
        .collect();
    assert_eq!(seen, expected);
    store.put("y/b", "", Expect::Absent).unwrap();
    let idle = watch.try_batch(1).unwrap();
    assert!(idle.events.is_empty());
    assert_eq!(idle.through, 2003, "a quiet prefix still makes progress");
}

#[tokio::test]
async fn a_slow_watcher_is_cut_off_and_a_quiet_one_is_not() {
    let store = small(4);
    let mut quiet = store.watch("quiet/", 1).unwrap();
    let mut slow = store.watch("busy/", 1).unwrap();
    for _ in 0..10 {
        store.put("busy/a", "", Expect::Anything).unwrap();
    }
    assert_eq!(slow.try_batch(9).unwrap_err(), Lagged { at: 1, oldest: 7 });
    store.put("quiet/a", "", Expect::Absent).unwrap();
    assert_eq!(quiet.batch(9).await.unwrap().events.len(), 1);
}

#[tokio::test]
async fn a_waiting_watcher_wakes_for_its_prefix_and_leaves_nothing_behind() {
    let store: Store = Store::default();
    let mut watch = store.watch("a/", 1).unwrap();
    let writer = store.clone();
    let (batch, ()) = tokio::join!(watch.batch(9), async {
        writer.put("b/x", "", Expect::Absent).unwrap();
        tokio::task::yield_now().await;
        writer.put("a/x", "", Expect::Absent).unwrap();
    });
    assert_eq!(batch.unwrap().events[0].key(), "a/x");
    let other = store.watch("a/", 1).unwrap();
    drop(watch);
    assert_eq!(store.watched_prefixes(), 1);
    drop(other);
    assert_eq!(store.watched_prefixes(), 0);
}

#[tokio::test]
async fn reached_returns_once_the_revision_is_made() {
    let store: Store = Store::default();
    let writer = store.clone();
    tokio::join!(store.reached(3), async {
        writer.put("a", "", Expect::Absent).unwrap();
        tokio::task::yield_now().await;
        writer.put("b", "", Expect::Absent).unwrap();
    });
    store.reached(1).await;
}

#[test]
fn a_memo_is_computed_once_for_each_version() {
    static COMPUTED: AtomicUsize = AtomicUsize::new(0);
    let store: Store<String> = Store::default();
    store.put("a", "x", Expect::Absent).unwrap();
    for _ in 0..3 {
        let entry = store.get("a").unwrap();
        let memo = entry.memo(|entry| {
            COMPUTED.fetch_add(1, Ordering::Relaxed);
            format!("{}@{}", entry.key(), entry.revision())
        });
        assert_eq!(memo, "a@2");
    }
    assert_eq!(COMPUTED.load(Ordering::Relaxed), 1);
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<(u64, String, bool)>>>);

impl Journal for Notes {
    fn append(&mut self, transaction: &[Record<'_>]) -> io::Result<()> {
        if transaction.iter().any(|record| record.key == "bad") {
            return Err(io::Error::other("disk is full"));
        }
        self.0
            .lock()
            .map_err(|_| io::Error::other("poisoned"))?
            .extend(
                transaction
                    .iter()
                    .map(|it| (it.revision, it.key.to_owned(), it.value.is_some())),
            );
        Ok(())
    }
}

#[test]
fn a_journal_sees_every_change_and_can_refuse_one() {
    let notes = Notes::default();
    let store: Store = Store::builder().journal(notes.clone()).build();
    store.put("a", "1", Expect::Absent).unwrap();
    assert!(matches!(
        store.put("bad", "1", Expect::Absent),
        Err(CommitError::Journal(_))
    ));
    store.delete("a", Expect::Present).unwrap();
    assert_eq!(
        *notes.0.lock().unwrap(),
        [(2, "a".to_owned(), true), (3, "a".to_owned(), false)]
    );
    assert_eq!(
        store.revision(),
        3,
        "a refused change leaves the store as it was"
    );
}

#[test]
fn a_restart_goes_on_after_the_revision_it_is_given() {
    let value = "1".into();
    let record = Record {
        revision: 70,
        created: 60,
        key: "a",
        value: Some(&value),
    };
    let store: Store = Store::builder().entry(record).after(50).build();
    assert_eq!((store.revision(), store.oldest()), (70, 70));
    assert_eq!(
        store.watch("", 69).unwrap_err(),
        RevisionError::TooOld {
            asked: 69,
            oldest: 70
        }
    );
    let event = store.put("a", "2", Expect::Revision(70)).unwrap();
    assert_eq!((event.revision, event.after().unwrap().created()), (71, 60));
    let last: Store = Store::builder().after(u64::MAX).build();
    assert!(matches!(
        last.put("a", "", Expect::Absent),
        Err(CommitError::Exhausted(_))
    ));
}
