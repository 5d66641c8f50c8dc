//! Defaults of pods that depend on other fields.

use super::default::{fill, inner};
use serde_json::{Map, Value, json};

/// What holds for pods but not for templates of pods.
pub(super) fn pod(pod: &mut Map<String, Value>) {
    let spec = inner(pod, "spec");
    if spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < 0)
    {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    fill(spec, "enableServiceLinks", true);
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in spec
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            requests_from_limits(container);
            if on_host {
                host_ports(container);
            }
        }
    }
}

/// Both names of the service account say the same.
pub(super) fn spec(spec: &mut Map<String, Value>) {
    let text = |name: &str| {
        spec.get(name)
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())
    };
    if let Some(account) = text("serviceAccountName")
        .or(text("serviceAccount"))
        .map(str::to_owned)
    {
        spec.insert("serviceAccountName".to_owned(), account.clone().into());
        spec.insert("serviceAccount".to_owned(), account.into());
    }
}

/// The one address and the first of many are the same; the one wins.
pub(super) fn status(status: &mut Map<String, Value>) {
    let first = status
        .get("podIPs")
        .and_then(|ips| ips.pointer("/0/ip"))
        .and_then(Value::as_str);
    let one = status
        .get("podIP")
        .and_then(Value::as_str)
        .filter(|ip| !ip.is_empty());
    match (one, first) {
        (Some(one), first) if first != Some(one) => {
            let list = json!([{ "ip": one }]);
            status.insert("podIPs".to_owned(), list);
        }
        (None, Some(first)) => {
            let first = first.into();
            status.insert("podIP".to_owned(), first);
        }
        _ => {}
    }
}

/// An image without a fixed tag is looked up anew every time.
pub(super) fn container(container: &mut Map<String, Value>) {
    let image = container
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let policy = pull_policy(image);
    fill(container, "imagePullPolicy", policy);
}

/// A volume without a source is an empty folder.
pub(super) fn volume(volume: &mut Map<String, Value>) {
    if volume
        .iter()
        .all(|(name, source)| name == "name" || source.is_null())
    {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(image) = volume.get_mut("image").and_then(Value::as_object_mut) {
        let reference = image
            .get("reference")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let policy = pull_policy(reference);
        fill(image, "pullPolicy", policy);
    }
}

fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    }
}

/// Whether an image means "latest": no digest, and that tag or none. What is no reference is neither.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    match last.rsplit_once(':') {
        Some((_, tag)) => tag == "latest" && is_reference(image),
        None => is_reference(image),
    }
}

/// A rough check of an image reference: lower case words, separated.
fn is_reference(image: &str) -> bool {
    let path = match image.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => rest,
        _ => image,
    };
    let word = |word: &str| {
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let inside = |c: char| edge(c) || matches!(c, '.' | '_' | '-');
        word.starts_with(edge) && word.ends_with(edge) && word.chars().all(inside)
    };
    let path = path.rsplit_once(':').map_or(path, |(path, _)| path);
    !path.is_empty() && image.len() <= 255 && path.split('/').all(word)
}

/// What is limited but not asked for is asked for in full.
fn requests_from_limits(container: &mut Value) {
    let Some(resources) = container
        .get_mut("resources")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else {
        return;
    };
    if limits.is_empty() {
        return;
    }
    let requests = inner(resources, "requests");
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

/// On the network of the host every port is a port of the host.
fn host_ports(container: &mut Value) {
    for port in container
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let number = port["containerPort"].clone();
        if let Some(port) = port.as_object_mut()
            && port
                .get("hostPort")
                .is_none_or(|host| host.is_null() || host == 0)
        {
            port.insert("hostPort".to_owned(), number);
        }
    }
}
