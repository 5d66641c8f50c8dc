//! A look at the objects of a kind in a namespace, before a name is taken for the first time.
//!
//! The caches hold only what carries a grid's label, so they cannot tell a free name from a
//! stranger's. One list of the metadata of all others answers for all units of a grid; what grids made
//! is not asked for again, be it ten thousand objects.

use std::collections::BTreeSet;

use edgegrid_api::names::label;
use edgegrid_plan::claims::{Owner, Seen};
use edgegrid_plan::{Child, Kind, ObjectId};
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, Error};

use crate::children::Children;
use crate::execute::api_resource;

/// What the look showed, and the grid's own objects that no cache shows, read as a whole.
#[derive(Debug, Default)]
pub struct Looked {
    /// Whose the names are.
    pub seen: Seen,
    /// Objects of the grid that lost its label.
    pub unseen: Vec<Child>,
}

/// A look that failed.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The list.
    #[error("list the names of every {kind} without a grid's label in namespace {namespace}", kind = kind.name())]
    List {
        /// Of this kind.
        kind: Kind,
        /// In this namespace.
        namespace: String,
        /// Why.
        #[source]
        source: Error,
    },
    /// One object.
    #[error("read {id}")]
    Read {
        /// The object.
        id: ObjectId,
        /// Why.
        #[source]
        source: Error,
    },
}

/// Looks at all names that no cache shows. `labelled` are the objects that carry a grid's label,
/// of which those of other grids have the `wanted` names, too.
pub async fn look(
    client: &Client,
    (kind, namespace): (Kind, &str),
    owner: Owner<'_>,
    (labelled, wanted): (&Children, &BTreeSet<String>),
) -> Result<Looked, LookError> {
    let names: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &api_resource(kind));
    let unlabelled = ListParams::default().labels(&format!("!{}", label::GRID_SELECTOR));
    let list = names.list_metadata(&unlabelled).await;
    let list = list.map_err(|source| LookError::List {
        kind,
        namespace: namespace.to_owned(),
        source,
    })?;
    let cached = |name: &String| labelled.named(&(namespace.to_owned(), name.clone()));
    let mut seen = owner.sort(list.items.iter().map(|item| &item.metadata));
    for child in wanted.iter().filter_map(cached) {
        seen.foreign.extend(owner.sort([&child.metadata]).foreign);
    }
    let whole: Api<Child> = Api::namespaced_with(client.clone(), namespace, &kind);
    let mut unseen = Vec::new();
    for name in seen.ours.iter().filter(|name| cached(name).is_none()) {
        let child = whole
            .get_opt(name)
            .await
            .map_err(|source| LookError::Read {
                id: ObjectId::namespaced(kind, namespace, name),
                source,
            })?;
        unseen.extend(child.map(|mut child| {
            child.prune();
            child
        }));
    }
    Ok(Looked { seen, unseen })
}
