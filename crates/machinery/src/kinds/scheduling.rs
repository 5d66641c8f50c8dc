//! Rules of where pods may go: tolerations, affinity, spreading.

use super::check::{Errors, FieldValue};
use crate::names;
use crate::status::FieldError;

pub(super) fn readiness_gate(gate: &FieldValue<'_>, errors: &mut Errors) {
    let condition = gate.at("conditionType");
    condition.complain(errors, names::qualified_name(condition.text()));
}

/// Operator, value and effect of a toleration fit together.
pub(super) fn toleration(toleration: &FieldValue<'_>, errors: &mut Errors) {
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
        "Exists" => {}
        _ => operator.unsupported(errors, &["Equal", "Exists"]),
    }
    effect.one_of(errors, super::node::EFFECTS);
}

pub(super) fn spread(constraint: &FieldValue<'_>, errors: &mut Errors) {
    let skew = constraint.at("maxSkew");
    if skew.number() <= 0 {
        skew.invalid(errors, "must be greater than zero");
    }
    if constraint.at("topologyKey").is_empty() {
        constraint
            .at("topologyKey")
            .require(errors, "can not be empty");
    }
    let domains = constraint.at("minDomains");
    if domains.is_set() && domains.number() <= 0 {
        domains.invalid(errors, "must be greater than zero");
    }
    let action = constraint.at("whenUnsatisfiable");
    if domains.is_set() && action.text() != "DoNotSchedule" {
        domains.invalid(errors, "only with whenUnsatisfiable=DoNotSchedule");
    }
    label_keys(constraint, errors);
    if !["DoNotSchedule", "ScheduleAnyway"].contains(&action.text()) {
        action.unsupported(errors, &["DoNotSchedule", "ScheduleAnyway"]);
    }
}

/// Each way to spread over a topology is given once.
pub(super) fn spread_once(spec: &FieldValue<'_>, errors: &mut Errors) {
    let constraints = spec.at("topologySpreadConstraints").items();
    for (index, constraint) in constraints.iter().enumerate() {
        let own = |other: &FieldValue<'_>| {
            ["topologyKey", "whenUnsatisfiable"].map(|field| other.at(field).text().to_owned())
        };
        if constraints[index + 1..]
            .iter()
            .any(|other| own(other) == own(constraint))
        {
            constraint
                .at("{topologyKey, whenUnsatisfiable}")
                .duplicate(errors);
        }
    }
}

/// Labels of the pod itself complete a selector, so there must be one.
fn label_keys(term: &FieldValue<'_>, errors: &mut Errors) {
    let (keys, others) = (term.at("matchLabelKeys"), term.at("mismatchLabelKeys"));
    for list in [&keys, &others] {
        if !list.is_empty() && !term.at("labelSelector").is_set() {
            list.forbid(
                errors,
                "must not be specified when labelSelector is not set",
            );
        } else {
            for key in list.items() {
                key.complain(errors, names::qualified_name(key.text()));
            }
        }
    }
    for key in keys.items() {
        if others
            .items()
            .iter()
            .any(|other| other.text() == key.text())
        {
            key.invalid(
                errors,
                "exists in both matchLabelKeys and mismatchLabelKeys",
            );
        }
    }
}

pub(super) fn affinity_term(term: &FieldValue<'_>, errors: &mut Errors) {
    label_keys(term, errors);
    term.at("namespaceSelector").selector(errors);
    for namespace in term.at("namespaces").items() {
        let field = FieldValue {
            path: term.at("namespace").path,
            ..namespace
        };
        field.complain(errors, names::dns_label(field.text()));
    }
    let key = term.at("topologyKey");
    if key.is_empty() {
        key.require(errors, "can not be empty");
    }
    key.complain(errors, names::qualified_name(key.text()));
}

pub(super) fn weight(term: &FieldValue<'_>, errors: &mut Errors) {
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
pub(super) fn node_requirement(requirement: &FieldValue<'_>, errors: &mut Errors) {
    if requirement.path.contains("matchFields[") {
        return node_field(requirement, errors);
    }
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
    key.complain(errors, names::qualified_name(key.text()));
    if requirement.path.contains(".requiredDuring") {
        for value in values.items() {
            value.complain(errors, names::label_value(value.text()));
        }
    }
}

/// A requirement on a field of a node, of which there is one.
fn node_field(requirement: &FieldValue<'_>, errors: &mut Errors) {
    let (operator, values, key) = (
        requirement.at("operator"),
        requirement.at("values"),
        requirement.at("key"),
    );
    match operator.text() {
        "In" | "NotIn" if values.items().len() != 1 => {
            values.require(errors, "must be one value for a field");
        }
        "In" | "NotIn" => {}
        _ => operator.invalid(errors, "not a valid selector operator"),
    }
    if key.text() != "metadata.name" {
        return key.invalid(errors, "not a valid field selector key");
    }
    for value in values.items() {
        value.complain(errors, names::dns_subdomain(value.text()));
    }
}

pub(super) fn node_selector(selector: &FieldValue<'_>, errors: &mut Errors) {
    if selector.at("nodeSelectorTerms").is_empty() {
        selector
            .at("nodeSelectorTerms")
            .require(errors, "must have at least one node selector term");
    }
}
