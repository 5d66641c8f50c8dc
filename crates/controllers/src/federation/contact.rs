//! Whether this member's control cluster answers, and how people in the member hear that it does not: a condition on every
//! grid that came from there, an Event about the Secret, a metric.

use std::time::Duration;

use edgegrid_api::names::{component, parent_secret, reason};
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::Notice;
use edgegrid_plan::failure::Trouble;
use edgegrid_plan::federation::contact::{PATIENCE, RENEWAL};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::warn;

use super::ask_for_followers;
use crate::context::Context;
use crate::notify::Notifier;
use crate::queue::Key;

/// A renewal that failed is tried again after this time.
const RENEW_AGAIN: Duration = Duration::from_secs(5);

/// How it stands.
pub(super) struct Contact {
    notifier: Notifier,
    /// Since when there is no answer.
    since: Option<Timestamp>,
}

impl Contact {
    pub(super) fn new(context: &Context) -> Self {
        let executor = context.execution.executor.clone();
        Self {
            notifier: Notifier::new(context.client.clone(), executor, component::MEMBER),
            since: None,
        }
    }

    /// The control cluster answered; says when to ask again.
    pub(super) async fn kept(&mut self, context: &Context) -> Duration {
        self.since = None;
        self.tell(context, None).await;
        RENEWAL
    }

    /// It did not, or refused; says when to ask again.
    pub(super) async fn failed(&mut self, context: &Context, error: &str) -> Duration {
        let now = (context.clock)();
        if self.since.is_none() {
            warn!(%error, "the control cluster does not hear of this member");
        }
        let since = *self.since.get_or_insert(now);
        let silence = Duration::try_from(since.duration_until(now)).unwrap_or_default();
        if silence >= PATIENCE && context.federation.heard.lost().is_none() {
            let message = format!(
                "the control cluster is out of contact since {since}, all stays as it was last: {error}"
            );
            let trouble = Trouble::new(reason::OUT_OF_CONTACT, message);
            self.tell(context, Some(trouble)).await;
        }
        RENEW_AGAIN
    }

    async fn tell(&self, context: &Context, trouble: Option<Trouble>) {
        if context.federation.heard.lost() == trouble {
            return;
        }
        let warning = |trouble: &Trouble| Notice::warning(trouble.reason, trouble.message.clone());
        let notices: Vec<Notice> = trouble.iter().map(warning).collect();
        let is_lost = i64::from(trouble.is_some());
        context.metrics.control_cluster_lost.set(is_lost);
        context.federation.heard.lose(trouble);
        ask_for_followers::<DeploymentGrid>(context);
        ask_for_followers::<StatefulSetGrid>(context);
        ask_for_followers::<ServiceGrid>(context);
        let (key, about) = secret();
        self.notifier.notify(&key, &about, &notices).await;
    }
}

/// What makes this cluster a member.
fn secret() -> (Key, ObjectReference) {
    let (namespace, name) = (parent_secret::NAMESPACE, parent_secret::NAME);
    let about = ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Secret".into()),
        namespace: Some(namespace.into()),
        name: Some(name.into()),
        ..ObjectReference::default()
    };
    ((namespace.into(), name.into()), about)
}
