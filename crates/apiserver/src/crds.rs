//! Definitions of custom resources: served as soon as they are stored, gone with their last object.
//!
//! The reference server does this by controllers, a moment later; here it is part of the write.

use edgegrid_machinery::metadata;
use edgegrid_machinery::schema::Schema;
use edgegrid_machinery::status::Status;
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

/// Says in the status that the definition is in force.
pub(crate) fn prepare(request: &Request<'_>, object: &mut Value, old: Option<&Value>) {
    if !is_crd(request) || request.subresource().is_some() {
        return;
    }
    let now = request.server.clock.stamp();
    let condition = |kind: &str, reason: &str, message: &str| {
        let old = old.and_then(|old| old["status"]["conditions"].as_array());
        let mut old = old.into_iter().flatten();
        let same = old.find(|it| it["type"] == kind && it["status"] == "True");
        let since = same.map_or(now.as_str().into(), |it| it["lastTransitionTime"].clone());
        json!({
            "type": kind, "status": "True", "lastTransitionTime": since,
            "reason": reason, "message": message,
        })
    };
    object["status"]["conditions"] = json!([
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition(
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted"
        ),
    ]);
    object["status"]["acceptedNames"] = object["spec"]["names"].clone();
}

/// Refuses a definition whose schemas could not be served.
pub(crate) fn check(request: &Request<'_>, object: &Value) -> Result<(), Status> {
    if !is_crd(request) || request.subresource().is_some() {
        return Ok(());
    }
    let versions = object["spec"]["versions"].as_array().into_iter().flatten();
    let errors: Vec<_> = versions
        .enumerate()
        .filter_map(|(number, version)| {
            let at = format!("spec.versions[{number}].schema.openAPIV3Schema");
            Schema::parse(&version["schema"]["openAPIV3Schema"], &at).err()
        })
        .flatten()
        .collect();
    if errors.is_empty() {
        return Ok(());
    }
    let kind = request.served.group_kind();
    Err(Status::invalid(&kind, metadata::name(object), &errors))
}

/// Serves what was just stored.
pub(crate) fn after_write(request: &Request<'_>, object: &Value) {
    if is_crd(request)
        && let Err(errors) = request.server.registry.define(object)
    {
        // Checked before it was stored, so this is a defect.
        tracing::error!(
            definition = metadata::name(object),
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
            target.name = Some(metadata::name(&live.object).to_owned());
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
