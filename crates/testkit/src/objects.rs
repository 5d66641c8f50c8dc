//! Objects as an API server keeps them, without one: for tests of pure plans.
//!
//! Ownership of fields, finalizers, uids and revisions are Kubernetes' own, by the code that the
//! embedded server runs; there is no admission, defaulting or validation, and no time passes.
//!
//! ```
//! use edgegrid_testkit::objects::{Objects, Name};
//! use serde_json::json;
//!
//! let mut objects = Objects::default();
//! let node = Name::node("a");
//! objects.create(&node, &json!({}), "kubelet").unwrap();
//! let uid = objects.get(&node).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
//! let body = json!({ "metadata": { "labels": { "zone": "x" } } });
//! objects.apply(&node, &body, "me", Some(&uid)).unwrap();
//! objects.apply(&node, &json!({}), "me", Some(&uid)).unwrap();
//! assert_eq!(objects.get(&node).unwrap()["metadata"]["labels"], json!(null));
//! ```

use std::collections::BTreeMap;
use std::sync::LazyLock;

use edgegrid_machinery::apply::{
    PathSet, PlainVersions, Writer, apply, restore_times, track_update,
};
use edgegrid_machinery::patch::json_patch;
use edgegrid_machinery::table::{Shapes, table};
use serde_json::{Value, json};

/// The moment at which everything happens: long ago, so that nothing seems recent.
const THEN: &str = "2026-01-01T00:00:00Z";

/// What an object is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Group, empty for the core one.
    pub group: String,
    /// API version within the group.
    pub version: String,
    /// Kind, such as `Node`.
    pub kind: String,
    /// Namespace, if its kind has them.
    pub namespace: Option<String>,
    /// `metadata.name` of the object.
    pub name: String,
}

/// Why a write was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such object.
    Missing,
    /// There is one already.
    AlreadyExists,
    /// It is another than the writer saw, or somebody else's.
    Conflict(String),
    /// It makes no sense.
    Invalid(String),
}

/// A cluster's objects; a clone is another cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    stored: BTreeMap<Name, Value>,
    revision: u64,
}

impl Name {
    /// The name of a Node.
    pub fn node(name: &str) -> Self {
        Self::cluster(("", "v1", "Node"), name)
    }

    /// An object of a kind (group, version, kind) without namespaces.
    pub fn cluster((group, version, kind): (&str, &str, &str), name: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            namespace: None,
            name: name.into(),
        }
    }

    fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl Objects {
    /// The object as it is stored, if there is one.
    pub fn get(&self, name: &Name) -> Option<&Value> {
        self.stored.get(name)
    }

    /// All objects of a kind.
    pub fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let of_kind = self
            .stored
            .iter()
            .filter(move |(name, _)| name.kind == kind);
        of_kind.map(|(_, object)| object)
    }

    /// The objects without revisions, times and owners of fields: what people see.
    pub fn seen(&self) -> BTreeMap<Name, Value> {
        let mut stored = self.stored.clone();
        for object in stored.values_mut() {
            for field in ["resourceVersion", "managedFields"] {
                object["metadata"][field].take();
            }
            drop_empty(object);
        }
        stored
    }

    /// Creates an object, as a POST does.
    pub fn create(&mut self, name: &Name, body: &Value, manager: &str) -> Result<(), Refusal> {
        if self.stored.contains_key(name) {
            return Err(Refusal::AlreadyExists);
        }
        let mut object = body.clone();
        self.identify(name, &mut object);
        let object = written(name, manager, |writer| track_update(writer, None, &object));
        self.store(name, object);
        Ok(())
    }

    /// An apply: forced and only on the object of that uid, or not forced at all.
    pub fn apply(
        &mut self,
        name: &Name,
        body: &Value,
        manager: &str,
        uid: Option<&str>,
    ) -> Result<(), Refusal> {
        let live = self.stored.get(name);
        if let (Some(uid), live) = (uid, live) {
            let live = live.ok_or_else(|| Refusal::Conflict("uid of nothing".into()))?;
            same(&live["metadata"]["uid"], uid)?;
        }
        let mut body = body.clone();
        body["apiVersion"] = json!(name.api_version());
        body["kind"] = json!(name.kind);
        body["metadata"]["name"] = json!(name.name);
        let outcome = written(name, manager, |writer| {
            apply(writer, live, &body, uid.is_some())
        });
        let mut object = outcome
            .map_err(|error| match error.code() {
                409 => Refusal::Conflict(error.to_string()),
                _ => Refusal::Invalid(error.to_string()),
            })?
            .object;
        if live.is_none() {
            self.identify(name, &mut object);
        }
        self.store(name, object);
        Ok(())
    }

    /// RFC 6902 operations on the object at that revision.
    pub fn patch(
        &mut self,
        name: &Name,
        resource_version: &str,
        operations: &[Value],
        manager: &str,
    ) -> Result<(), Refusal> {
        let live = self.stored.get(name).ok_or(Refusal::Missing)?;
        same(&live["metadata"]["resourceVersion"], resource_version)?;
        let new = json_patch(live, &json!(operations));
        let new = new.map_err(|error| Refusal::Invalid(error.to_string()))?;
        self.replace(name, &new, manager)
    }

    /// A PUT by somebody who changes what there is.
    pub fn update(
        &mut self,
        name: &Name,
        manager: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<(), Refusal> {
        let mut new = self.stored.get(name).ok_or(Refusal::Missing)?.clone();
        change(&mut new);
        self.replace(name, &new, manager)
    }

    /// A DELETE, of the object of that uid if one is given.
    pub fn delete(&mut self, name: &Name, uid: Option<&str>) -> Result<(), Refusal> {
        let live = self.stored.get(name).ok_or(Refusal::Missing)?;
        if let Some(uid) = uid {
            same(&live["metadata"]["uid"], uid)?;
        }
        let mut object = live.clone();
        object["metadata"]["deletionTimestamp"] = json!(THEN);
        self.store(name, object);
        Ok(())
    }

    fn replace(&mut self, name: &Name, new: &Value, manager: &str) -> Result<(), Refusal> {
        let live = self.stored.get(name).ok_or(Refusal::Missing)?;
        let object = written(name, manager, |writer| {
            track_update(writer, Some(live), new)
        });
        self.store(name, object);
        Ok(())
    }

    fn identify(&mut self, name: &Name, object: &mut Value) {
        self.revision += 1;
        object["apiVersion"] = json!(name.api_version());
        object["kind"] = json!(name.kind);
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(name.name);
        metadata["uid"] = json!(format!("uid-{}", self.revision));
        metadata["generation"] = json!(1);
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = json!(THEN);
        }
    }

    /// Keeps an object, unless it is as before or on its way out with nothing to wait for.
    fn store(&mut self, name: &Name, mut object: Value) {
        drop_empty(&mut object);
        if name.kind == "Node" && object["spec"].is_null() {
            object["spec"] = json!({}); // always encoded
        }
        let metadata = &object["metadata"];
        let waits = metadata["finalizers"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        if !metadata["deletionTimestamp"].is_null() && !waits {
            self.stored.remove(name);
            return;
        }
        if let Some(live) = self.stored.get(name) {
            restore_times(live, &mut object);
            if *live == object {
                return;
            }
        }
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.stored.insert(name.clone(), object);
    }
}

fn same(live: &Value, seen: &str) -> Result<(), Refusal> {
    match live.as_str() {
        Some(live) if live == seen => Ok(()),
        other => Err(Refusal::Conflict(format!("{other:?} is not {seen}"))),
    }
}

/// Maps and lists that are empty are not there, as in what Kubernetes encodes.
fn drop_empty(value: &mut Value) {
    let Value::Object(map) = value else { return };
    for (key, inner) in map.iter_mut() {
        if key != "managedFields" {
            drop_empty(inner);
        }
    }
    map.retain(|key, inner| match inner {
        Value::Object(inner) => !inner.is_empty() || key == "metadata" || key == "spec",
        Value::Array(inner) => !inner.is_empty(),
        Value::Null => false,
        _ => true,
    });
}

/// Lets `write` happen as Kubernetes would track it for this kind.
fn written<T>(name: &Name, manager: &str, write: impl FnOnce(&Writer<'_>) -> T) -> T {
    static CUSTOM: LazyLock<BTreeMap<String, Shapes>> = LazyLock::new(custom_shapes);
    let api_version = name.api_version();
    let built_in = || table().shape(&name.group, &name.version, &name.kind);
    let shape = CUSTOM.get(&name.kind).map(Shapes::root).or_else(built_in);
    let versions = PlainVersions(
        shape
            .map(|shape| (api_version.clone(), shape))
            .into_iter()
            .collect(),
    );
    write(&Writer {
        versions: &versions,
        api_version: &api_version,
        subresource: None,
        manager,
        reset: &PathSet::default(),
        now: THEN,
    })
}

fn custom_shapes() -> BTreeMap<String, Shapes> {
    let shapes = edgegrid_api::crds().into_iter().map(|crd| {
        let schema = json!(crd.spec.versions[0].schema)["openAPIV3Schema"].clone();
        (crd.spec.names.kind, Shapes::structural(&schema))
    });
    shapes.collect()
}
