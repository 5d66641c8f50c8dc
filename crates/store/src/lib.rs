//! A revisioned key-value log: one number that only grows, and everything said in terms of it.
//!
//! Every write gets the next revision. A reader takes a [`Snapshot`] (now, or at a past revision)
//! and goes on from there with a [`Watch`], which delivers each later change exactly once and in
//! order. The past is bounded: what [`Limits`] no longer keep is *too old*, a typed error, and a
//! watcher that falls that far behind is cut off instead of being waited for.
//!
//! ```text
//!            ┌ writer lock ┐   ┌─────────────── state (held for microseconds) ──────────────┐
//! commit ───►│  Journal    │──►│ entries: persistent map   history: events   topics: indices │
//!            └─────────────┘   └──────┬──────────────────────────┬─────────────────┬─────────┘
//!                                     ▼ O(1) clone               ▼ pulled by       ▼ wakes
//!                                  Snapshot                    Watch ◄─────────────┘
//! ```
//!
//! Why these structures:
//! - The entries are an [`imbl`] ordered map. A snapshot is a reference count, so a list of any
//!   size holds no lock while it is read. Measured at 10,000 keys: an update costs 0.35 µs (0.19 µs
//!   for `BTreeMap`), 1.8 µs while a snapshot is out; copying a whole `BTreeMap` costs 430 µs.
//! - A past revision is the present with the later events undone, so no old roots are kept: the
//!   history costs one pointer and the replaced value for each event, not a path of tree nodes.
//! - Watchers pull from the shared history. One that does not read costs nothing; a *topic* per
//!   watched prefix lists the revisions that concern it, so nobody scans or wakes for others' keys.
//!
//! The store knows nothing of what it holds: values are bytes, and a memo of the reader's own type
//! can be hung on each stored version, computed once however many readers need it.
//!
//! ```
//! use edgegrid_store::{Expect, Store};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let store: Store = Store::default();
//! store.put("fruit/apple", "red", Expect::Absent).unwrap();
//!
//! let snapshot = store.snapshot().under("fruit/");
//! let mut watch = store.watch("fruit/", snapshot.revision()).unwrap();
//! store.put("fruit/pear", "green", Expect::Anything).unwrap();
//!
//! let batch = watch.batch(16).await.unwrap();
//! assert_eq!(batch.events[0].key(), "fruit/pear");
//! assert_eq!(batch.through, store.revision());
//! assert_eq!(snapshot.iter().count(), 1, "a snapshot does not move");
//! # });
//! ```

mod commit;
mod entry;
mod history;
mod shared;
mod snapshot;
mod state;
mod store;
mod topic;
mod watch;

pub use commit::{Change, CommitError, Expect, Journal, Record, Write};
pub use entry::{Entry, Event, Transition};
pub use history::{Limits, RevisionError};
pub use snapshot::Snapshot;
pub use store::{Builder, Store};
pub use watch::{Batch, Lagged, Watch};
