//! The cluster's state without what differs from run to run.

use std::collections::BTreeMap;

use anyhow::Result;
use edgegrid_testkit::Cluster;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::Value;

use super::world::{self, CHILDREN, GRIDS};

/// Objects by kind and name.
pub(crate) type Snapshot = BTreeMap<String, Value>;

/// Nodes, sites, grids and what was made of them.
pub(crate) async fn take(cluster: &Cluster) -> Result<Snapshot> {
    let client = cluster.client();
    let mut snapshot = Snapshot::new();
    for kind in CHILDREN.into_iter().chain(GRIDS) {
        add(&mut snapshot, kind.1, &world::api(&client, kind)).await?;
    }
    for (group, version, kind, plural) in [
        ("", "v1", "Node", "nodes"),
        ("site.superedge.io", "v1alpha2", "NodeUnit", "nodeunits"),
        ("site.superedge.io", "v1alpha2", "NodeGroup", "nodegroups"),
    ] {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        add(
            &mut snapshot,
            kind,
            &Api::all_with(client.clone(), &resource),
        )
        .await?;
    }
    Ok(snapshot)
}

async fn add(snapshot: &mut Snapshot, kind: &str, api: &Api<DynamicObject>) -> Result<()> {
    for object in api.list(&ListParams::default()).await? {
        let name = object.name_any();
        let mut value = serde_json::to_value(object)?;
        if kind == "Node" {
            value.as_object_mut().map(|node| node.remove("status"));
        }
        normalise(&mut value);
        snapshot.insert(format!("{kind} {name}"), value);
    }
    Ok(())
}

/// Fields whose values are ids, times or counters.
const VOLATILE: [&str; 13] = [
    "edgegrid.io/applied",
    "uid",
    "resourceVersion",
    "generation",
    "observedGeneration",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "managedFields",
    "edgegrid.io/changed-at",
    "currentRevision",
    "updateRevision",
    "clusterIPs",
];

fn normalise(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !VOLATILE.contains(&key.as_str()) && key != "clusterIP");
            map.values_mut().for_each(normalise);
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        _ => {}
    }
}
