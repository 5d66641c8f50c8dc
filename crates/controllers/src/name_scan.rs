//! Scans the names of a kind in a namespace, before a name is taken for the first time.
//!
//! The caches hold only what carries a grid's label, so they cannot tell a free name from
//! one that somebody else has. One list of the metadata of all others answers for all units of a grid; what grids made
//! is not asked for again, be it ten thousand objects.

use std::collections::BTreeSet;

use edgegrid_api::names::label;
use edgegrid_plan::ownership::{NameScan, Owner};
use edgegrid_plan::{Child, ObjectId, ObjectKind};
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, Error};

use crate::children::Children;
use crate::execute::api_resource;

/// Where and for which grid names are scanned.
pub struct Scan<'a> {
    /// Kind of the workload or Service.
    pub kind: ObjectKind,
    /// Namespace of the grid.
    pub namespace: &'a str,
    /// The grid that the names are for.
    pub owner: Owner<'a>,
    /// Cached objects that carry a grid's label.
    pub labelled: &'a Children,
    /// Names that the grid is about to take; other grids may have them.
    pub wanted: &'a BTreeSet<String>,
}

/// Who has the names, and the grid's own objects that no cache shows, read as a whole.
#[derive(Debug, Default)]
pub struct Scanned {
    /// Which names are the grid's and which are not.
    pub names: NameScan,
    /// Objects of the grid that lost its label.
    pub uncached: Vec<Child>,
}

/// Why the names could not be scanned.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The list was refused.
    #[error("list every {kind} without a grid's label in namespace {namespace}", kind = kind.name())]
    List {
        /// Kind of the workload or Service.
        kind: ObjectKind,
        /// Namespace of the grid.
        namespace: String,
        /// What the API server answered.
        #[source]
        source: Error,
    },
    /// An object of the grid could not be read.
    #[error("read {id}")]
    Read {
        /// The object that lost its label.
        id: ObjectId,
        /// What the API server answered.
        #[source]
        source: Error,
    },
}

/// Scans all names that no cache shows: one list, and a read of each own object that lost its label.
pub async fn scan_names(client: &Client, scan: Scan<'_>) -> Result<Scanned, ScanError> {
    let Scan {
        kind,
        namespace,
        owner,
        labelled,
        wanted,
    } = scan;
    let all: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &api_resource(kind));
    let unlabelled = ListParams::default().labels(&format!("!{}", label::GRID_SELECTOR));
    let list = all.list_metadata(&unlabelled).await;
    let list = list.map_err(|source| ScanError::List {
        kind,
        namespace: namespace.to_owned(),
        source,
    })?;
    let cached = |name: &String| labelled.get(&(namespace.to_owned(), name.clone()));
    let mut names = owner.scan_names(list.items.iter().map(|item| &item.metadata));
    for child in wanted.iter().filter_map(cached) {
        names
            .foreign
            .extend(owner.scan_names([&child.metadata]).foreign);
    }
    let whole: Api<Child> = Api::namespaced_with(client.clone(), namespace, &kind);
    let mut uncached = Vec::new();
    for name in names.ours.iter().filter(|name| cached(name).is_none()) {
        let child = whole
            .get_opt(name)
            .await
            .map_err(|source| ScanError::Read {
                id: ObjectId::namespaced(kind, namespace, name),
                source,
            })?;
        uncached.extend(child.map(|mut child| {
            child.prune();
            child
        }));
    }
    Ok(Scanned { names, uncached })
}
