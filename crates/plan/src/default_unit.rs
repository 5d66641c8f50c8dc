//! The NodeUnit that has every node: made once, and not again if somebody deletes it on purpose.

use edgegrid_api::names::{UNIT_NODE_ALL, YES, annotation};
use edgegrid_api::node_unit::UnitType;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use crate::json_pointer;
use crate::step::{ObjectId, ObjectKind, Plan, Step};

/// What is still to do, given NodeUnit's definition, where it is remembered that the NodeUnit was made.
pub fn plan(definition: &CustomResourceDefinition, exists: bool) -> Plan {
    let mut plan = Plan::default();
    let metadata = &definition.metadata;
    let annotations = metadata.annotations.as_ref();
    let is_made = annotations.is_some_and(|all| all.contains_key(annotation::DEFAULT_UNIT_MADE));
    let Some(name) = metadata.name.as_ref().filter(|_| !is_made) else {
        return plan;
    };
    if !exists {
        let body = json!({ "spec": {
            "type": UnitType::Other,
            "selector": { "matchLabels": { "kubernetes.io/os": "linux" } },
        } });
        let id = ObjectId::cluster(ObjectKind::NodeUnit, UNIT_NODE_ALL);
        plan.push(Step::Create { id, body });
    }
    let key = annotation::DEFAULT_UNIT_MADE;
    let remember = match annotations {
        Some(_) => {
            json!({ "op": "add", "path": format!("/metadata/annotations/{}", json_pointer::escape(key)), "value": YES })
        }
        None => json!({ "op": "add", "path": "/metadata/annotations", "value": { key: YES } }),
    };
    plan.push(Step::Patch {
        id: ObjectId::cluster(ObjectKind::CustomResourceDefinition, name),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        operations: vec![remember],
    });
    plan
}
