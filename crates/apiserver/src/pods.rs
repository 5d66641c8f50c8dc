//! What only pods have: binding to a node, and eviction.

use edgegrid_machinery::metadata;
use edgegrid_machinery::selector::LabelSelector;
use edgegrid_machinery::status::{Cause, Status};
use edgegrid_store::Expect;
use http::StatusCode;
use serde_json::{Value, json};

use crate::answer::{Answer, Content};
use crate::delete::{self, DeleteOptions};
use crate::path::Target;
use crate::request::{Request, live};
use crate::{body, options, storage};

/// POST of `binding`: puts a pod on a node, once.
pub(crate) fn bind(request: &Request<'_>) -> Result<Answer, Status> {
    let body = body::object(&request.body, &request.media_type)?.value;
    let node = body["target"]["name"].as_str().unwrap_or_default();
    request.retried(|| {
        let live = request.live(request.name())?;
        let mut pod = live.object.clone();
        let present = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if !present.is_empty() {
            let why = format!(
                "pod {} is already assigned to node {present:?}",
                request.name()
            );
            return Err(Status::conflict(
                &request.served.group_resource(),
                request.name(),
                why,
            ));
        }
        pod["spec"]["nodeName"] = node.into();
        set_scheduled(&mut pod, &request.server.clock.stamp());
        let expect = Expect::Revision(live.entry.revision());
        let written = storage::committed(storage::put(request, request.name(), &pod, expect))?;
        Ok(written.map(|_| success()))
    })
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let mut conditions: Vec<Value> = pod["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    conditions.push(json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": now, "lastProbeTime": null }));
    pod["status"]["conditions"] = conditions.into();
}

/// POST of `eviction`: deletes a pod unless that would disrupt its application too much.
pub(crate) fn evict(request: &mut Request<'_>) -> Result<Answer, Status> {
    let body = body::object(&request.body, &request.media_type)?.value;
    if body["metadata"]["name"] != request.name() {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let mut errors = Vec::new();
    let mut options = DeleteOptions::from_json(&body["deleteOptions"], &mut errors);
    if !errors.is_empty() {
        return Err(options::invalid("DeleteOptions", &errors));
    }
    request.options.dry_run |= options.dry_run;
    let pod = request.live(request.name())?.object;
    if let Some(budget) = budget(request, &pod)? {
        if is_ready(&pod) || !lets_unready_go(&budget.object) {
            spend(&budget, request.name())?;
        } else {
            // It may have become ready meanwhile, and then it counts.
            let revision = metadata::revision(&pod).to_owned();
            options.resource_version.get_or_insert(revision);
        }
    }
    delete::delete_object(request, &options)?;
    Ok(success())
}

/// A budget that covers a pod, and how to write it.
struct Budget<'a> {
    request: Request<'a>,
    object: Value,
}

/// The budget that the eviction of a pod is charged to, if any.
fn budget<'a>(request: &Request<'a>, pod: &Value) -> Result<Option<Budget<'a>>, Status> {
    let is_gone = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed" | "Pending")
    );
    let registry = &request.server.registry;
    let budgets = registry.resource("policy", "v1", "poddisruptionbudgets");
    let (Some(budgets), false) = (
        budgets,
        is_gone || !pod["metadata"]["deletionTimestamp"].is_null(),
    ) else {
        return Ok(None);
    };
    let snapshot = request.server.reader.store().snapshot();
    let mut found = Vec::new();
    for entry in snapshot
        .under(&budgets.read.collection(request.namespace()))
        .iter()
    {
        let object = live(&budgets, entry.clone())?.object;
        let selector = LabelSelector::from_json(&object["spec"]["selector"]);
        if let Ok(Some(selector)) = selector
            && selector.matches_object(pod)
        {
            found.push(object);
        }
    }
    if found.len() > 1 {
        return Err(Status::unmergeable(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    Ok(found.pop().map(|object| {
        let target = Target {
            name: object["metadata"]["name"].as_str().map(str::to_owned),
            subresource: Some("status".to_owned()),
            ..request.target.clone()
        };
        Budget {
            request: request.about(budgets, target),
            object,
        }
    }))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    ready.any(|condition| condition["status"] == "True")
}

/// Whether a pod that is not ready may go without being counted.
fn lets_unready_go(budget: &Value) -> bool {
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let wanted = count("desiredHealthy");
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (wanted > 0 && count("currentHealthy") >= wanted)
}

/// Takes one disruption from a budget, or says why it cannot.
fn spend(budget: &Budget<'_>, pod: &str) -> Result<(), Status> {
    let request = &budget.request;
    request.retried(|| {
        let live = request.live(request.name())?;
        let mut object = live.object.clone();
        let left = allowed(&object)?;
        object["status"]["disruptionsAllowed"] = (left - 1).into();
        let now = request.server.clock.stamp();
        object["status"]["disruptedPods"][pod] = now.into();
        let expect = Expect::Revision(live.entry.revision());
        storage::committed(storage::put(request, request.name(), &object, expect))
    })?;
    Ok(())
}

/// How many disruptions a budget still allows, and 429 if none.
fn allowed(budget: &Value) -> Result<i64, Status> {
    let name = metadata::name(budget);
    let status = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or(0);
    let (why, seconds) = if status("observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        (why, 10)
    } else if status("disruptionsAllowed") <= 0 {
        let (needs, has) = (status("desiredHealthy"), status("currentHealthy"));
        let why = format!(
            "The disruption budget {name} needs {needs} healthy pods and has {has} currently"
        );
        (why, 0)
    } else {
        return Ok(status("disruptionsAllowed"));
    };
    let cause = Cause {
        reason: "DisruptionBudget".to_owned(),
        message: why,
        field: String::new(),
    };
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    Err(Status::too_many_requests(message, seconds).with_cause(cause))
}

fn success() -> Answer {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    Answer {
        code: StatusCode::CREATED,
        ..Answer::ok(Content::Object(status))
    }
}
