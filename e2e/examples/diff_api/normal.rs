//! What two servers may say differently: identities, times, revisions, what they give out.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Fields of a Service whose value the server chose.
const ALLOCATED: [&str; 2] = ["/spec/clusterIP", "/spec/healthCheckNodePort"];

/// What each object was when it was last seen, by uid: its revision, all of it, and all but times.
pub(crate) type LastSeen = BTreeMap<String, [Value; 3]>;

/// An answer without what may differ. `seen` remembers objects, so that "changed" and "unchanged"
/// stay visible.
pub(crate) fn normal(body: &Value, seen: &mut LastSeen) -> Value {
    let mut body = body.clone();
    if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            object(item, seen);
            // Explained: our items always say their type, so that bytes are kept once.
            if let Some(item) = item.as_object_mut() {
                item.remove("apiVersion");
                item.remove("kind");
            }
        }
        blank(&mut body, "/metadata/resourceVersion", "<rv>");
        blank(&mut body, "/metadata/continue", "<continue>");
        // Explained: lists of custom resources say upstream that there is no more, ours say nothing.
        if let Some(metadata) = body["metadata"].as_object_mut() {
            metadata.retain(|field, value| field != "continue" || value != "");
        }
    } else if body["kind"] == "Status" {
        blank(&mut body, "/details/uid", "<uid>");
        unnamed(&mut body, "/details/name");
    } else {
        object(&mut body, seen);
    }
    body
}

fn object(object: &mut Value, seen: &mut LastSeen) {
    let mut before = object.clone();
    let revision = before
        .pointer_mut("/metadata/resourceVersion")
        .map(Value::take)
        .filter(|revision| revision != "");
    let uid = text(object, "/metadata/uid");
    unnamed(object, "/metadata/name");
    for condition in object
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter(|condition| condition["reason"] == "SchedulingGated")
    {
        blank(condition, "/lastTransitionTime", "<time>");
    }
    blank(object, "/metadata/uid", "<uid>");
    for field in ["creationTimestamp", "deletionTimestamp"] {
        blank(object, &format!("/metadata/{field}"), "<time>");
    }
    managers(object);
    // Kept as a set upstream.
    if object
        .pointer("/metadata/labels/kubernetes.io~1metadata.name")
        .is_some()
        && let Some(finalizers) = object
            .pointer_mut("/metadata/finalizers")
            .and_then(Value::as_array_mut)
    {
        finalizers.sort_by_cached_key(Value::to_string);
    }
    if object["kind"] == "Service" || object.pointer("/spec/clusterIPs").is_some() {
        allocated(object);
    }
    if let (Some(uid), Some(revision)) = (uid, revision) {
        blank(object, "/metadata/resourceVersion", "<rv>");
        let now = [revision, before, object.clone()];
        let last = seen.insert(uid, now.clone());
        let is_same = |[revision, all, rest]: [Value; 3]| {
            // A write of the same by the same manager is one if it falls into another second.
            revision == now[0] || (rest == now[2] && all != now[1])
        };
        let relation = if last.is_some_and(is_same) {
            "<same>"
        } else {
            "<new>"
        };
        object["metadata"]["resourceVersion"] = relation.into();
    }
}

/// Forgets the random part of a generated name, wherever it stands.
fn unnamed(body: &mut Value, pointer: &str) {
    let Some(name) = text(body, pointer) else {
        return;
    };
    let parts = name.strip_prefix('o').and_then(|rest| rest.split_once('-'));
    if let Some((key, suffix)) = parts
        && suffix.len() == 5
        && key.chars().all(|c| c.is_ascii_digit())
    {
        let text = body.to_string().replace(&name, &format!("o{key}-<suffix>"));
        *body = serde_json::from_str(&text).unwrap_or_default();
    }
}

fn text(object: &Value, pointer: &str) -> Option<String> {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .map(str::to_owned)
}

/// The order of managers follows the second in which they wrote, which is no promise.
fn managers(object: &mut Value) {
    let Some(managers) = object
        .pointer_mut("/metadata/managedFields")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    for manager in managers.iter_mut() {
        blank(manager, "/time", "<time>");
    }
    managers.sort_by_cached_key(|entry| {
        json!([
            entry["manager"],
            entry["operation"],
            entry["subresource"],
            entry["apiVersion"]
        ])
        .to_string()
    });
}

fn allocated(service: &mut Value) {
    let is_given = |value: &Value| value.as_str().is_none_or(|ip| ip.starts_with("10.96."));
    for pointer in ALLOCATED {
        if let Some(value) = service.pointer_mut(pointer).filter(|value| is_given(value)) {
            *value = "<given>".into();
        }
    }
    for address in service
        .pointer_mut("/spec/clusterIPs")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if is_given(address) {
            *address = "<given>".into();
        }
    }
    for port in service
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if port["nodePort"].as_u64().is_some_and(|port| port > 0) {
            port["nodePort"] = "<given>".into();
        }
    }
}

fn blank(value: &mut Value, pointer: &str, with: &str) {
    let is_said = |place: &&mut Value| place.as_str().is_some_and(|text| !text.is_empty());
    if let Some(place) = value.pointer_mut(pointer).filter(is_said) {
        *place = with.into();
    }
}

/// An object to build a request from, that fits both servers: what only the server knows becomes
/// a placeholder, what it tracks itself is left out.
pub(crate) fn portable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in [
            "managedFields",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "selfLink",
        ] {
            metadata.remove(field);
        }
    }
    let mut pointers: Vec<String> = [
        "/metadata/uid",
        "/metadata/resourceVersion",
        "/metadata/name",
        "/metadata/labels/kubernetes.io~1metadata.name",
    ]
    .map(str::to_owned)
    .into();
    if object["kind"] == "Service" {
        pointers.extend(
            [
                "/spec/clusterIP",
                "/spec/healthCheckNodePort",
                "/spec/clusterIPs/0",
            ]
            .map(str::to_owned),
        );
        let ports = object["spec"]["ports"].as_array().map_or(0, Vec::len);
        pointers.extend((0..ports).map(|index| format!("/spec/ports/{index}/nodePort")));
    }
    for pointer in pointers {
        if let Some(place) = object
            .pointer_mut(&pointer)
            .filter(|place| !place.is_null())
        {
            *place = format!("{{{{{pointer}}}}}").into();
        }
    }
    object
}
