//! The type table: which resources Kubernetes serves and what their objects look like.
//!
//! All built-in kinds are data: `data/kubernetes.txt`, written by `cargo xtask tables` from the
//! pinned Kubernetes, is parsed once, when first asked for. Custom resources get the same form
//! from their schema ([`Shapes::structural`]), so merging, pruning and tracking never ask where a
//! type came from.
//!
//! ```
//! use edgegrid_machinery::table::table;
//!
//! let deployments = table().resource("apps", "v1", "deployments").unwrap();
//! assert_eq!(deployments.kind, "Deployment");
//! let shape = table().shape("apps", "v1", "Deployment").unwrap();
//! assert!(shape.field("spec").is_some());
//! ```

mod normal;
mod parse;
mod shape;
mod structural;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::OnceLock;

pub use normal::{Normal, NormalError, is_zero, normal, wrapped, zero};
pub(crate) use normal::{base64, kind_of};
pub use shape::{Field, ListKind, Omit, Patch, Scalar, Shape, Shapes};

/// A served kind: what one REST path is called and can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResource {
    /// API group, empty for the core group.
    pub group: String,
    /// API version within the group.
    pub version: String,
    /// The name in paths.
    pub plural: String,
    /// The name for one object on the command line.
    pub singular: String,
    /// The `kind` of its objects.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What clients may do.
    pub verbs: Vec<String>,
    /// Abbreviations on the command line.
    pub short_names: Vec<String>,
    /// Collective names it answers to, such as `all`.
    pub categories: Vec<String>,
    /// What hangs below an object's path.
    pub subresources: Vec<Subresource>,
}

/// A path below an object, such as `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// Its last path segment.
    pub name: String,
    /// Group of the objects it takes and returns.
    pub group: String,
    /// Version of the objects it takes and returns.
    pub version: String,
    /// Kind of the objects it takes and returns.
    pub kind: String,
    /// What clients may do.
    pub verbs: Vec<String>,
}

type GroupVersionKind = (String, String, String);

/// Every resource and type of one Kubernetes version.
#[derive(Debug)]
pub struct Table {
    version: String,
    groups: Vec<(String, Vec<String>)>,
    resources: Vec<ApiResource>,
    shapes: Shapes,
    kinds: BTreeMap<GroupVersionKind, usize>,
}

/// The table of the Kubernetes version this crate was built for.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| parse::table(include_str!("../data/kubernetes.txt")))
}

impl Table {
    /// The Kubernetes version the table describes, such as `1.37.1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Groups in the order discovery lists them, each with its versions, the preferred one first.
    pub fn groups(&self) -> &[(String, Vec<String>)] {
        &self.groups
    }

    /// Every resource, grouped by group and version.
    pub fn resources(&self) -> &[ApiResource] {
        &self.resources
    }

    /// The resource behind a path.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&ApiResource> {
        self.resources
            .iter()
            .find(|r| r.group == group && r.version == version && r.plural == plural)
    }

    /// What objects of a kind look like.
    pub fn shape(&self, group: &str, version: &str, kind: &str) -> Option<Shape<'_>> {
        let key = (group.to_owned(), version.to_owned(), kind.to_owned());
        self.kinds.get(&key).map(|id| self.shapes.at(*id))
    }

    /// A type by its full name, such as `io.k8s.api.core.v1.PodSpec`.
    pub fn named(&self, name: &str) -> Option<Shape<'_>> {
        self.shapes.named(name)
    }

    /// What the metadata of every object looks like.
    pub fn object_meta(&self) -> Shape<'_> {
        self.named(OBJECT_META).unwrap_or(self.shapes.deduced())
    }
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
