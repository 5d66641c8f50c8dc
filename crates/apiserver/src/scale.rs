//! `scale`: the number of replicas, in the same form for every kind that has one.
//!
//! A Scale is read and written like any object, with owners of its own; what comes of it is carried
//! over to the object behind it.

use edgegrid_machinery::apply::{
    Element, ManagedError, ReplicasPaths, parent_managers, scale_managers,
};
use edgegrid_machinery::metadata;
use edgegrid_machinery::selector::LabelSelector;
use edgegrid_machinery::status::{FieldError, Status};
use serde_json::{Value, json};

use crate::answer::{Answer, Content};
use crate::request::{Live, Request};
use crate::served::{ScalePaths, scale_kind, set_field};
use crate::write::{Decoded, Ownership};
use crate::{body, patch, patch_type, write};

/// Answers GET of `scale`: the object's replicas as a Scale.
pub(crate) fn show(request: &Request<'_>) -> Result<Answer, Status> {
    let live = request.live(request.name())?;
    let scale = scale_of(&live.object, paths(request)?);
    Ok(Answer::ok(Content::Object(scale)))
}

/// PUT and PATCH of `scale`: sets the replicas of the object behind it.
pub(crate) fn write(request: &Request<'_>, is_patch: bool) -> Result<Answer, Status> {
    let paths = paths(request)?;
    let inner = request.about(scale_kind(), request.target.clone());
    let read = if is_patch {
        patch::read(&inner)?
    } else {
        let mut read = body::object(&inner.body, &inner.media_type)?;
        write::check_type(&inner, &mut read.value)?;
        read
    };
    request.retried(|| {
        let live = request.live(request.name())?;
        let old = managed_scale(request, &live, paths).map_err(Status::internal)?;
        let wanted = if !is_patch {
            tracked(&inner, &old, write::decode(&inner, read.clone())?)
        } else if patch_type::is_apply(&inner.media_type) {
            applied(request, &inner, &old, &read)?
        } else {
            tracked(&inner, &old, patch::patched(&inner, &old, &read)?)
        };
        check(&inner, &wanted.object, &live.object)?;
        let parent = parent(request, &live, paths, wanted).map_err(Status::internal)?;
        let answer = write::change(request, &live, parent, Ownership::Settled)?;
        answer
            .map(|answer| shown(request, answer, paths))
            .transpose()
    })
}

fn applied(
    request: &Request<'_>,
    inner: &Request<'_>,
    old: &Value,
    read: &body::Read,
) -> Result<Decoded, Status> {
    let outcome = patch::merged(inner, Some(old), &read.value)?;
    // The reference server has no way from a Scale to a custom kind.
    if outcome.changed && request.served.is_custom() {
        let name = request.name();
        return Err(Status::unmergeable(format!(
            "failed to convert new object (/{name}; autoscaling/v1, Kind=Scale) to proper version: \
             request to convert CR to an invalid group/version: autoscaling/v1"
        )));
    }
    patch::decode_applied(inner, outcome.object, read)
}

fn tracked(inner: &Request<'_>, old: &Value, wanted: Decoded) -> Decoded {
    Decoded {
        object: write::tracked(inner, Some(old), &wanted.object),
        ..wanted
    }
}

fn check(inner: &Request<'_>, scale: &Value, parent: &Value) -> Result<(), Status> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let error = FieldError::invalid("spec.replicas", replicas, why);
        let kind = inner.served.group_kind();
        return Err(Status::invalid(&kind, inner.name(), &[error]));
    }
    metadata::check_name(scale, inner.name())?;
    // An object that shall not be somebody else's is named by its uid.
    metadata::check_uid(scale, parent, &inner.served.group_resource())
}

/// The object behind a Scale, with its replicas and their owners.
fn parent(
    request: &Request<'_>,
    live: &Live,
    paths: &ScalePaths,
    scale: Decoded,
) -> Result<Decoded, ManagedError> {
    let mut object = live.object.clone();
    let Decoded {
        object: scale,
        warnings,
    } = scale;
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    set(&mut object, &paths.spec_replicas, replicas.into());
    let managers = parent_managers(
        &live.object["metadata"]["managedFields"],
        &scale["metadata"]["managedFields"],
        &replicas_paths(request, paths),
        &request.served.read.api_version(),
    )?;
    // Without a revision the replicas are set whatever the object has become.
    if !metadata::revision(&scale).is_empty() {
        object["metadata"]["resourceVersion"] = metadata::revision(&scale).into();
    }
    set_field(&mut object["metadata"], "managedFields", Some(&managers));
    Ok(Decoded { object, warnings })
}

fn managed_scale(
    request: &Request<'_>,
    live: &Live,
    paths: &ScalePaths,
) -> Result<Value, ManagedError> {
    let mut scale = scale_of(&live.object, paths);
    let parent = &live.object["metadata"]["managedFields"];
    let managers = scale_managers(parent, &replicas_paths(request, paths))?;
    set_field(&mut scale["metadata"], "managedFields", Some(&managers));
    Ok(scale)
}

/// Versions of a kind keep their replicas at the same place, as conversion changes nothing.
fn replicas_paths(request: &Request<'_>, paths: &ScalePaths) -> ReplicasPaths {
    let path: Vec<Element> = paths.spec_replicas.split('.').map(Element::field).collect();
    let versions = request.served.api_versions();
    versions.into_iter().map(|it| (it, path.clone())).collect()
}

fn shown(request: &Request<'_>, answer: Answer, paths: &ScalePaths) -> Result<Answer, Status> {
    let object = match answer.content {
        Content::Stored(entry) => crate::request::live(&request.served, entry)?.object,
        Content::Object(object) => object,
        Content::Status(status) => return Err(status),
    };
    Ok(Answer {
        content: Content::Object(scale_of(&object, paths)),
        ..answer
    })
}

fn paths<'a>(request: &'a Request<'_>) -> Result<&'a ScalePaths, Status> {
    let paths = request.served.scale.as_ref();
    paths.ok_or_else(Status::unknown_path)
}

fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let metadata = &object["metadata"];
    let mut kept = json!({ "name": metadata["name"] });
    for field in ["namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if !metadata[field].is_null() {
            kept[field] = metadata[field].clone();
        }
    }
    let number = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut status = json!({ "replicas": number(&paths.status_replicas) });
    let selector = paths.selector.as_deref().and_then(|path| at(object, path));
    let selector = selector.and_then(|selector| match selector {
        Value::String(text) => Some(text.clone()),
        other => LabelSelector::from_json(other)
            .ok()
            .flatten()
            .map(|s| s.to_string()),
    });
    if let Some(selector) = selector {
        status["selector"] = selector.into();
    }
    let mut spec = json!({});
    if number(&paths.spec_replicas) != 0 {
        spec["replicas"] = number(&paths.spec_replicas).into();
    }
    json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept, "spec": spec, "status": status })
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(object, |object, step| object.get(step))
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for step in path.split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[step];
    }
    *place = value;
}
