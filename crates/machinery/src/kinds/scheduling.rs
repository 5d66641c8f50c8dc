//! Rules of where pods may go: tolerations, affinity, spreading.

use super::check::{Errors, Place};
use crate::names;
use crate::status::FieldError;

pub(super) fn readiness_gate(gate: &Place<'_>, errors: &mut Errors) {
    let condition = gate.at("conditionType");
    condition.complain(errors, names::qualified_name(condition.text()));
}

/// Operator, value and effect of a toleration fit together.
pub(super) fn toleration(toleration: &Place<'_>, errors: &mut Errors) {
    let (operator, value, effect) = (
        toleration.at("operator"),
        toleration.at("value"),
        toleration.at("effect"),
    );
    if toleration.at("key").is_empty() && operator.text() != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(&*operator.path, operator.text(), why));
    }
    if toleration.at("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(&*effect.path, effect.text(), why));
    }
    match operator.text() {
        "Equal" | "" => {
            let complaints = names::label_value(value.text());
            if !complaints.is_empty() {
                errors.push(FieldError::invalid(
                    operator.path,
                    value.text(),
                    complaints.join(";"),
                ));
            }
        }
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(operator.path, value.text(), why));
        }
        "Exists" | "Lt" | "Gt" => {}
        _ => operator.unsupported(errors, &["Equal", "Exists"]),
    }
    effect.one_of(errors, super::node::EFFECTS);
}

pub(super) fn spread(constraint: &Place<'_>, errors: &mut Errors) {
    let skew = constraint.at("maxSkew");
    if skew.number() <= 0 {
        skew.invalid(errors, "must be greater than zero");
    }
    if constraint.at("topologyKey").is_empty() {
        constraint
            .at("topologyKey")
            .require(errors, "can not be empty");
    }
    let action = constraint.at("whenUnsatisfiable");
    if !["DoNotSchedule", "ScheduleAnyway"].contains(&action.text()) {
        action.unsupported(errors, &["DoNotSchedule", "ScheduleAnyway"]);
    }
}

pub(super) fn affinity_term(term: &Place<'_>, errors: &mut Errors) {
    let key = term.at("topologyKey");
    if key.is_empty() {
        key.require(errors, "can not be empty");
    }
    key.complain(errors, names::qualified_name(key.text()));
}

pub(super) fn weight(term: &Place<'_>, errors: &mut Errors) {
    let weight = term.at("weight");
    if !(1..=100).contains(&weight.number()) {
        errors.push(FieldError::invalid(
            weight.path.clone(),
            weight.number(),
            "must be in the range 1-100",
        ));
    }
}

/// Values of a node requirement are as many as its operator takes.
pub(super) fn node_requirement(requirement: &Place<'_>, errors: &mut Errors) {
    let (operator, values) = (requirement.at("operator"), requirement.at("values"));
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            values.require(
                errors,
                "must be specified when `operator` is 'In' or 'NotIn'",
            );
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            values.forbid(
                errors,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            );
        }
        "Gt" | "Lt" if values.items().len() != 1 => {
            values.require(
                errors,
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            );
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => operator.invalid(errors, "not a valid selector operator"),
    }
    let key = requirement.at("key");
    if requirement.path.contains("matchExpressions[") {
        key.complain(errors, names::qualified_name(key.text()));
    }
}

pub(super) fn node_selector(selector: &Place<'_>, errors: &mut Errors) {
    if selector.at("nodeSelectorTerms").is_empty() {
        selector
            .at("nodeSelectorTerms")
            .require(errors, "must have at least one node selector term");
    }
}
