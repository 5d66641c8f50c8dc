//! What stands in for the rest of the cluster: workloads that become available, garbage that is
//! collected. Both do what Kubernetes' own controllers do, on what is in the API server.

use std::collections::BTreeSet;

use anyhow::Result;
use edgegrid_testkit::Cluster;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

/// Kinds that grids make.
pub(crate) const CHILDREN: [(&str, &str, &str); 3] = [
    ("apps", "Deployment", "deployments"),
    ("apps", "StatefulSet", "statefulsets"),
    ("", "Service", "services"),
];
/// What a StatefulSet leaves behind, unless it owns it.
pub(crate) const CLAIMS: (&str, &str, &str) =
    ("", "PersistentVolumeClaim", "persistentvolumeclaims");
/// Kinds that own them.
pub(crate) const GRIDS: [(&str, &str, &str); 3] = [
    ("superedge.io", "DeploymentGrid", "deploymentgrids"),
    ("superedge.io", "StatefulSetGrid", "statefulsetgrids"),
    ("superedge.io", "ServiceGrid", "servicegrids"),
];

/// All objects of a namespaced kind in `default`.
pub(crate) fn api(
    client: &Client,
    (group, kind, plural): (&str, &str, &str),
) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(group, "v1", kind);
    Api::namespaced_with(
        client.clone(),
        "default",
        &ApiResource::from_gvk_with_plural(&gvk, plural),
    )
}

/// Makes every workload report that it runs what is asked for; says whether anything changed.
pub(crate) async fn roll_out(cluster: &Cluster) -> Result<bool> {
    let mut changed = false;
    for kind in &CHILDREN[..2] {
        let api = api(&cluster.client(), *kind);
        for workload in api.list(&ListParams::default()).await? {
            let status = rolled_out(&workload);
            if !says(&workload.data["status"], &status) {
                let patch = Patch::Merge(json!({ "status": status }));
                api.patch_status(&workload.name_any(), &PatchParams::default(), &patch)
                    .await?;
                changed = true;
            }
        }
    }
    Ok(changed)
}

/// Whether a status says all of another; the server may have added to it.
fn says(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| live.get(key).is_some_and(|live| says(live, value))),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| says(live, wanted))
        }
        _ => live == wanted,
    }
}

fn rolled_out(workload: &DynamicObject) -> Value {
    let replicas = workload.data["spec"]["replicas"].as_i64().unwrap_or(1);
    let generation = workload.metadata.generation;
    let mut status = json!({
        "observedGeneration": generation, "replicas": replicas, "readyReplicas": replicas,
        "availableReplicas": replicas, "updatedReplicas": replicas,
    });
    if workload
        .types
        .as_ref()
        .is_some_and(|types| types.kind == "StatefulSet")
    {
        let revision = format!("{}-{}", workload.name_any(), generation.unwrap_or(0));
        status["currentReplicas"] = json!(replicas);
        status["currentRevision"] = json!(revision);
        status["updateRevision"] = json!(revision);
    } else {
        status["conditions"] = json!([
            { "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable" },
            { "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable" },
        ]);
    }
    status
}

/// Deletes what belongs to a grid that is no more, and the claims of StatefulSets that are no more.
pub(crate) async fn collect_garbage(cluster: &Cluster) -> Result<()> {
    collect(cluster, &CHILDREN, &GRIDS).await?;
    collect(cluster, &[CLAIMS], &CHILDREN).await
}

/// Deletes objects all of whose owners are no more.
async fn collect(
    cluster: &Cluster,
    owned: &[(&str, &str, &str)],
    owners: &[(&str, &str, &str)],
) -> Result<()> {
    let client = cluster.client();
    let mut alive = BTreeSet::new();
    for kind in owners {
        let found = api(&client, *kind).list(&ListParams::default()).await?;
        alive.extend(found.into_iter().filter_map(|owner| owner.metadata.uid));
    }
    for kind in owned {
        let api = api(&client, *kind);
        for object in api.list(&ListParams::default()).await? {
            let owners = object.owner_references();
            if !owners.is_empty() && owners.iter().all(|owner| !alive.contains(&owner.uid)) {
                api.delete(&object.name_any(), &DeleteParams::default())
                    .await?;
            }
        }
    }
    Ok(())
}
