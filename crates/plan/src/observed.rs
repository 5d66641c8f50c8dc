//! The cluster as plans see it: Nodes and the grids' children, cut down to what decisions need.
//!
//! The types read only those fields from what the API server sends, so the rest, most of a
//! Node, is never kept. `managedFields` are reduced to the entries that plans read, and their
//! `fieldsV1` packed as text: as a tree of maps they would be most of a cache.

use std::borrow::Cow;
use std::collections::BTreeMap;

use edgegrid_api::names::{label, manager, taint};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    Condition, FieldsV1, ManagedFieldsEntry, Time,
};
use kube::Resource;
use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::packed::Packed;
use crate::step::ObjectKind;

/// A Node, without its capacity, images, addresses and heartbeats.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct PrunedNode {
    /// Name, labels, annotations; `managedFields` reduced by [`reduce`].
    pub metadata: ObjectMeta,
    /// What keeps pods away.
    #[serde(default)]
    pub spec: PrunedNodeSpec,
    /// Only its readiness.
    #[serde(default)]
    pub status: PrunedNodeStatus,
}

/// What of a Node's spec decides anything.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PrunedNodeSpec {
    /// Taints of all owners.
    pub taints: Vec<Taint>,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
}

/// What of a Node's status decides anything.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PrunedNodeStatus {
    /// Only the condition `Ready`.
    pub conditions: Vec<NodeCondition>,
}

/// A condition without its heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCondition {
    /// Name of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Since when it is so; kept of an `Unknown` one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// Readiness of a node that the control plane no longer hears of.
const UNKNOWN: &str = "Unknown";

impl PrunedNode {
    /// Drops what no plan reads.
    pub fn prune(&mut self) {
        reduce(&mut self.metadata);
        self.status
            .conditions
            .retain(|condition| condition.type_ == "Ready");
        for condition in &mut self.status.conditions {
            if condition.status != UNKNOWN {
                condition.last_transition_time = None;
            }
        }
    }

    /// Whether the node's kubelet says that it can run pods.
    pub fn is_ready(&self) -> bool {
        self.status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    /// Since when the control plane no longer hears of the node; `None` if it does, or if somebody has said that
    /// the machine is down.
    pub fn unreachable_since(&self) -> Option<Timestamp> {
        let is_out_of_service = |taint: &Taint| taint.key == taint::OUT_OF_SERVICE;
        if self.spec.taints.iter().any(is_out_of_service) {
            return None;
        }
        let mut conditions = self.status.conditions.iter();
        let unknown = conditions
            .find(|condition| condition.type_ == "Ready" && condition.status == UNKNOWN)?;
        unknown.last_transition_time.as_ref().map(|time| time.0)
    }

    /// Whether the node differs from an earlier version in something that a plan reads. A heartbeat
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

impl Resource for PrunedNode {
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
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Child {
    /// Its metadata; `managedFields` reduced by [`reduce`].
    pub metadata: ObjectMeta,
    /// What of its spec decides anything.
    #[serde(default)]
    pub spec: ChildSpec,
    /// Its status as reported.
    #[serde(default)]
    pub status: Map<String, Value>,
}

/// What of a child's spec decides anything: what may not change, and what others may set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ChildSpec {
    /// Number of pods wanted, which an autoscaler may have set.
    pub replicas: Option<i32>,
    /// A workload's or a Service's pod selector.
    pub selector: Option<Packed>,
    /// The Service that gives a StatefulSet's pods their names.
    pub service_name: Option<String>,
    /// Names of a StatefulSet's claims.
    #[serde(deserialize_with = "claim_names")]
    pub volume_claim_templates: Vec<String>,
    /// Whether a StatefulSet's claims, and so its data, are deleted with it.
    #[serde(
        rename = "persistentVolumeClaimRetentionPolicy",
        deserialize_with = "deletes_claims"
    )]
    pub deletes_claims: bool,
    /// The hash that SuperEdge put among the labels of the pod template, which is not kept itself.
    #[serde(rename = "template", deserialize_with = "superedge_hash")]
    pub superedge_hash: Option<String>,
    /// The address of a Service; the text `None` if it is headless.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
}

/// Names of the claims in a list of their templates.
fn claim_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let claims = Option::<Vec<Named>>::deserialize(deserializer)?.unwrap_or_default();
    let names = claims.into_iter().map(|claim| claim.metadata.name);
    Ok(names.collect())
}

/// Whether a retention policy for claims says `whenDeleted: Delete`.
fn deletes_claims<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let policy = Option::<RetentionPolicy>::deserialize(deserializer)?.unwrap_or_default();
    Ok(policy.when_deleted.as_deref() == Some("Delete"))
}

/// [`label::TEMPLATE_HASH_KEY`] of a pod template.
fn superedge_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let template = Option::<Labelled>::deserialize(deserializer)?;
    let labels = template.and_then(|template| template.metadata.labels);
    Ok(labels.and_then(|mut labels| labels.remove(label::TEMPLATE_HASH_KEY)))
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RetentionPolicy {
    when_deleted: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    metadata: Name,
}

#[derive(Default, Deserialize)]
struct Name {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Labelled {
    #[serde(default)]
    metadata: Labels,
}

#[derive(Default, Deserialize)]
struct Labels {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
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

    /// The value of an annotation, if the object has it.
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
    type DynamicType = ObjectKind;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(kind: &ObjectKind) -> Cow<'_, str> {
        kind.resource().kind.into()
    }
    fn group(kind: &ObjectKind) -> Cow<'_, str> {
        kind.resource().group.into()
    }
    fn version(kind: &ObjectKind) -> Cow<'_, str> {
        kind.resource().version.into()
    }
    fn plural(kind: &ObjectKind) -> Cow<'_, str> {
        kind.resource().plural.into()
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
/// passes to us by a patch that names entries by their index.
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

    fn node(ready: &str, since: &str, taints: &Value) -> PrunedNode {
        let mut node: PrunedNode = serde_json::from_value(json!({
            "metadata": { "name": "n" },
            "spec": { "taints": taints },
            "status": { "conditions": [
                { "type": "MemoryPressure", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z" },
                { "type": "Ready", "status": ready, "lastTransitionTime": since },
            ] },
        }))
        .unwrap();
        node.prune();
        node
    }

    #[test]
    fn a_node_is_unreachable_since_its_readiness_is_unknown_and_until_it_is_said_to_be_down() {
        const SINCE: &str = "2026-01-01T00:10:00Z";
        let since = |ready, taints: Value| node(ready, SINCE, &taints).unreachable_since();
        assert_eq!(since("Unknown", json!([])), SINCE.parse().ok());
        assert_eq!(since("True", json!([])), None);
        assert_eq!(since("False", json!([])), None, "the node says so itself");
        let unreachable = json!([{ "key": taint::UNREACHABLE, "effect": "NoExecute" }]);
        assert_eq!(since("Unknown", unreachable), SINCE.parse().ok());
        let down = json!([{ "key": taint::OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute" }]);
        assert_eq!(since("Unknown", down), None);
    }

    #[test]
    fn when_a_node_became_ready_is_not_kept_so_that_it_makes_no_difference() {
        let early = node("True", "2026-01-01T00:00:00Z", &json!([]));
        assert!(!node("True", "2026-01-01T00:10:00Z", &json!([])).differs(&early));
        let early = node("Unknown", "2026-01-01T00:00:00Z", &json!([]));
        assert!(node("Unknown", "2026-01-01T00:10:00Z", &json!([])).differs(&early));
    }
}
