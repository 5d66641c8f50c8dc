//! Definitions of custom resources: served as soon as they are stored, gone with their last object.
//!
//! The reference server does this by controllers, a moment later; here it is part of the write.

use edgegrid_machinery::metadata;
use edgegrid_machinery::schema::Schema;
use edgegrid_machinery::status::Status;
use serde_json::{Value, json};

use crate::path::Target;
use crate::registry::text;
use crate::request::{Request, live};
use crate::served::{key_prefix, set_field};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
/// The finalizer that keeps a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Whether the request is about definitions of custom resources.
pub(crate) fn is_crd(request: &Request<'_>) -> bool {
    request.served.read.group == GROUP && request.served.read.plural == PLURAL
}

/// Sets the conditions of a definition that is served.
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
pub(crate) fn serve(request: &Request<'_>, object: &Value) {
    if is_crd(request)
        && let Err(errors) = request.server.registry.define(object)
    {
        // Checked before it was stored, so this is a bug of the server.
        tracing::error!(
            definition = metadata::name(object),
            ?errors,
            "cannot serve CustomResourceDefinition"
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

/// A request for each object of a definition.
pub(crate) fn instances<'a>(request: &Request<'a>, crd: &Value) -> Vec<Request<'a>> {
    let (group, plural) = (text(crd, "/spec/group"), text(crd, "/spec/names/plural"));
    let registry = &request.server.registry;
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let served = versions
        .filter(|version| version["served"] == true)
        .find_map(|version| registry.resource(&group, &text(version, "/name"), &plural));
    let Some(served) = served else {
        return Vec::new();
    };
    let snapshot = request.server.reader.store().snapshot();
    let snapshot = snapshot.under(&served.read.key_prefix);
    let objects = snapshot
        .iter()
        .filter_map(|entry| live(&served, entry.clone()).ok());
    objects
        .map(|live| {
            let metadata = &live.object["metadata"];
            let target = Target {
                name: metadata["name"].as_str().map(str::to_owned),
                namespace: metadata["namespace"].as_str().map(str::to_owned),
                ..request.target.clone()
            };
            request.about(served.clone(), target)
        })
        .collect()
}

/// A definition that is being deleted and has no objects any more, without the finalizer that waited
/// for them, and the request that writes it.
pub(crate) fn finalized<'a>(request: &Request<'a>, name: &str) -> Option<(Request<'a>, Value)> {
    let server = request.server;
    let definitions = server.registry.resource(GROUP, "v1", PLURAL)?;
    let entry = server
        .reader
        .store()
        .get(&definitions.read.key(None, name))?;
    let mut crd = live(&definitions, entry).ok()?.object;
    let prefix = key_prefix(
        &text(&crd, "/spec/group"),
        &text(&crd, "/spec/names/plural"),
    );
    let snapshot = server.reader.store().snapshot().under(&prefix);
    if crd["metadata"]["deletionTimestamp"].is_null() || snapshot.iter().next().is_some() {
        return None;
    }
    let finalizers = crd["metadata"]["finalizers"].as_array();
    let others = finalizers.into_iter().flatten();
    let others: Vec<Value> = others.filter(|name| *name != CLEANUP).cloned().collect();
    let others = (!others.is_empty()).then(|| json!(others));
    set_field(&mut crd["metadata"], "finalizers", others.as_ref());
    let target = Target {
        name: Some(name.to_owned()),
        ..request.target.clone()
    };
    Some((request.about(definitions, target), crd))
}
