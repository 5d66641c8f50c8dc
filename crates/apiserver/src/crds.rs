//! Definitions of custom resources: served as soon as they are stored, gone with their last object.
//!
//! The reference server does this by controllers, a moment later; here it is part of the write.

use edgegrid_machinery::schema::Schema;
use edgegrid_machinery::status::{FieldError, Status};
use edgegrid_store::Expect;
use serde_json::{Value, json};

use crate::registry::text;
use crate::request::{Request, live};
use crate::served::{key_prefix, put};
use crate::{delete, write};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
/// Holds a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn is_crd(request: &Request<'_>) -> bool {
    request.served.read.group == GROUP && request.served.read.plural == PLURAL
}

/// Fills in names, and says in the status that the definition is in force.
pub(crate) fn prepare(request: &Request<'_>, object: &mut Value, old: Option<&Value>) {
    if !is_crd(request) || request.subresource().is_some() {
        return;
    }
    let kind = text(object, "/spec/names/kind");
    for (field, default) in [
        ("singular", kind.to_lowercase()),
        ("listKind", format!("{kind}List")),
    ] {
        if text(object, &format!("/spec/names/{field}")).is_empty()
            && object["spec"]["names"].is_object()
        {
            object["spec"]["names"][field] = default.into();
        }
    }
    if object["spec"]["conversion"].is_null() && object["spec"].is_object() {
        object["spec"]["conversion"] = json!({ "strategy": "None" });
    }
    let now = request.server.clock.stamp();
    let since = |kind: &str| {
        let old = old.and_then(|old| old["status"]["conditions"].as_array());
        let found = old
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == kind && condition["status"] == "True");
        found.map_or_else(
            || now.clone(),
            |condition| text(condition, "/lastTransitionTime"),
        )
    };
    let condition = |kind: &str, reason: &str, message: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": since(kind), "reason": reason, "message": message });
    object["status"] = json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": object["spec"]["names"],
        "storedVersions": stored_versions(object, old),
    });
}

/// Every version that objects may be stored in.
fn stored_versions(object: &Value, old: Option<&Value>) -> Vec<String> {
    let old = old.and_then(|old| old["status"]["storedVersions"].as_array());
    let mut versions: Vec<String> = old
        .into_iter()
        .flatten()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect();
    let all = object["spec"]["versions"].as_array().into_iter().flatten();
    for version in all.filter(|version| version["storage"] == true) {
        let name = text(version, "/name");
        if !versions.contains(&name) {
            versions.push(name);
        }
    }
    versions
}

/// Refuses a definition that could not be served.
pub(crate) fn check(request: &Request<'_>, object: &Value) -> Result<(), Status> {
    if !is_crd(request) || request.subresource().is_some() {
        return Ok(());
    }
    let mut errors = Vec::new();
    let name = text(object, "/metadata/name");
    let expected = format!(
        "{}.{}",
        text(object, "/spec/names/plural"),
        text(object, "/spec/group")
    );
    if name != expected {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name.as_str(), why));
    }
    let empty = Vec::new();
    let versions = object["spec"]["versions"].as_array().unwrap_or(&empty);
    for (number, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{number}].schema.openAPIV3Schema");
        match &version["schema"]["openAPIV3Schema"] {
            Value::Null => errors.push(FieldError::required(at, "schemas are required")),
            schema => errors.extend(Schema::parse(schema, &at).err().into_iter().flatten()),
        }
    }
    if versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count()
        != 1
    {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(
            "spec.versions",
            object["spec"]["versions"].clone(),
            why,
        ));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(
            &request.served.group_kind(),
            &name,
            &errors,
        ))
    }
}

/// Serves what was just stored.
pub(crate) fn after_write(request: &Request<'_>, object: &Value) {
    if is_crd(request)
        && let Err(errors) = request.server.registry.define(object)
    {
        // Checked before it was stored, so this is a defect.
        tracing::error!(
            definition = text(object, "/metadata/name"),
            ?errors,
            "definition cannot be served"
        );
    }
}

/// A definition waits for its objects.
pub(crate) fn prepare_delete(request: &Request<'_>, object: &mut Value) {
    if !is_crd(request) {
        return;
    }
    let mut finalizers: Vec<Value> = object["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if object["metadata"]["deletionTimestamp"].is_null()
        && !finalizers.iter().any(|name| name == CLEANUP)
    {
        finalizers.push(CLEANUP.into());
        object["metadata"]["finalizers"] = finalizers.into();
    }
}

/// Removes the objects of a definition that is going, and the definition after the last.
pub(crate) fn after_delete_mark(request: &Request<'_>, crd: &Value) {
    if !is_crd(request) || request.options.dry_run {
        return;
    }
    let (group, plural) = (text(crd, "/spec/group"), text(crd, "/spec/names/plural"));
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let served = versions
        .filter(|version| version["served"] == true)
        .find_map(|version| {
            request
                .server
                .registry
                .resource(&group, &text(version, "/name"), &plural)
        });
    if let Some(served) = served {
        let store = request.server.reader.store();
        for entry in store.snapshot().under(&served.read.key_prefix).iter() {
            let Ok(live) = live(&served, entry.clone()) else {
                continue;
            };
            let mut target = request.target.clone();
            target.name = Some(text(&live.object, "/metadata/name"));
            target.namespace = live.object["metadata"]["namespace"]
                .as_str()
                .map(str::to_owned);
            let each = request.about(served.clone(), target);
            if let Err(status) = delete::delete_object(&each, &delete::Wish::default()) {
                tracing::warn!(
                    key = entry.key(),
                    "delete with its definition: {}",
                    status.message()
                );
            }
        }
    }
    finish(request, &format!("{plural}.{group}"));
}

/// Something was removed: a definition, or perhaps the last object of one that is going.
pub(crate) fn after_removal(request: &Request<'_>, object: &Value) {
    if is_crd(request) {
        request.server.registry.undefine(object);
    } else if request.served.is_custom() {
        let read = &request.served.read;
        finish(request, &format!("{}.{}", read.plural, read.group));
    }
}

/// Lets a going definition go when it has no objects any more.
fn finish(request: &Request<'_>, name: &str) {
    let server = request.server;
    let Some(definitions) = server.registry.resource(GROUP, "v1", PLURAL) else {
        return;
    };
    let Some(entry) = server.reader.store().get(&definitions.read.key(None, name)) else {
        return;
    };
    let Ok(mut crd) = live(&definitions, entry).map(|live| live.object) else {
        return;
    };
    let prefix = key_prefix(
        &text(&crd, "/spec/group"),
        &text(&crd, "/spec/names/plural"),
    );
    let is_empty = server
        .reader
        .store()
        .snapshot()
        .under(&prefix)
        .iter()
        .next()
        .is_none();
    if crd["metadata"]["deletionTimestamp"].is_null() || !is_empty {
        return;
    }
    let finalizers = crd["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten();
    let left: Vec<Value> = finalizers
        .filter(|name| *name != CLEANUP)
        .cloned()
        .collect();
    put(
        &mut crd["metadata"],
        "finalizers",
        (!left.is_empty()).then(|| json!(left)).as_ref(),
    );
    let target = crate::path::Target {
        name: Some(name.to_owned()),
        ..request.target.clone()
    };
    let each = request.about(definitions, target);
    let done = if left.is_empty() {
        write::remove(&each, &crd, Expect::Present)
    } else {
        write::put(&each, name, &crd, Expect::Present)
    };
    if let Err(error) = done {
        tracing::warn!(name, "finish the deletion of a definition: {error}");
    }
}
