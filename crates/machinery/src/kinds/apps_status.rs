//! What controllers may say of workloads.

use super::apps::counts;
use super::check::{Errors, FieldValue};
use crate::status::FieldError;
use serde_json::Value;

pub(super) fn deployment_status(deployment: &Value, old: &Value, errors: &mut Errors) {
    status_counts(
        deployment,
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
        errors,
    );
    not_decremented(deployment, old, errors);
}

pub(super) fn replica_set_status(set: &Value, _: &Value, errors: &mut Errors) {
    status_counts(
        set,
        &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        errors,
    );
}

pub(super) fn stateful_set_status(set: &Value, old: &Value, errors: &mut Errors) {
    status_counts(
        set,
        &[
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
        ],
        errors,
    );
    not_decremented(set, old, errors);
}

pub(super) fn daemon_set_status(set: &Value, old: &Value, errors: &mut Errors) {
    let status = FieldValue::root(set).at("status");
    let fields = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
    ];
    counts(&status, &fields, errors);
    let more = [
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
    ];
    counts(&status, &more, errors);
    not_decremented(set, old, errors);
}

/// Parts of the replicas are not more than all of them.
fn status_counts(object: &Value, parts: &[&str], errors: &mut Errors) {
    let status = FieldValue::root(object).at("status");
    counts(
        &status,
        &[
            "observedGeneration",
            "replicas",
            "unavailableReplicas",
            "terminatingReplicas",
        ],
        errors,
    );
    counts(&status, parts, errors);
    for part in parts {
        if status.at(part).number() > status.at("replicas").number() {
            more_than(&status.at(part), "status.replicas", errors);
        }
    }
    let (available, ready) = (status.at("availableReplicas"), status.at("readyReplicas"));
    if available.number() > ready.number() {
        let ready = if object["kind"] == "StatefulSet" {
            "status.readyReplicas"
        } else {
            "readyReplicas"
        };
        more_than(&available, ready, errors);
    }
}

fn not_decremented(object: &Value, old: &Value, errors: &mut Errors) {
    let count = FieldValue::root(object).at("status").at("collisionCount");
    count.not_negative(errors);
    if old["status"]["collisionCount"]
        .as_i64()
        .is_some_and(|old| count.number() < old)
    {
        errors.push(FieldError::invalid(
            count.path.clone(),
            count.number(),
            "cannot be decremented",
        ));
    }
}

fn more_than(part: &FieldValue<'_>, whole: &str, errors: &mut Errors) {
    let why = format!("cannot be greater than {whole}");
    errors.push(FieldError::invalid(&*part.path, part.number(), why));
}
