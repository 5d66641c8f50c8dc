//! One grid in many clusters: what the control cluster sends, what a member makes of it.
//!
//! ```text
//! control cluster                                member
//! original ─► copy in the member's namespace ─► mirror ─► grid in the target namespace ─► workloads
//!     ▲                │ status ◄───────────────────────────── status │
//!     └── one status ◄─┘
//! ```
//!
//! The mirror is the last that the member was shown, kept on its own API server: what it says is valid
//! while the control cluster is out of reach. All three kinds of grids are handled alike.

pub mod contact;
pub mod copies;
pub mod member_grid;
pub mod mirror;
pub mod report;
pub mod status;

use std::collections::BTreeMap;

use edgegrid_api::names::{
    GRID_GROUP, GRID_VERSION, YES, annotation, finalizer, label, manager, parent_secret,
};
use kube::core::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use crate::applied_fields::covers;
use crate::digest::digest;
use crate::grid::without_nulls;
use crate::observed::{applied_by, is_applied_by};
use crate::ownership::controller;
use crate::packed::Packed;
use crate::step::{Apply, Claim, Manager, ObjectId, ObjectKind, Step};

/// A grid of any kind.
#[derive(Clone, Debug, PartialEq)]
pub struct GridObject {
    /// Which of the three kinds of grids.
    pub kind: ObjectKind,
    /// Metadata as it was read.
    pub metadata: ObjectMeta,
    /// Its spec without nulls.
    pub spec: Value,
    /// Its status without nulls.
    pub status: Value,
}

/// What a copy, a mirror or a member's grid should be.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredGrid {
    /// The fields to apply.
    pub body: Value,
    /// Hash of these fields.
    pub digest: String,
}

/// Namespace and name of an object.
pub type NamespacedName = (String, String);

impl GridObject {
    /// Reads a grid by its own type.
    pub fn new(kind: ObjectKind, metadata: &ObjectMeta, grid: &impl Serialize) -> Self {
        let mut value = serde_json::to_value(grid).unwrap_or_default();
        Self {
            kind,
            metadata: metadata.clone(),
            spec: without_nulls(value["spec"].take()),
            status: without_nulls(value["status"].take()),
        }
    }

    /// Kind, namespace and name of the grid.
    pub fn id(&self) -> ObjectId {
        let (namespace, name) = key(&self.metadata);
        ObjectId::namespaced(self.kind, &namespace, &name)
    }

    /// Node label key that names its units.
    pub fn grid_key(&self) -> Option<&str> {
        self.spec["gridUniqKey"]
            .as_str()
            .filter(|key| !key.is_empty())
    }

    /// Whether a condition of its status is true.
    pub fn has_condition(&self, type_: &str) -> bool {
        let conditions = self.status["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == type_ && condition["status"] == "True")
    }
}

/// Namespace and name of an object.
pub fn key(metadata: &ObjectMeta) -> NamespacedName {
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

/// The value of a label, if the object has it.
pub fn label_of<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// The value of an annotation, if the object has it.
pub fn annotation_of<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Whether a grid is a copy or a mirror of another, which stamps nothing. One whose label
/// was taken off by hand is still known by who applied it.
pub fn is_copy(metadata: &ObjectMeta) -> bool {
    let is_marked = label_of(metadata, label::DISTRIBUTED).is_some();
    let is_members = is_applied_by(metadata, manager::MEMBER); // whatever label somebody gave it
    (is_marked && !is_members) || is_applied_by(metadata, manager::FEDERATION)
}

/// Whether a copy is the one that a member keeps of what it was shown.
pub fn is_mirror(metadata: &ObjectMeta) -> bool {
    metadata.namespace.as_deref() == Some(parent_secret::NAMESPACE) && is_copy(metadata)
}

/// Whether a grid came from a control cluster, so that only there it may be changed.
pub fn is_from_control(metadata: &ObjectMeta) -> bool {
    !is_copy(metadata) && is_local(metadata)
}

/// Whether a grid is to be sent to the members.
pub fn is_federated(metadata: &ObjectMeta) -> bool {
    label_of(metadata, label::FEDERATE) == Some(YES) && !is_copy(metadata)
}

/// Whether an object has a finalizer.
pub fn has_finalizer(metadata: &ObjectMeta, name: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|own| own == name)
}

/// The grid that a copy or a mirror of ours stands for. One that merely carries the labels is somebody else's;
/// SuperEdge's are known by their owner, and become ours.
pub fn stands_for(metadata: &ObjectMeta) -> Option<NamespacedName> {
    let is_superedges = controller(metadata)
        .is_some_and(|owner| owner.api_version == format!("{GRID_GROUP}/{GRID_VERSION}"));
    let is_ours =
        label_of(metadata, label::ORIGIN).is_some() || is_applied_by(metadata, manager::FEDERATION);
    let is_known = is_copy(metadata) && (is_ours || is_superedges);
    is_known.then(|| target(metadata)).flatten()
}

/// The grid that a copy or a mirror says it stands for.
pub fn target(metadata: &ObjectMeta) -> Option<NamespacedName> {
    let namespace = label_of(metadata, label::TARGET_NAMESPACE)?;
    let name = annotation_of(metadata, annotation::ORIGIN_NAME).or(metadata.name.as_deref())?;
    Some((namespace.to_owned(), name.to_owned()))
}

/// Whether a grid at a mirror's target was made by federation. Labels and managers are both looked at: one
/// whose labels were edited is put right, not lost.
pub(crate) fn is_local(metadata: &ObjectMeta) -> bool {
    label_of(metadata, label::ORIGIN).is_some() || is_applied_by(metadata, manager::MEMBER)
}

/// Whether the control cluster asks to remove the grid: its copy goes, and not merely with its namespace.
pub(crate) fn is_to_be_removed(copy: &ObjectMeta) -> bool {
    copy.deletion_timestamp.is_some() && annotation_of(copy, annotation::REMOVAL).is_some()
}

/// Annotations that are about the object which carries them, not about the grid.
const OWN_ANNOTATIONS: [&str; 5] = [
    annotation::LAST_APPLIED,
    annotation::APPLIED,
    annotation::UNIT_GONE_SINCE,
    annotation::ORIGIN_NAME,
    annotation::REMOVAL,
];

/// The annotations that go along with a grid.
pub(crate) fn carried_annotations(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !OWN_ANNOTATIONS.contains(&key.as_str()));
    annotations
}

impl DesiredGrid {
    /// Adds the hash of what is applied to what is applied.
    pub(crate) fn new(mut body: Value) -> Self {
        let digest = digest(&body.to_string());
        body["metadata"]["annotations"][annotation::APPLIED] = json!(digest);
        Self { body, digest }
    }

    /// What makes an object so; nothing if it is. Apply alone leaves alone what others added, and a grid is to be
    /// exactly as the original, so what is too much in its spec is removed.
    pub(crate) fn writes(
        &self,
        existing: Option<&GridObject>,
        id: &ObjectId,
        manager: Manager,
    ) -> Vec<Step> {
        let apply = |claim| {
            Step::Apply(Apply {
                id: id.clone(),
                body: Packed::from(&self.body),
                claim,
                manager,
            })
        };
        let Some(existing) = existing else {
            return vec![apply(Claim::Free)];
        };
        let uid = existing.metadata.uid.clone().unwrap_or_default();
        let is_as_applied = annotation_of(&existing.metadata, annotation::APPLIED)
            == Some(self.digest.as_str())
            && applied_by(&existing.metadata, manager.name())
                .is_some_and(|fields| covers(&fields, &self.body));
        if !is_as_applied {
            return vec![apply(Claim::Ours { uid })];
        }
        let operations = self.surplus(existing);
        let resource_version = existing.metadata.resource_version.clone();
        match resource_version {
            Some(resource_version) if !operations.is_empty() => vec![Step::Patch {
                id: id.clone(),
                resource_version,
                operations,
            }],
            _ => Vec::new(),
        }
    }

    /// What removes fields that somebody added.
    fn surplus(&self, existing: &GridObject) -> Vec<Value> {
        let mut operations = Vec::new();
        if existing.spec != self.body["spec"] {
            operations
                .push(json!({ "op": "replace", "path": "/spec", "value": self.body["spec"] }));
        }
        let is_copy = self.body["metadata"]["labels"]
            .get(label::DISTRIBUTED)
            .is_some();
        if !is_copy && label_of(&existing.metadata, label::DISTRIBUTED).is_some() {
            let path = format!(
                "/metadata/labels/{}",
                crate::json_pointer::escape(label::DISTRIBUTED)
            );
            operations.push(json!({ "op": "remove", "path": path }));
        }
        // An owner in another namespace counts as none, and Kubernetes deletes what it owns.
        if is_copy && existing.metadata.owner_references.is_some() {
            operations.push(json!({ "op": "remove", "path": "/metadata/ownerReferences" }));
        }
        let wanted = &self.body["metadata"]["annotations"];
        if wanted.get(annotation::REMOVAL).is_none()
            && annotation_of(&existing.metadata, annotation::REMOVAL).is_some()
        {
            let path = format!(
                "/metadata/annotations/{}",
                crate::json_pointer::escape(annotation::REMOVAL)
            );
            operations.push(json!({ "op": "remove", "path": path }));
        }
        operations
    }
}

/// Takes one of our finalizers off an object, and no other's.
pub(crate) fn remove_finalizer(object: &GridObject, name: &str) -> Option<Step> {
    Step::remove_finalizer(object.id(), &object.metadata, name)
}

/// Puts our finalizer on an original.
pub(crate) fn add_finalizer(object: &GridObject) -> Option<Step> {
    let operation = if object.metadata.finalizers.iter().flatten().next().is_some() {
        json!({ "op": "add", "path": "/metadata/finalizers/-", "value": finalizer::FEDERATED })
    } else {
        json!({ "op": "add", "path": "/metadata/finalizers", "value": [finalizer::FEDERATED] })
    };
    Some(Step::Patch {
        id: object.id(),
        resource_version: object.metadata.resource_version.clone()?,
        operations: vec![operation],
    })
}

#[cfg(test)]
mod tests;
