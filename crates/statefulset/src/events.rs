//! Records events without flooding users or the API server: with the limits of client-go's recorder.
//!
//! Ten similar events in ten minutes are recorded one by one, the rest in one that counts; and one set may
//! have twenty-five events at once and then one every five minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use edgegrid_runtime::Fence;
use edgegrid_runtime::logging::chain;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{ApiResource, Patch};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::calls::Calls;
use crate::config::Clock;
use crate::names::{COMPONENT, SET_API_VERSION, SET_KIND};
use crate::rules::{Notice, Set};

/// Events that may wait to be written; more are dropped, as in client-go.
const QUEUE_LENGTH: usize = 1000;
const SIMILAR: usize = 10;
const SIMILAR_FOR: SignedDuration = SignedDuration::from_mins(10);
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;
/// Groups of events that are remembered.
const MAX_GROUPS: usize = 4096;

/// Takes events to record.
#[derive(Clone)]
pub(crate) struct Events(mpsc::Sender<(Arc<Set>, Notice)>);

/// Events that wait to be written.
pub(crate) type Pending = mpsc::Receiver<(Arc<Set>, Notice)>;

impl Events {
    pub(crate) fn new() -> (Self, Pending) {
        let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
        (Self(sender), receiver)
    }

    pub(crate) fn record(&self, set: &Arc<Set>, notice: Notice) {
        if notice.is_warning {
            tracing::warn!(
                namespace = set.namespace,
                set = set.name,
                reason = notice.reason,
                "{}",
                notice.message
            );
        } else {
            tracing::info!(
                namespace = set.namespace,
                set = set.name,
                reason = notice.reason,
                "{}",
                notice.message
            );
        }
        if self.0.try_send((set.clone(), notice)).is_err() {
            let (namespace, set) = (&set.namespace, &set.name);
            tracing::debug!(namespace, set, "event queue full, dropping event");
        }
    }
}

/// Writes events until there is nobody left who could record one.
pub(crate) async fn write_events(client: Client, fence: Fence, mut pending: Pending, clock: Clock) {
    let mut correlator = Correlator::default();
    let kind = ApiResource::erase::<Event>(&());
    while let Some((set, notice)) = pending.recv().await {
        let now = clock();
        let Some(posting) = correlator.correlate(&set, &notice, now) else {
            continue;
        };
        let calls = Calls {
            client: &client,
            fence: &fence,
            namespace: &set.namespace,
        };
        let written = if posting.count > 1 {
            let patch = json!({ "count": posting.count, "lastTimestamp": stamp(now), "message": posting.message });
            calls
                .patch(&kind, &posting.name, Patch::Merge(&patch))
                .await
        } else {
            calls
                .create(&kind, &posting.name, &event(&set, &notice, &posting, now))
                .await
        };
        if let Err(error) = written {
            let (namespace, set, error) = (&set.namespace, &set.name, chain(&error));
            tracing::debug!(namespace, set, error, "cannot write event");
        }
    }
}

/// An event to write: a new one, or a known one with its count.
#[derive(Debug, PartialEq, Eq)]
struct Posting {
    name: String,
    count: i64,
    message: String,
}

#[derive(Default)]
struct Correlator {
    groups: BTreeMap<(String, bool, String), Group>,
    buckets: BTreeMap<String, Bucket>,
    /// Counts all events, for the names of new ones.
    count: u64,
}

/// Events that differ in their message only.
struct Group {
    messages: BTreeSet<String>,
    last: Timestamp,
    /// Name and count of what was written, by message; combined events have none.
    written: BTreeMap<Option<String>, (String, i64)>,
}

struct Bucket {
    tokens: f64,
    filled: Timestamp,
}

impl Correlator {
    fn correlate(&mut self, set: &Set, notice: &Notice, now: Timestamp) -> Option<Posting> {
        if self.groups.len() > MAX_GROUPS || self.buckets.len() > MAX_GROUPS {
            self.groups.clear();
            self.buckets.clear();
        }
        let key = (set.uid.clone(), notice.is_warning, notice.reason.clone());
        let group = self.groups.entry(key).or_insert_with(|| Group {
            messages: BTreeSet::new(),
            last: now,
            written: BTreeMap::new(),
        });
        if now.duration_since(group.last) > SIMILAR_FOR {
            group.messages.clear();
        }
        group.last = now;
        group.messages.insert(notice.message.clone());
        let is_alone = group.messages.len() < SIMILAR;
        if !is_alone {
            group.messages.pop_first();
        }
        self.count += 1;
        let fresh = format!(
            "{}.{:x}",
            set.name,
            now.as_nanosecond() + i128::from(self.count)
        );
        let written = group
            .written
            .entry(is_alone.then(|| notice.message.clone()))
            .or_insert((fresh, 0));
        written.1 += 1;
        let posting = Posting {
            name: written.0.clone(),
            count: written.1,
            message: if is_alone {
                notice.message.clone()
            } else {
                format!("(combined from similar events): {}", notice.message)
            },
        };
        self.take_token(&set.uid, now).then_some(posting)
    }

    fn take_token(&mut self, uid: &str, now: Timestamp) -> bool {
        let bucket = self.buckets.entry(uid.to_owned()).or_insert(Bucket {
            tokens: BURST,
            filled: now,
        });
        let passed = now.duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = (bucket.tokens + passed / REFILL_SECONDS).min(BURST);
        bucket.filled = now;
        let is_allowed = bucket.tokens >= 1.0;
        bucket.tokens -= f64::from(u8::from(is_allowed));
        is_allowed
    }
}

fn event(set: &Set, notice: &Notice, posting: &Posting, now: Timestamp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": posting.name, "namespace": set.namespace },
        "involvedObject": {
            "apiVersion": SET_API_VERSION, "kind": SET_KIND, "namespace": set.namespace, "name": set.name,
            "uid": set.uid, "resourceVersion": set.version.to_string(),
        },
        "type": if notice.is_warning { "Warning" } else { "Normal" },
        "reason": notice.reason,
        "message": posting.message,
        "source": { "component": COMPONENT },
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "count": 1,
        "firstTimestamp": stamp(now),
        "lastTimestamp": stamp(now),
    })
}

/// Whole seconds, as Kubernetes' times are.
fn stamp(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;

    use super::*;

    fn set() -> Set {
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "ns", "uid": "u" },
            "spec": { "selector": { "matchLabels": { "a": "b" } } },
        }))
        .unwrap();
        Set::parse(&object).unwrap()
    }

    fn notice(message: &str) -> Notice {
        Notice {
            is_warning: false,
            reason: "SuccessfulCreate".into(),
            message: message.into(),
        }
    }

    #[test]
    fn the_same_event_is_counted_instead_of_written_again() {
        let (mut correlator, set) = (Correlator::default(), set());
        let now = Timestamp::UNIX_EPOCH;
        let first = correlator.correlate(&set, &notice("a"), now).unwrap();
        let second = correlator.correlate(&set, &notice("a"), now).unwrap();
        assert_eq!((first.count, second.count), (1, 2));
        assert_eq!(first.name, second.name);
        let other = correlator.correlate(&set, &notice("b"), now).unwrap();
        assert_ne!(other.name, first.name);
    }

    #[test]
    fn many_similar_events_become_one_that_counts_and_time_forgets() {
        let (mut correlator, set) = (Correlator::default(), set());
        let mut now = Timestamp::UNIX_EPOCH;
        for number in 0..9 {
            let event = correlator.correlate(&set, &notice(&number.to_string()), now);
            assert_eq!(event.unwrap().message, number.to_string());
        }
        let tenth = correlator.correlate(&set, &notice("9"), now).unwrap();
        let next = correlator.correlate(&set, &notice("10"), now).unwrap();
        assert_eq!(tenth.message, "(combined from similar events): 9");
        assert_eq!((tenth.count, next.count), (1, 2));
        now += SignedDuration::from_mins(11);
        let later = correlator.correlate(&set, &notice("11"), now).unwrap();
        assert_eq!(later.message, "11");
    }

    #[test]
    fn a_set_has_twenty_five_events_at_once_and_then_one_in_five_minutes() {
        let (mut correlator, set) = (Correlator::default(), set());
        let mut now = Timestamp::UNIX_EPOCH;
        let allowed = (0..40).filter(|_| correlator.correlate(&set, &notice("a"), now).is_some());
        assert_eq!(allowed.count(), 25);
        now += SignedDuration::from_mins(5);
        assert!(correlator.correlate(&set, &notice("a"), now).is_some());
        assert!(correlator.correlate(&set, &notice("a"), now).is_none());
    }
}
