//! What a controller remembers of a grid between two passes. Losing it costs a few calls and no more:
//! everything that matters is in the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use edgegrid_plan::failure::{Failures, Refusal};
use edgegrid_plan::grid_state::SettledAt;
use edgegrid_plan::grid_status::status_pause;
use edgegrid_plan::step::RECHECK_INTERVAL;
use edgegrid_runtime::executor::{Class, WriteError};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::queue::ObjectKey;

/// What is remembered of one grid.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The grid it is about: one of the same name that came later is another.
    uid: String,
    /// Writes that failed, and when to repeat them.
    pub(crate) failures: Failures,
    /// Workloads and Services that were found as wanted, by name.
    pub(crate) settled: BTreeMap<String, SettledAt>,
    /// Names of the grid's own objects after the last pass; `None` before the first.
    pub(crate) known: Option<BTreeSet<String>>,
    /// Uids of objects that we deleted and the caches still show.
    pub(crate) deleted: BTreeSet<String>,
    /// Names that others have.
    foreign: BTreeMap<String, String>,
    scanned: Option<Instant>,
    written: Option<Written>,
    unreported: Option<Unreported>,
}

/// What is to be reported and was not yet.
#[derive(Debug)]
struct Unreported {
    /// Tells one report from another.
    id: String,
    /// Since when it is this one.
    since: Instant,
    /// Since when there is any.
    first: Instant,
}

/// A report is written when nothing new came for this time: one change makes several within a second or two.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// And after this time whatever comes.
const DEBOUNCE_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Written {
    at: Instant,
    pause: Duration,
}

impl Memory {
    /// The names that others have, as far as that was seen lately.
    pub(crate) fn foreign(&self) -> BTreeMap<String, String> {
        match self.scanned {
            Some(scanned) if scanned.elapsed() < RECHECK_INTERVAL => self.foreign.clone(),
            _ => BTreeMap::new(),
        }
    }

    /// Notes what a scan of the names showed.
    pub(crate) fn set_foreign(&mut self, foreign: BTreeMap<String, String>) {
        self.foreign = foreign;
        self.scanned = Some(Instant::now());
    }

    /// How long the next status has to wait; `None` if it may be written now.
    pub(crate) fn status_wait(&self) -> Option<Duration> {
        let written = self.written.as_ref()?;
        let left = (written.at + written.pause).saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// How long a report to another cluster should wait for the next one; `None` if it may be written now.
    pub(crate) fn report_wait(&mut self, id: &str) -> Option<Duration> {
        let now = Instant::now();
        let last = self.unreported.take();
        let first = last.as_ref().map_or(now, |last| last.first);
        let since = last.filter(|last| last.id == id);
        let since = since.map_or(now, |same| same.since);
        self.unreported = Some(Unreported {
            id: id.to_owned(),
            since,
            first,
        });
        let due = (since + DEBOUNCE).min(first + DEBOUNCE_MAX);
        let left = due.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Notes a status that was written.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.unreported = None;
        self.written = Some(Written {
            at: Instant::now(),
            pause: status_pause(bytes),
        });
    }
}

/// The memories of one controller.
#[derive(Clone, Default)]
pub(crate) struct Memories(Arc<Mutex<BTreeMap<ObjectKey, Memory>>>);

impl Memories {
    /// Takes the memory of a grid for one pass; passes over one grid never overlap.
    pub(crate) fn take(&self, grid: &ObjectKey, uid: &str) -> Memory {
        let known = self.lock().remove(grid).filter(|memory| memory.uid == uid);
        known.unwrap_or_else(|| Memory {
            uid: uid.to_owned(),
            ..Memory::default()
        })
    }

    /// Puts it back; memories of grids that are no more go.
    pub(crate) fn put(&self, grid: ObjectKey, memory: Memory, exists: impl Fn(&ObjectKey) -> bool) {
        let mut memories = self.lock();
        let is_new = memories.insert(grid, memory).is_none();
        if is_new && memories.len().is_power_of_two() {
            memories.retain(|grid, _| exists(grid));
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Memory>> {
        self.0.lock()
    }
}

/// A failed write as plans know it; `None` if nothing was tried.
pub(crate) fn refusal(error: &WriteError) -> Option<Refusal> {
    let message = error.to_string();
    Some(match &error.class {
        Class::NotLeader => return None,
        Class::Conflict(_) | Class::NotFound | Class::AlreadyExists => Refusal::Conflict(message),
        Class::Invalid { causes, .. }
            if causes.iter().any(|cause| cause.field == "metadata.uid") =>
        {
            Refusal::Conflict(message) // another object has the name by now
        }
        Class::Invalid { causes, .. } => Refusal::Invalid {
            message,
            causes: causes
                .iter()
                .map(|cause| (cause.field.clone(), cause.reason.clone()))
                .collect(),
        },
        Class::SchemaMismatch { paths, message } => Refusal::SchemaMismatch {
            message: message.clone(),
            paths: paths.clone(),
        },
        Class::NoAnswer | Class::Transport(_) => Refusal::NoAnswer(message),
        Class::Malformed(_)
        | Class::Forbidden(_)
        | Class::TooManyRequests(_)
        | Class::Refused(_) => Refusal::Refused(message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_big_status_is_written_less_often() {
        let mut memory = Memory::default();
        assert_eq!(memory.status_wait(), None);
        memory.wrote(100);
        assert_eq!(memory.status_wait(), Some(Duration::from_secs(1)));
        memory.wrote(500 * 1024);
        assert_eq!(memory.status_wait(), Some(Duration::from_secs(10)));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(memory.status_wait(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_waits_for_the_next_one_but_not_for_ever() {
        let mut memory = Memory::default();
        assert_eq!(memory.report_wait("first"), Some(DEBOUNCE));
        tokio::time::advance(DEBOUNCE).await;
        assert_eq!(memory.report_wait("first"), None);
        assert_eq!(memory.report_wait("second"), Some(DEBOUNCE));
        tokio::time::advance(DEBOUNCE_MAX).await;
        assert_eq!(memory.report_wait("third"), None);
        memory.wrote(100);
        assert_eq!(memory.report_wait("fourth"), Some(DEBOUNCE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_others_had_is_looked_at_again_after_a_while() {
        let mut memory = Memory::default();
        memory.set_foreign(BTreeMap::from([("web-a".into(), "no controller".into())]));
        assert_eq!(memory.foreign().len(), 1);
        tokio::time::advance(RECHECK_INTERVAL).await;
        assert!(memory.foreign().is_empty());
    }

    #[tokio::test]
    async fn a_grid_of_the_same_name_that_came_later_starts_anew() {
        let memories = Memories::default();
        let key: ObjectKey = ("shop".into(), "web".into());
        let mut memory = memories.take(&key, "first");
        memory.set_foreign(BTreeMap::from([("web-a".into(), "x".into())]));
        memories.put(key.clone(), memory, |_| true);
        assert!(memories.take(&key, "second").foreign().is_empty());
    }
}
