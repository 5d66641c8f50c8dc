//! `scale`: the number of replicas, in the same form for every kind that has one.

use edgegrid_machinery::apply::{
    Element, TableVersions, Writer, parent_managers, scale_managers, track_update,
};
use edgegrid_machinery::patch::{json_patch, merge_patch};
use edgegrid_machinery::selector::LabelSelector;
use edgegrid_machinery::status::{FieldError, GroupResource, Status};
use serde_json::{Value, json};

use crate::answer::{Answer, Content};
use crate::body;
use crate::request::Request;
use crate::served::ScalePaths;
use crate::update::TRIES;
use crate::write::{self, Ownership};

const SCALE: TableVersions<'static> = TableVersions {
    group: "autoscaling",
    kind: "Scale",
};

/// GET of `scale`.
pub(crate) fn show(request: &Request<'_>) -> Result<Answer, Status> {
    let paths = paths(request)?;
    let live = request.live(request.name())?;
    Ok(Answer::ok(Content::Object(scale_of(&live.object, paths))))
}

/// PUT and PATCH of `scale`: sets the replicas of the object behind it.
pub(crate) fn write(request: &Request<'_>, is_patch: bool) -> Result<Answer, Status> {
    let paths = paths(request)?;
    let body = body::json(&request.body)?.value;
    for _ in 0..TRIES {
        let live = request.live(request.name())?;
        let scale = scale_of(&live.object, paths);
        let wanted = if is_patch {
            patched(request, &scale, &body)?
        } else {
            body.clone()
        };
        let replicas = replicas(&wanted)?;
        let mut object = live.object.clone();
        set(&mut object, &paths.spec_replicas, replicas.into());
        object["metadata"]["managedFields"] = owners(request, paths, &live.object, replicas)?;
        let revision = wanted["metadata"]["resourceVersion"].clone();
        if !revision.is_null() && revision != live.object["metadata"]["resourceVersion"] {
            break;
        }
        if let Some(mut answer) = write::change(request, &live, object, Ownership::Settled)? {
            answer.content = Content::Object(scale_of(&shown(request, answer.content)?, paths));
            return Ok(answer);
        }
    }
    Err(Status::modified(
        &request.served.group_resource(),
        request.name(),
    ))
}

/// Who owns the fields of the object after its Scale was written: ownership is settled on the Scale,
/// which has one field of the object, and then carried back.
fn owners(
    request: &Request<'_>,
    paths: &ScalePaths,
    object: &Value,
    replicas: i64,
) -> Result<Value, Status> {
    let list = &object["metadata"]["managedFields"];
    let path: Vec<Element> = paths.spec_replicas.split('.').map(Element::field).collect();
    let versions = request.served.api_versions();
    let places = versions
        .into_iter()
        .map(|version| (version, path.clone()))
        .collect();
    let mut before = scale_of(object, paths);
    before["metadata"]["managedFields"] =
        scale_managers(list, &places).map_err(Status::internal)?;
    let mut after = before.clone();
    // A Scale of none does not say so, and so nobody owns that.
    after["spec"] = match replicas {
        0 => json!({}),
        replicas => json!({ "replicas": replicas }),
    };
    let after = write::as_writer(request, |writer| {
        let writer = Writer {
            versions: &SCALE,
            api_version: "autoscaling/v1",
            ..*writer
        };
        track_update(&writer, Some(&before), &after)
    });
    let (scale, version) = (
        &after["metadata"]["managedFields"],
        request.served.read.api_version(),
    );
    parent_managers(list, scale, &places, &version).map_err(Status::internal)
}

fn shown(request: &Request<'_>, content: Content) -> Result<Value, Status> {
    match content {
        Content::Stored(entry) => Ok(crate::request::live(&request.served, entry)?.object),
        Content::Object(object) => Ok(object),
        Content::Status(status) => Err(status),
    }
}

fn patched(request: &Request<'_>, scale: &Value, patch: &Value) -> Result<Value, Status> {
    let result = match request.media_type.as_str() {
        "application/json-patch+json" => json_patch(scale, patch),
        // A Scale has no lists, so both merge alike.
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            merge_patch(scale, patch)
        }
        _ => {
            return Err(Status::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
            ]));
        }
    };
    result.map_err(|error| Status::bad_request(error.to_string()))
}

fn replicas(scale: &Value) -> Result<i64, Status> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let error = FieldError::invalid("spec.replicas", replicas, why);
        let name = scale["metadata"]["name"].as_str().unwrap_or_default();
        return Err(Status::invalid(
            &GroupResource::new("autoscaling", "Scale"),
            name,
            &[error],
        ));
    }
    Ok(replicas)
}

fn paths<'a>(request: &'a Request<'_>) -> Result<&'a ScalePaths, Status> {
    request
        .served
        .scale
        .as_ref()
        .ok_or_else(Status::unknown_path)
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
