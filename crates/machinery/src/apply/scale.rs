//! Ownership across the `scale` subresource.
//!
//! A Scale has one field that its parent owns too: the replicas. Before a write to the Scale, parent
//! entries that own the parent's replicas path become Scale entries; afterwards the result is
//! carried back.

use std::collections::BTreeMap;

use serde_json::Value;

use super::managed::{ManagedError, Managers, Owned};
use super::path::{Element, PathSet};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the parent keeps its replicas, by its apiVersion.
pub type ReplicasPaths = BTreeMap<String, Vec<Element>>;

fn scale_path() -> PathSet {
    PathSet::of_fields(&["spec.replicas"])
}

/// The `managedFields` of the Scale of a parent with these.
pub fn scale_managers(parent: &Value, paths: &ReplicasPaths) -> Result<Value, ManagedError> {
    let mut managers = Managers::decode(parent)?;
    managers.entries.retain(|_, owned| {
        let path = paths.get(&owned.api_version);
        path.is_some_and(|path| owned.set.contains(path))
    });
    for owned in managers.entries.values_mut() {
        SCALE_VERSION.clone_into(&mut owned.api_version);
        owned.set = scale_path();
    }
    Ok(managers.encode())
}

/// The `managedFields` of the parent after its Scale was written.
///
/// A manager that is gone from the Scale loses the path; one that is new there gains it, without a
/// time. Update identities hold the version, so an updater that owned the replicas of the parent
/// always counts as both.
pub fn parent_managers(
    parent: &Value,
    scale: &Value,
    paths: &ReplicasPaths,
    api_version: &str,
) -> Result<Value, ManagedError> {
    let before = Managers::decode(parent)?;
    let mut scale = Managers::decode(scale)?;
    let mut result = Managers::default();
    for (identity, owned) in before.entries {
        let Some(path) = paths.get(&owned.api_version) else {
            continue;
        };
        let mut owned = owned;
        if owned.set.contains(path) && scale.entries.remove(&identity).is_none() {
            let mut taken = PathSet::default();
            taken.insert(path);
            owned.set = owned.set.difference(&taken);
        }
        if !owned.set.is_empty() {
            result.entries.insert(identity, owned);
        }
    }
    let mut replicas = PathSet::default();
    if let Some(path) = paths.get(api_version) {
        replicas.insert(path);
    }
    for identity in scale.entries.into_keys() {
        let owned = Owned {
            api_version: api_version.to_owned(),
            set: replicas.clone(),
            time: None,
        };
        result.entries.insert(identity, owned);
    }
    Ok(result.encode())
}
