//! Telling users, without flooding them or the API server: the same limits as client-go's recorder.
//!
//! Ten similar events in ten minutes are told one by one, the rest in one that counts; and one set has
//! twenty-five events at once and then one every five minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use edgegrid_runtime::Fence;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{ApiResource, Patch};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::calls::Calls;
use crate::controller::Clock;
use crate::names::{COMPONENT, SET_API_VERSION, SET_KIND};
use crate::rules::{Notice, Set};

/// More than this waiting to be told are dropped, as in Kubernetes.
const QUEUE: usize = 1000;
const SIMILAR: usize = 10;
const SIMILAR_FOR: SignedDuration = SignedDuration::from_mins(10);
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;
/// Groups of events that are remembered.
const MEMORY: usize = 4096;

/// Where events are handed in.
#[derive(Clone)]
pub(crate) struct Events(mpsc::Sender<(Arc<Set>, Notice)>);

/// Events that wait to be told.
pub(crate) type Waiting = mpsc::Receiver<(Arc<Set>, Notice)>;

impl Events {
    pub(crate) fn new() -> (Self, Waiting) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self(sender), receiver)
    }

    pub(crate) fn tell(&self, set: &Arc<Set>, notice: Notice) {
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
            tracing::debug!("too many events at once, one is not told");
        }
    }
}

/// Tells events until nobody hands in any more.
pub(crate) async fn tell_all(client: Client, fence: Fence, mut waiting: Waiting, clock: Clock) {
    let mut correlator = Correlator::default();
    let kind = ApiResource::erase::<Event>(&());
    while let Some((set, notice)) = waiting.recv().await {
        let now = clock();
        let Some(posting) = correlator.admit(&set, &notice, now) else {
            continue;
        };
        let calls = Calls {
            client: &client,
            fence: &fence,
            namespace: &set.namespace,
        };
        let told = if posting.count > 1 {
            let patch = json!({ "count": posting.count, "lastTimestamp": stamp(now), "message": posting.message });
            calls
                .patch(&kind, &posting.name, Patch::Merge(&patch))
                .await
        } else {
            calls
                .create(&kind, &posting.name, &event(&set, &notice, &posting, now))
                .await
        };
        if let Err(error) = told {
            tracing::debug!(%error, "event not told");
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
    told: u64,
}

/// Events that differ in their message only.
struct Group {
    messages: BTreeSet<String>,
    last: Timestamp,
    /// Name and count of what was told, by message; those told together have none.
    told: BTreeMap<Option<String>, (String, i64)>,
}

struct Bucket {
    tokens: f64,
    filled: Timestamp,
}

impl Correlator {
    fn admit(&mut self, set: &Set, notice: &Notice, now: Timestamp) -> Option<Posting> {
        if self.groups.len() > MEMORY || self.buckets.len() > MEMORY {
            self.groups.clear();
            self.buckets.clear();
        }
        let key = (set.uid.clone(), notice.is_warning, notice.reason.clone());
        let group = self.groups.entry(key).or_insert_with(|| Group {
            messages: BTreeSet::new(),
            last: now,
            told: BTreeMap::new(),
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
        self.told += 1;
        let fresh = format!(
            "{}.{:x}",
            set.name,
            now.as_nanosecond() + i128::from(self.told)
        );
        let told = group
            .told
            .entry(is_alone.then(|| notice.message.clone()))
            .or_insert((fresh, 0));
        told.1 += 1;
        let posting = Posting {
            name: told.0.clone(),
            count: told.1,
            message: if is_alone {
                notice.message.clone()
            } else {
                format!("(combined from similar events): {}", notice.message)
            },
        };
        self.has_token(&set.uid, now).then_some(posting)
    }

    fn has_token(&mut self, uid: &str, now: Timestamp) -> bool {
        let bucket = self.buckets.entry(uid.to_owned()).or_insert(Bucket {
            tokens: BURST,
            filled: now,
        });
        let passed = now.duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = (bucket.tokens + passed / REFILL_SECONDS).min(BURST);
        bucket.filled = now;
        let has = bucket.tokens >= 1.0;
        bucket.tokens -= f64::from(u8::from(has));
        has
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
    fn the_same_event_is_counted_instead_of_told_again() {
        let (mut correlator, set) = (Correlator::default(), set());
        let now = Timestamp::UNIX_EPOCH;
        let first = correlator.admit(&set, &notice("a"), now).unwrap();
        let second = correlator.admit(&set, &notice("a"), now).unwrap();
        assert_eq!((first.count, second.count), (1, 2));
        assert_eq!(first.name, second.name);
        let other = correlator.admit(&set, &notice("b"), now).unwrap();
        assert_ne!(other.name, first.name);
    }

    #[test]
    fn many_similar_events_become_one_that_counts_and_time_forgets() {
        let (mut correlator, set) = (Correlator::default(), set());
        let mut now = Timestamp::UNIX_EPOCH;
        for number in 0..9 {
            let told = correlator.admit(&set, &notice(&number.to_string()), now);
            assert_eq!(told.unwrap().message, number.to_string());
        }
        let tenth = correlator.admit(&set, &notice("9"), now).unwrap();
        let next = correlator.admit(&set, &notice("10"), now).unwrap();
        assert_eq!(tenth.message, "(combined from similar events): 9");
        assert_eq!((tenth.count, next.count), (1, 2));
        now += SignedDuration::from_mins(11);
        let later = correlator.admit(&set, &notice("11"), now).unwrap();
        assert_eq!(later.message, "11");
    }

    #[test]
    fn a_set_has_twenty_five_events_at_once_and_then_one_in_five_minutes() {
        let (mut correlator, set) = (Correlator::default(), set());
        let mut now = Timestamp::UNIX_EPOCH;
        let told = (0..40).filter(|_| correlator.admit(&set, &notice("a"), now).is_some());
        assert_eq!(told.count(), 25);
        now += SignedDuration::from_mins(5);
        assert!(correlator.admit(&set, &notice("a"), now).is_some());
        assert!(correlator.admit(&set, &notice("a"), now).is_none());
    }
}
