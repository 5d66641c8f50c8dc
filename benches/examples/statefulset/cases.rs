//! What is asked of the controllers.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_testkit::{Cluster, Patience, eventually_within};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use serde_json::json;
use tokio::time::Instant;

use crate::calls::Calls;
use crate::contender::Contender;

/// Requests of the load that are under way at once.
const SIDE_BY_SIDE: usize = 8;

/// Sets to create, scale or roll out.
pub(crate) struct Case {
    sets: usize,
    replicas: usize,
    management: &'static str,
    /// Only the rollout counts, not the creation before it.
    is_rollout: bool,
}

/// What one of the two controllers needed for a case.
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) time: Duration,
    pub(crate) calls: Calls,
    pub(crate) cpu: Duration,
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case {
            sets,
            replicas,
            management,
            is_rollout,
        } = self;
        if *is_rollout {
            write!(f, "rolling update of {replicas} pods, {management}")
        } else {
            write!(f, "{sets} × {replicas} pods, {management}")
        }
    }
}

/// All the work, or one of so many parts of it.
pub(crate) fn all(part: usize) -> Vec<Case> {
    let case = |sets, replicas, management, is_rollout| Case {
        sets,
        replicas,
        management,
        is_rollout,
    };
    vec![
        case(1, 1000 / part, "Parallel", false),
        case(100 / part, 10, "OrderedReady", false),
        case(1, 500 / part, "Parallel", true),
    ]
}

/// Does the work, and clears up after it.
pub(crate) async fn measure(
    cluster: &Cluster,
    contender: &Contender,
    case: &Case,
) -> Result<Measured> {
    let client = cluster.client();
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), "default");
    if case.is_rollout {
        create(&sets, case).await?;
        ready(&sets, case, 1).await?;
    }
    let calls = Calls::at_rest(&client).await?;
    let (usage, began) = (contender.usage()?, Instant::now());
    if case.is_rollout {
        let container = json!({ "name": "main", "image": "i:2" });
        let patch = json!({ "spec": { "template": { "spec": { "containers": [container] } } } });
        sets.patch("set-0", &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        ready(&sets, case, 2).await?;
    } else {
        create(&sets, case).await?;
        ready(&sets, case, 1).await?;
    }
    let time = began.elapsed();
    let gone = if case.is_rollout {
        case.replicas as u64
    } else {
        0
    };
    let calls = Calls::at_rest(&client).await?.since(&calls, gone);
    let after = contender.usage()?;
    clear(cluster, &sets).await?;
    Ok(Measured {
        name: case.to_string(),
        time,
        calls,
        cpu: after.cpu.saturating_sub(usage.cpu),
        resident: after.resident,
        peak: after.peak,
    })
}

async fn create(sets: &Api<StatefulSet>, case: &Case) -> Result<()> {
    let set = |number: usize| {
        let labels = json!({ "set": number.to_string() });
        let value = json!({
            "metadata": { "name": format!("set-{number}") },
            "spec": {
                "serviceName": "none", "replicas": case.replicas, "podManagementPolicy": case.management,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "nodeName": "n1", "terminationGracePeriodSeconds": 1, "containers": [{ "name": "main", "image": "i:1" }] },
                },
            },
        });
        serde_json::from_value::<StatefulSet>(value).context("write a set")
    };
    stream::iter(0..case.sets)
        .map(|number| async move { Ok(sets.create(&PostParams::default(), &set(number)?).await?) })
        .buffer_unordered(SIDE_BY_SIDE)
        .try_for_each(async |_| anyhow::Ok(()))
        .await
}

/// Waits until every pod is ready and every status says so, at this generation.
async fn ready(sets: &Api<StatefulSet>, case: &Case, generation: i64) -> Result<()> {
    let wanted = i32::try_from(case.replicas)?;
    let patience = Patience {
        limit: Duration::from_mins(15),
        pause: Duration::from_millis(200),
    };
    eventually_within(patience, "every set is ready", async || {
        let all = sets.list(&ListParams::default()).await?.items;
        let is_ready = |set: &&StatefulSet| {
            set.status.as_ref().is_some_and(|status| {
                let counts = [
                    status.ready_replicas,
                    status.updated_replicas,
                    status.current_replicas,
                ];
                status.observed_generation == Some(generation)
                    && counts == [Some(wanted); 3]
                    && status.current_revision == status.update_revision
            })
        };
        let count = all.iter().filter(is_ready).count();
        ensure!(count == case.sets, "{count} of {}", case.sets);
        Ok(())
    })
    .await
}

async fn clear(cluster: &Cluster, sets: &Api<StatefulSet>) -> Result<()> {
    let background = DeleteParams::background();
    sets.delete_collection(&background, &ListParams::default())
        .await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let metadata: Api<PartialObjectMeta<Pod>> = Api::namespaced(cluster.client(), "default");
    pods.delete_collection(&background, &ListParams::default())
        .await?;
    let patience = Patience {
        limit: Duration::from_mins(5),
        pause: Duration::from_millis(500),
    };
    eventually_within(patience, "everything is gone", async || {
        let left = metadata
            .list_metadata(&ListParams::default())
            .await?
            .items
            .len();
        ensure!(left == 0, "{left} pods left");
        Ok(())
    })
    .await
}
