//! Tells people what happened, once per change of state.
//!
//! Every pass finds again what is wrong; an Event is worth writing when it was not so in the
//! pass before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use edgegrid_plan::{Level, Notice};
use edgegrid_runtime::executor::Executor;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tracing::{info, warn};

use crate::queue::ObjectKey;

/// The action that every Event names.
const ACTION: &str = "Reconcile";

/// Publishes the notices of one controller.
#[derive(Clone)]
pub struct Notifier {
    recorder: Recorder,
    executor: Executor,
    published: Arc<Mutex<BTreeMap<ObjectKey, BTreeSet<Notice>>>>,
}

impl Notifier {
    /// A notifier whose Events name `component` as their source.
    pub fn new(client: Client, executor: Executor, component: &str) -> Self {
        let reporter = Reporter {
            controller: component.into(),
            instance: None,
        };
        Self {
            recorder: Recorder::new(client, reporter),
            executor,
            published: Arc::default(),
        }
    }

    /// Publishes the notices of a pass that the pass before did not have.
    pub async fn notify(&self, key: &ObjectKey, about: &ObjectReference, notices: &[Notice]) {
        for notice in self.unpublished(key, notices) {
            log(about, &notice);
            if self.executor.fence().check().is_err() {
                continue; // the new leader publishes it
            }
            if let Err(error) = self.recorder.publish(&event(&notice), about).await {
                warn!(kind = about.kind, name = about.name, reason = notice.reason, %error, "cannot record event");
            }
        }
    }

    fn unpublished(&self, key: &ObjectKey, notices: &[Notice]) -> Vec<Notice> {
        let now: BTreeSet<Notice> = notices.iter().cloned().collect();
        let mut published = self.published();
        let before = published.remove(key).unwrap_or_default();
        if !now.is_empty() {
            published.insert(key.clone(), now.clone());
        }
        now.difference(&before).cloned().collect()
    }

    fn published(&self) -> parking_lot::MutexGuard<'_, BTreeMap<ObjectKey, BTreeSet<Notice>>> {
        self.published.lock()
    }
}

fn log(about: &ObjectReference, notice: &Notice) {
    let (kind, name) = (about.kind.as_deref(), about.name.as_deref());
    let (namespace, reason, message) = (about.namespace.as_deref(), notice.reason, &notice.message);
    match notice.level {
        Level::Normal => info!(kind, namespace, name, reason, "{message}"),
        Level::Warning => warn!(kind, namespace, name, reason, "{message}"),
    }
}

fn event(notice: &Notice) -> Event {
    Event {
        type_: match notice.level {
            Level::Normal => EventType::Normal,
            Level::Warning => EventType::Warning,
        },
        reason: notice.reason.into(),
        note: Some(bounded(&notice.message)),
        action: ACTION.into(),
        secondary: None,
    }
}

/// Kubernetes refuses notes of more than 1024 bytes.
fn bounded(message: &str) -> String {
    const MOST: usize = 1024;
    const MORE: &str = " …";
    if message.len() <= MOST {
        return message.into();
    }
    let mut end = MOST - MORE.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MORE}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::bounded;

    #[test]
    fn a_note_is_cut_between_characters_to_what_kubernetes_takes() {
        assert_eq!(bounded("short"), "short");
        let cut = bounded(&"单元".repeat(400));
        assert!(cut.len() <= 1024 && cut.ends_with('…'), "{}", cut.len());
    }
}
