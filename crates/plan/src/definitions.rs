//! What should become of a definition of ours in a cluster that may already have one.
//!
//! ```text
//! live                                   decision
//! none                                   create
//! older, SuperEdge's, or cut down        upgrade: our version's schema, columns and subresources;
//!                                        everything else stays as it is
//! ours                                   keep, whatever an administrator added
//! newer                                  keep and say so: never downgrade
//! ```
//!
//! Definitions are JSON here, so that fields of a newer Kubernetes in what others wrote survive.

use std::collections::BTreeSet;

use edgegrid_api::names::{annotation, manager};
use serde_json::{Map, Value, json};

use crate::step::{ObjectId, ObjectKind, Step};

/// What to do about one definition.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It is good as it is.
    Keep,
    /// It is to be created or upgraded.
    Write(Step),
    /// It comes from a newer edgegrid, with this schema version.
    Newer(u64),
}

/// Decides about the definition `wanted`, of which the cluster has `live`.
pub fn decide(wanted: &Value, live: Option<&Value>) -> Decision {
    let id = ObjectId::cluster(
        ObjectKind::CustomResourceDefinition,
        text(wanted, "/metadata/name"),
    );
    let Some(live) = live else {
        let body = wanted.clone();
        return Decision::Write(Step::Create { id, body });
    };
    let (ours, theirs) = (schema_version(wanted), schema_version(live));
    if theirs > ours {
        return Decision::Newer(theirs);
    }
    if theirs == ours && is_whole(wanted, live) && !is_rewritten_by_superedge(live) {
        return Decision::Keep;
    }
    let operations = upgrade(wanted, live);
    if operations.is_empty() {
        return Decision::Keep;
    }
    Decision::Write(Step::Patch {
        id,
        resource_version: text(live, "/metadata/resourceVersion").into(),
        operations,
    })
}

/// The schema version that a definition carries; one without is older than all.
pub fn schema_version(definition: &Value) -> u64 {
    let noted = &definition["metadata"]["annotations"][annotation::SCHEMA_VERSION];
    noted
        .as_str()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// Whether our version is served as we need it. The annotation alone does not say so: who applies
/// an old manifest by hand leaves it in place.
fn is_whole(wanted: &Value, live: &Value) -> bool {
    let ours = &wanted["spec"]["versions"][0];
    let entry = list(&live["spec"]["versions"]).find(|version| version["name"] == ours["name"]);
    entry.is_some_and(|entry| {
        entry["served"] == json!(true)
            && keys(&ours["subresources"]).is_subset(&keys(&entry["subresources"]))
    })
}

/// SuperEdge's controllers put their own versions back, every minute while they run.
fn is_rewritten_by_superedge(live: &Value) -> bool {
    list(&live["metadata"]["managedFields"]).any(|entry| {
        let name = entry["manager"].as_str().unwrap_or_default();
        manager::SUPEREDGE.contains(&name) && !entry["fieldsV1"]["f:spec"]["f:versions"].is_null()
    })
}

/// The operations that make `live` serve what `wanted` says.
fn upgrade(wanted: &Value, live: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    let mut set = |path: &str, value: Value| {
        if live.pointer(path) != Some(&value) {
            operations.push(json!({ "op": "add", "path": path, "value": value }));
        }
    };
    set("/metadata/annotations", annotations(wanted, live));
    if live["spec"]["preserveUnknownFields"] == json!(true) {
        set("/spec/preserveUnknownFields", json!(false));
    }
    for field in ["shortNames", "categories"] {
        let union = union(
            &wanted["spec"]["names"][field],
            &live["spec"]["names"][field],
        );
        if !union.is_empty() {
            set(&format!("/spec/names/{field}"), json!(union));
        }
    }
    let versions = versions(&wanted["spec"]["versions"][0], &live["spec"]["versions"]);
    set("/spec/versions", versions);
    operations
}

fn annotations(wanted: &Value, live: &Value) -> Value {
    let mut all = object(&live["metadata"]["annotations"]);
    all.extend(object(&wanted["metadata"]["annotations"]));
    Value::Object(all)
}

/// The live versions with ours among them; new objects are stored in ours.
fn versions(ours: &Value, live: &Value) -> Value {
    let is_ours = |version: &Value| version["name"] == ours["name"];
    let mut versions: Vec<Value> = Vec::new();
    for version in list(live) {
        if is_ours(version) {
            versions.push(merged(ours, version));
            continue;
        }
        let mut other = version.clone();
        other["storage"] = json!(false);
        versions.push(other);
    }
    if !list(live).any(is_ours) {
        versions.push(ours.clone());
    }
    Value::Array(versions)
}

/// Our version as it is served, with what others added to it.
fn merged(ours: &Value, live: &Value) -> Value {
    const COLUMNS: &str = "additionalPrinterColumns";
    let mut version = object(live);
    version.extend(object(ours));
    let mut subresources = object(&live["subresources"]);
    subresources.extend(object(&ours["subresources"]));
    if !subresources.is_empty() {
        version.insert("subresources".into(), Value::Object(subresources));
    }
    let columns = columns(&ours[COLUMNS], &live[COLUMNS]);
    if !columns.is_empty() {
        version.insert(COLUMNS.into(), Value::Array(columns));
    }
    Value::Object(version)
}

/// Our columns, then those whose title only others have. Tables show titles in capitals.
fn columns(ours: &Value, live: &Value) -> Vec<Value> {
    let title = |column: &Value| text(column, "/name").to_uppercase();
    let titles: BTreeSet<String> = list(ours).map(title).collect();
    let theirs = list(live).filter(|column| !titles.contains(&title(column)));
    list(ours).chain(theirs).cloned().collect()
}

/// Words of ours, then those that only others have.
fn union(ours: &Value, live: &Value) -> Vec<Value> {
    let theirs = list(live).filter(|word| list(ours).all(|our| our != *word));
    list(ours).chain(theirs).cloned().collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn keys(value: &Value) -> BTreeSet<&String> {
    value.as_object().into_iter().flat_map(Map::keys).collect()
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
