//! Renews this member's Lease in the control cluster, by which that knows the member is in contact, and shows in
//! the member when it cannot: a condition on every grid that came from there, an Event about the Secret, a metric.

use std::time::Duration;

use edgegrid_api::names::{MEMBER_LEASE, annotation, component, manager, parent_secret, reason};
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::failure::Problem;
use edgegrid_plan::federation::contact::{LEASE_DURATION, RENEW_INTERVAL};
use edgegrid_plan::{Notice, ObjectId, ObjectKind};
use edgegrid_runtime::logging::chain;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::Api;
use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::control_cluster::ControlCluster;
use super::enqueue_followers;
use crate::context::Context;
use crate::execute::target;
use crate::notify::Notifier;
use crate::queue::ObjectKey;

/// A renewal that failed is tried again after this time.
const RETRY: Duration = Duration::from_secs(5);
/// A renewal that is not answered for this long has failed.
const RENEW_TIMEOUT: Duration = Duration::from_secs(20);
/// Most grids that the Lease names.
const MISSING_SHOWN: usize = 10;

/// Renews the Lease, for ever.
pub(super) async fn run(context: &Context, control: &ControlCluster) {
    let mut renewals = Renewals::new(context);
    loop {
        let wait = match timeout(RENEW_TIMEOUT, renew(context, control)).await {
            Ok(Ok(())) => renewals.succeeded(context).await,
            Ok(Err(error)) => renewals.failed(context, &chain(&*error)).await,
            Err(_) => renewals.failed(context, "timed out").await,
        };
        sleep(wait).await;
    }
}

async fn renew(
    context: &Context,
    control: &ControlCluster,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let leases: Api<Lease> = Api::namespaced(control.client.clone(), &control.namespace);
    let lease = leases.get_metadata(MEMBER_LEASE).await?;
    let id = ObjectId::namespaced(ObjectKind::Lease, &control.namespace, MEMBER_LEASE);
    let now = MicroTime((context.clock)());
    let mut body = json!({ "spec": { "holderIdentity": control.namespace, "renewTime": now } });
    let missing = context.federation.missing.all();
    if !missing.is_empty() {
        let name = |(kind, (namespace, name)): &(ObjectKind, ObjectKey)| {
            format!("{} {namespace}/{name}", kind.name())
        };
        let mut names: Vec<String> = missing.iter().take(MISSING_SHOWN).map(name).collect();
        if let Some(more) = missing
            .len()
            .checked_sub(MISSING_SHOWN)
            .filter(|more| *more > 0)
        {
            names.push(format!("and {more} more"));
        }
        body["metadata"] = json!({ "annotations": { annotation::MISSING: names.join(", ") } });
    }
    let uid = lease.metadata.uid.as_deref();
    control
        .executor
        .apply(&target(&id), &body, manager::MEMBER, uid)
        .await?;
    Ok(())
}

/// Whether renewals succeed, and what was published about it.
struct Renewals {
    notifier: Notifier,
    /// Since when there is no answer.
    since: Option<Timestamp>,
}

impl Renewals {
    fn new(context: &Context) -> Self {
        let executor = context.execution.executor.clone();
        Self {
            notifier: Notifier::new(context.client.clone(), executor, component::MEMBER),
            since: None,
        }
    }

    /// The control cluster answered; returns when to renew again.
    async fn succeeded(&mut self, context: &Context) -> Duration {
        self.since = None;
        self.set_error(context, None).await;
        RENEW_INTERVAL
    }

    /// The control cluster did not answer, or refused; returns when to try again.
    async fn failed(&mut self, context: &Context, error: &str) -> Duration {
        let now = (context.clock)();
        if self.since.is_none() {
            warn!(%error, "cannot renew member lease in the control cluster, retrying");
        }
        let since = *self.since.get_or_insert(now);
        let silence = Duration::try_from(since.duration_until(now)).unwrap_or_default();
        if silence >= LEASE_DURATION && context.federation.control_link.error().is_none() {
            let message = format!(
                "control cluster unreachable since {since}, this cluster keeps what it has: {error}"
            );
            let problem = Problem::new(reason::OUT_OF_CONTACT, message);
            self.set_error(context, Some(problem)).await;
        }
        RETRY
    }

    async fn set_error(&self, context: &Context, problem: Option<Problem>) {
        let link = &context.federation.control_link;
        if link.error() == problem {
            return;
        }
        let warning = |problem: &Problem| Notice::warning(problem.reason, problem.message.clone());
        let notices: Vec<Notice> = problem.iter().map(warning).collect();
        let is_lost = i64::from(problem.is_some());
        context.metrics.control_cluster_lost.set(is_lost);
        link.set_error(problem);
        enqueue_followers::<DeploymentGrid>(context);
        enqueue_followers::<StatefulSetGrid>(context);
        enqueue_followers::<ServiceGrid>(context);
        let (key, about) = secret();
        self.notifier.notify(&key, &about, &notices).await;
    }
}

/// What makes this cluster a member.
fn secret() -> (ObjectKey, ObjectReference) {
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
