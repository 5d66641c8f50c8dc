//! What a member was shown last, kept on its own API server.
//!
//! A mirror follows its copy, also into removal. A copy that is gone, or goes without the mark of a removal, leaves
//! the mirror as it is: nothing is lost because a link, a right or a namespace is.

use std::collections::BTreeMap;

use edgegrid_api::names::{YES, annotation, parent_secret};
use kube::core::ObjectMeta;
use serde_json::json;

use super::{
    DesiredGrid, GridObject, annotation_of, carried_annotations, is_copy, is_to_be_removed,
    stands_for, target,
};
use crate::step::{Manager, ObjectId, Step};

/// What to do about a mirror.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It is as it should be.
    Settled,
    /// It is written by these steps.
    Write(Vec<Step>),
    /// The grid is to go: this waits until the member's grid has gone.
    Removing,
    /// Everything is removed, which is reported to the control cluster.
    Removed,
    /// The copy says nothing that could be followed.
    Unclear,
    /// Another object has the mirror's name.
    NameTaken,
}

/// Where a copy's mirror is.
pub fn id(copy: &GridObject) -> ObjectId {
    let name = copy.metadata.name.as_deref().unwrap_or_default();
    ObjectId::namespaced(copy.kind, parent_secret::NAMESPACE, name)
}

/// Decides about the mirror of a copy; `has_local` says whether the member still has the grid itself.
pub fn decide(copy: &GridObject, mirror: Option<&GridObject>, has_local: bool) -> Decision {
    let is_removal = is_to_be_removed(&copy.metadata);
    if stands_for(&copy.metadata).is_none() || (is_being_deleted(&copy.metadata) && !is_removal) {
        return Decision::Unclear;
    }
    if mirror.is_some_and(|mirror| !is_copy(&mirror.metadata)) {
        return Decision::NameTaken;
    }
    match mirror {
        None if is_removal => Decision::Removed,
        Some(mirror) if is_removal && is_removed(&mirror.metadata) && !has_local => {
            Decision::Write(delete(mirror))
        }
        _ => {
            let steps =
                render_mirror(copy, is_removal).writes(mirror, &id(copy), Manager::Federation);
            match (steps.is_empty(), is_removal) {
                (true, true) => Decision::Removing,
                (true, false) => Decision::Settled,
                (false, _) => Decision::Write(steps),
            }
        }
    }
}

/// Whether a mirror says that the member's grid is to go.
pub fn is_removed(mirror: &ObjectMeta) -> bool {
    annotation_of(mirror, annotation::REMOVAL).is_some()
}

fn is_being_deleted(copy: &ObjectMeta) -> bool {
    copy.deletion_timestamp.is_some()
}

fn render_mirror(copy: &GridObject, is_removal: bool) -> DesiredGrid {
    let mut annotations: BTreeMap<String, String> = carried_annotations(&copy.metadata);
    let name = target(&copy.metadata).map(|(_, name)| name);
    annotations.insert(annotation::ORIGIN_NAME.into(), name.unwrap_or_default());
    if is_removal {
        annotations.insert(annotation::REMOVAL.into(), YES.into());
    }
    DesiredGrid::new(json!({
        "metadata": { "labels": copy.metadata.labels, "annotations": annotations },
        "spec": copy.spec,
    }))
}

fn delete(mirror: &GridObject) -> Vec<Step> {
    let uid = mirror.metadata.uid.clone().into_iter();
    uid.map(|uid| Step::Delete {
        id: mirror.id(),
        uid,
    })
    .collect()
}
