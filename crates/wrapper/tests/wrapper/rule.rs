//! What a node is to see, said once more and without any of the wrapper's code.

use super::cloud::Cloud;
use super::mirror::name;
use edgegrid_wrapper::ServedKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// All slices as the own node is to see them.
pub(crate) fn expected_slices(own: &str, cloud: &Cloud) -> BTreeMap<String, Value> {
    let slices = cloud.all(ServedKind::Slices);
    let nodes: BTreeMap<String, Value> = cloud
        .all(ServedKind::Nodes)
        .into_iter()
        .map(|node| (text(&node["metadata"]["name"]), node))
        .collect();
    let label = |node: &str, key: &str| {
        nodes
            .get(node)
            .and_then(|node| node["metadata"]["labels"][key].as_str())
    };
    let shares = |endpoint: &Value, key: &str| {
        let node = endpoint["nodeName"].as_str();
        node.is_some_and(|node| label(own, key).is_some() && label(own, key) == label(node, key))
    };
    let mut seen = BTreeMap::new();
    for slice in &slices {
        let service = text(&slice["metadata"]["labels"]["kubernetes.io/service-name"]);
        let all: Vec<&Value> = slices
            .iter()
            .filter(|other| {
                text(&other["metadata"]["labels"]["kubernetes.io/service-name"]) == service
                    && other["addressType"] == slice["addressType"]
            })
            .flat_map(|other| other["endpoints"].as_array().unwrap())
            .collect();
        let found = cloud.get(ServedKind::Services, Some("default"), &service);
        let stays = choice(found.as_ref(), &all, &shares);
        let mut slice = slice.clone();
        slice["endpoints"]
            .as_array_mut()
            .unwrap()
            .retain(|endpoint| stays(endpoint));
        // Changes with every update upstream, also with those that change nothing here.
        slice["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("generation");
        seen.insert(name(&slice), slice);
    }
    seen
}

type Shares<'a> = dyn Fn(&Value, &str) -> bool + 'a;

fn choice<'a>(
    service: Option<&Value>,
    all: &[&Value],
    shares: &'a Shares<'a>,
) -> Box<dyn Fn(&Value) -> bool + 'a> {
    let Some(service) = service else {
        return Box::new(|_| false);
    };
    let annotations = &service["metadata"]["annotations"];
    let Some(keys) = annotations["topologyKeys"].as_str() else {
        return Box::new(|_| true);
    };
    let Ok(mut keys) = serde_json::from_str::<Vec<String>>(keys) else {
        return Box::new(|_| false);
    };
    let any = keys.last().is_some_and(|last| last == "*");
    if any {
        keys.pop();
    }
    let keep = annotations["edgegrid.io/external-endpoints"] == "keep";
    let external = move |endpoint: &Value| keep && endpoint["nodeName"].is_null();
    for condition in ["ready", "serving"] {
        let counts: Vec<&&Value> = all
            .iter()
            .filter(|one| one["conditions"][condition] == json!(true))
            .collect();
        if let Some(key) = keys
            .iter()
            .find(|key| counts.iter().any(|one| shares(one, key)))
            .cloned()
        {
            return Box::new(move |one| shares(one, &key) || external(one));
        }
        if any && !counts.is_empty() {
            return Box::new(|_| true);
        }
    }
    Box::new(move |one| any || keys.iter().any(|key| shares(one, key)) || external(one))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
