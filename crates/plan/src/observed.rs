//! The cluster as plans see it: Nodes and the grids' children, cut down to what decisions need.
//!
//! The types read only those fields from what the API server sends, so the rest, most of a
//! Node, is never held. `managedFields` are reduced to the entries that plans look at, and their
//! `fieldsV1` packed as text: as a tree of maps they would be most of what a cache holds.

use std::borrow::Cow;

use edgegrid_api::names::manager;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, FieldsV1, ManagedFieldsEntry};
use kube::Resource;
use kube::core::{ApiResource, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A Node, without its capacity, images, addresses and heartbeats.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct SiteNode {
    /// Name, labels, annotations; `managedFields` reduced by [`reduce`].
    pub metadata: ObjectMeta,
    /// What keeps pods away.
    #[serde(default)]
    pub spec: SiteNodeSpec,
    /// Only its readiness.
    #[serde(default)]
    pub status: SiteNodeStatus,
}

/// What of a Node's spec decides anything.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SiteNodeSpec {
    /// Taints of all owners.
    pub taints: Vec<Taint>,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
}

/// What of a Node's status decides anything.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SiteNodeStatus {
    /// Only the condition `Ready`, and of it only type and status.
    pub conditions: Vec<NodeCondition>,
}

/// A condition without its heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct NodeCondition {
    /// Name of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

impl SiteNode {
    /// Drops what no plan reads.
    pub fn prune(&mut self) {
        reduce(&mut self.metadata);
        self.status
            .conditions
            .retain(|condition| condition.type_ == "Ready");
    }

    /// Whether the node's kubelet says that it can run pods.
    pub fn is_ready(&self) -> bool {
        self.status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    /// Whether the node differs from an earlier look in something that a plan reads. A heartbeat
    /// changes the revision and others' `managedFields` only.
    pub fn differs(&self, earlier: &Self) -> bool {
        let decisive = |node: &Self| {
            (
                node.metadata.uid.clone(),
                node.metadata.labels.clone(),
                node.metadata.annotations.clone(),
                node.metadata.deletion_timestamp.clone(),
                node.metadata.managed_fields.clone(),
                node.spec.clone(),
                node.status.clone(),
            )
        };
        decisive(self) != decisive(earlier)
    }
}

impl Resource for SiteNode {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Node".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "nodes".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A Deployment, StatefulSet or Service that carries a grid's label.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Child {
    /// `apps/v1` or `v1`, absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Its kind, absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its metadata; `managedFields` reduced by [`reduce`].
    pub metadata: ObjectMeta,
    /// What of its spec decides anything.
    #[serde(default)]
    pub spec: ChildSpec,
    /// Its status as reported.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub status: Map<String, Value>,
}

/// What of a child's spec decides anything: what may not change, and what others may set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ChildSpec {
    /// Pods wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// A workload's or a Service's pod selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Value>,
    /// A StatefulSet's Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// A StatefulSet's claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_templates: Option<Value>,
    /// The pod template, of which only its metadata is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<ChildTemplate>,
    /// A Service's address.
    #[serde(rename = "clusterIP", skip_serializing_if = "Option::is_none")]
    pub cluster_ip: Option<String>,
}

/// A pod template's metadata.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct ChildTemplate {
    /// Labels and annotations of the pods.
    pub metadata: ObjectMeta,
}

impl Child {
    /// Drops what no plan reads.
    pub fn prune(&mut self) {
        reduce(&mut self.metadata);
    }

    /// The `fieldsV1` that a manager has applied, if it has.
    pub fn applied_by(&self, manager: &str) -> Option<Cow<'_, Value>> {
        applied_by(&self.metadata, manager)
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// A condition of its status.
    pub fn condition(&self, type_: &str) -> Option<Condition> {
        let conditions = self.status.get("conditions")?.as_array()?;
        let found = conditions
            .iter()
            .find(|condition| condition["type"] == type_)?;
        serde_json::from_value(found.clone()).ok()
    }

    /// A number of its status, 0 when it is not there.
    pub fn count(&self, field: &str) -> i64 {
        self.status.get(field).and_then(Value::as_i64).unwrap_or(0)
    }
}

impl Resource for Child {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        kind.kind.as_str().into()
    }
    fn group(kind: &ApiResource) -> Cow<'_, str> {
        kind.group.as_str().into()
    }
    fn version(kind: &ApiResource) -> Cow<'_, str> {
        kind.version.as_str().into()
    }
    fn api_version(kind: &ApiResource) -> Cow<'_, str> {
        kind.api_version.as_str().into()
    }
    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        kind.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The `fieldsV1` that a manager has applied to an object itself, not to a subresource.
pub fn applied_by<'a>(metadata: &'a ObjectMeta, manager: &str) -> Option<Cow<'a, Value>> {
    let mut entries = metadata.managed_fields.iter().flatten();
    let entry = entries.find(|entry| is_apply(entry, manager))?;
    fields_of(entry)
}

/// Whether a manager has applied anything to an object itself.
pub fn is_applied_by(metadata: &ObjectMeta, manager: &str) -> bool {
    let mut entries = metadata.managed_fields.iter().flatten();
    entries.any(|entry| is_apply(entry, manager))
}

/// The `fieldsV1` of an entry, as the API server sent it or packed by [`reduce`].
pub fn fields_of(entry: &ManagedFieldsEntry) -> Option<Cow<'_, Value>> {
    match &entry.fields_v1.as_ref()?.0 {
        Value::String(packed) => serde_json::from_str(packed).ok().map(Cow::Owned),
        fields => Some(Cow::Borrowed(fields)),
    }
}

fn pack(entry: &mut ManagedFieldsEntry) {
    if let Some(FieldsV1(fields @ Value::Object(_))) = &mut entry.fields_v1 {
        *fields = Value::String(fields.to_string());
    }
}

fn is_apply(entry: &ManagedFieldsEntry, manager: &str) -> bool {
    entry.manager.as_deref() == Some(manager)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

/// Keeps of `managedFields` only the entries of our managers and of SuperEdge's, packed.
///
/// While SuperEdge has an entry, those of others are blanked instead of dropped: what is its
/// passes to us by a patch that names entries by their place.
pub fn reduce(metadata: &mut ObjectMeta) {
    let Some(entries) = &mut metadata.managed_fields else {
        return;
    };
    let is_of = |entry: &ManagedFieldsEntry, managers: &[&str]| {
        let name = entry.manager.as_deref();
        name.is_some_and(|name| managers.contains(&name))
    };
    let is_read = |entry: &ManagedFieldsEntry| {
        is_of(entry, &manager::OURS) || is_of(entry, &manager::SUPEREDGE)
    };
    if entries
        .iter()
        .any(|entry| is_of(entry, &manager::SUPEREDGE))
    {
        let last = entries.iter().rposition(is_read);
        entries.truncate(last.map_or(0, |last| last + 1));
        let unread = entries.iter_mut().filter(|entry| !is_read(entry));
        unread.for_each(|entry| *entry = ManagedFieldsEntry::default());
    } else {
        entries.retain(is_read);
    }
    entries.iter_mut().for_each(pack);
    entries.shrink_to_fit();
    if entries.is_empty() {
        metadata.managed_fields = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packed_fields_are_read_as_they_were_sent() {
        let fields = json!({ "f:spec": { "f:replicas": {}, "f:containers": { "k:{\"name\":\"a\"}": { ".": {} } } } });
        let mut metadata: ObjectMeta = serde_json::from_value(json!({ "managedFields": [
            { "manager": manager::EDGEGRID, "operation": "Apply", "fieldsV1": fields },
            { "manager": "kubelet", "operation": "Update", "fieldsV1": { "f:status": {} } },
        ] }))
        .unwrap();
        reduce(&mut metadata);
        let entries = metadata.managed_fields.as_deref().unwrap_or_default();
        let [entry] = entries else {
            panic!("one entry is read: {entries:?}")
        };
        assert!(
            entry
                .fields_v1
                .as_ref()
                .is_some_and(|fields| fields.0.is_string())
        );
        assert_eq!(
            applied_by(&metadata, manager::EDGEGRID).as_deref(),
            Some(&fields)
        );
        reduce(&mut metadata); // what is packed stays so
        assert_eq!(
            applied_by(&metadata, manager::EDGEGRID).as_deref(),
            Some(&fields)
        );
    }
}
