//! Who owns an object? Nothing is written to one that is not ours.
//!
//! | object of the wanted name | |
//! |---|---|
//! | none | ours to make |
//! | controlled by this grid's uid | ours, whatever its labels say |
//! | an orphan that carries this grid's labels | adopted |
//! | any other | somebody else's: `NameTaken` |
//!
//! Labels alone make nothing ours: an object that merely carries them is left alone.

use std::collections::BTreeMap;

use edgegrid_api::names::{label, reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;

use crate::failure::Problem;
use crate::step::{ObjectId, ObjectKind};

/// Who asks: a grid, and how its children are labelled.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Uid that the children's owner references name.
    pub uid: &'a str,
    /// The value of [`label::GRID_SELECTOR`] on its children.
    pub selector: &'a str,
}

/// Who owns an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Controlled by the grid.
    Ours,
    /// Nobody's, but labelled as the grid's.
    Orphan,
    /// Somebody else's; the words say whose.
    Foreign(String),
}

/// What a scan of all objects of a kind in a namespace showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameScan {
    /// Names of objects that are somebody else's, and whose.
    pub foreign: BTreeMap<String, String>,
    /// Names of objects that are the grid's, or may be adopted: to be read as a whole.
    pub ours: Vec<String>,
}

impl Owner<'_> {
    /// Who owns an object, by its owner references and labels.
    pub fn ownership(&self, metadata: &ObjectMeta) -> Ownership {
        match controller(metadata) {
            Some(owner) if owner.uid == self.uid => Ownership::Ours,
            Some(owner) => Ownership::Foreign(format!("{} {}", owner.kind, owner.name)),
            None if self.is_labelled(metadata) => Ownership::Orphan,
            None => Ownership::Foreign("no controller".into()),
        }
    }

    /// Tells names that are ours from names that somebody else has.
    pub fn scan_names<'m>(&self, objects: impl IntoIterator<Item = &'m ObjectMeta>) -> NameScan {
        let mut scan = NameScan::default();
        for metadata in objects {
            let Some(name) = metadata.name.clone() else {
                continue;
            };
            match self.ownership(metadata) {
                Ownership::Foreign(whose) => drop(scan.foreign.insert(name, whose)),
                Ownership::Ours | Ownership::Orphan => scan.ours.push(name),
            }
        }
        scan
    }

    fn is_labelled(&self, metadata: &ObjectMeta) -> bool {
        let labels = metadata.labels.as_ref();
        let value = |key| labels.and_then(|all| all.get(key));
        value(label::GRID_SELECTOR).is_some_and(|value| value == self.selector)
            && value(label::GRID_UNIQ_KEY).is_some()
    }
}

/// The controlling owner of an object.
pub fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
}

/// The ownerReference that a grid puts on its children.
pub(crate) fn owner_reference(kind: ObjectKind, metadata: &ObjectMeta) -> serde_json::Value {
    let resource = kind.resource();
    serde_json::json!({
        "apiVersion": format!("{}/{}", resource.group, resource.version),
        "kind": resource.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The problem of a grid that needs a name which somebody else has.
pub(crate) fn name_taken(id: &ObjectId, whose: &str) -> Problem {
    Problem::new(
        reason::NAME_TAKEN,
        format!(
            "{id} exists and is not this grid's ({whose}): delete or rename it, or rename the grid; \
             it is left untouched"
        ),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const OWNER: Owner<'_> = Owner {
        uid: "grid",
        selector: "web",
    };

    fn object(owner: Option<&str>, labels: &Value) -> ObjectMeta {
        let owners: Vec<Value> = owner
            .iter()
            .map(|uid| json!({ "apiVersion": "v1", "kind": "DeploymentGrid", "name": "other", "uid": uid, "controller": true }))
            .collect();
        serde_json::from_value(
            json!({ "name": "web-a", "labels": labels, "ownerReferences": owners }),
        )
        .unwrap()
    }

    #[test]
    fn an_object_is_ours_by_owner_adopted_by_labels_and_else_foreign() {
        let ours = json!({ label::GRID_SELECTOR: "web", label::GRID_UNIQ_KEY: "zone" });
        let foreign = |words: &str| Ownership::Foreign(words.into());
        for (owner, labels, whose) in [
            (Some("grid"), &ours, Ownership::Ours),
            (Some("grid"), &json!({}), Ownership::Ours), // it lost our label: repaired
            (None, &ours, Ownership::Orphan),
            (
                None,
                &json!({ label::GRID_SELECTOR: "web" }),
                foreign("no controller"),
            ),
            (
                None,
                &json!({ label::GRID_SELECTOR: "else", label::GRID_UNIQ_KEY: "zone" }),
                foreign("no controller"),
            ),
            (None, &json!({}), foreign("no controller")),
            (Some("else"), &ours, foreign("DeploymentGrid other")),
        ] {
            assert_eq!(
                OWNER.ownership(&object(owner, labels)),
                whose,
                "{owner:?} {labels}"
            );
        }
    }

    #[test]
    fn an_owner_that_is_not_the_controller_claims_nothing() {
        let mut object = object(Some("grid"), &json!({}));
        object.owner_references.as_mut().unwrap()[0].controller = None;
        assert_eq!(
            OWNER.ownership(&object),
            Ownership::Foreign("no controller".into())
        );
    }
}
