//! What only pods have: binding to a node, and eviction.

use edgegrid_machinery::selector::LabelSelector;
use edgegrid_machinery::status::Status;
use edgegrid_store::Expect;
use http::StatusCode;
use serde_json::{Value, json};

use crate::answer::{Answer, Content};
use crate::delete::{self, Wish};
use crate::request::{Request, live};
use crate::{body, write};

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
        let written = write::committed(write::put(request, request.name(), &pod, expect))?;
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
pub(crate) fn evict(request: &Request<'_>) -> Result<Answer, Status> {
    let body = body::object(&request.body, &request.media_type)?.value;
    let pod = request.live(request.name())?.object;
    if let Some(budget) = exhausted_budget(request, &pod)? {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let cause = edgegrid_machinery::status::Cause {
            reason: "DisruptionBudget".into(),
            message: format!("The disruption budget {budget} allows no more disruptions now"),
            field: String::new(),
        };
        return Err(Status::too_many_requests(message, 10).with_cause(cause));
    }
    delete::delete_object(request, &Wish::of(&body["deleteOptions"]))?;
    Ok(success())
}

/// Name of a budget that covers the pod and has nothing left.
fn exhausted_budget(request: &Request<'_>, pod: &Value) -> Result<Option<String>, Status> {
    let Some(budgets) = request
        .server
        .registry
        .resource("policy", "v1", "poddisruptionbudgets")
    else {
        return Ok(None);
    };
    let snapshot = request.server.reader.store().snapshot();
    for entry in snapshot
        .under(&budgets.read.collection(request.namespace()))
        .iter()
    {
        let budget = live(&budgets, entry.clone())?.object;
        let selector = LabelSelector::from_json(&budget["spec"]["selector"])
            .ok()
            .flatten();
        let covers = selector.is_some_and(|selector| selector.matches_object(pod));
        if covers && budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0) <= 0 {
            return Ok(budget["metadata"]["name"].as_str().map(str::to_owned));
        }
    }
    Ok(None)
}

fn success() -> Answer {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    Answer {
        code: StatusCode::CREATED,
        ..Answer::ok(Content::Object(status))
    }
}
