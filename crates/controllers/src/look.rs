//! A look at all objects of a kind in a namespace, before a name is taken for the first time.
//!
//! The caches hold only what carries a grid's label, so they cannot tell a free name from a
//! stranger's. One list of metadata answers for all units of a grid.

use edgegrid_plan::claims::{Owner, Seen};
use edgegrid_plan::{Child, Kind, ObjectId};
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ObjectMeta;
use kube::{Client, Error};

use crate::execute::api_resource;

/// What the look showed, and the grid's own objects that no cache shows, read as a whole.
#[derive(Debug, Default)]
pub struct Looked {
    /// Whose the names are.
    pub seen: Seen,
    /// Objects of the grid that lost its label, or that the cache does not show yet.
    pub unseen: Vec<Child>,
}

/// A look that failed.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The list.
    #[error("list the names of every {kind} in namespace {namespace}", kind = kind.name())]
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

/// Looks at all names; `is_known` tells which objects the caches show.
pub async fn look(
    client: &Client,
    (kind, namespace): (Kind, &str),
    owner: Owner<'_>,
    is_known: impl Fn(&str) -> bool,
) -> Result<Looked, LookError> {
    let names: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &api_resource(kind));
    let list = names.list_metadata(&ListParams::default()).await;
    let list = list.map_err(|source| LookError::List {
        kind,
        namespace: namespace.to_owned(),
        source,
    })?;
    let metadata: Vec<ObjectMeta> = list.items.into_iter().map(|item| item.metadata).collect();
    let seen = owner.sort(&metadata);
    let whole: Api<Child> = Api::namespaced_with(client.clone(), namespace, &api_resource(kind));
    let mut unseen = Vec::new();
    for name in seen.ours.iter().filter(|name| !is_known(name)) {
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
