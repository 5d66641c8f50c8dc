//! Nodes.

use super::check::{Errors, FieldValue};
use super::container::amount;
use super::vocabulary;
use crate::names;
use crate::status::{FieldError, FieldErrorKind};
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// What a taint does to pods that do not tolerate it.
pub(super) const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// All of a node can be used, unless it says otherwise.
pub(super) fn default_status(status: &mut Map<String, Value>) {
    let unsaid = status.get("allocatable").is_none_or(Value::is_null);
    if let Some(capacity) = status
        .get("capacity")
        .filter(|capacity| unsaid && capacity.is_object())
        .cloned()
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}

/// The one range and the first of many are the same; the one wins.
pub(super) fn default_spec(spec: &mut Map<String, Value>) {
    let first = spec
        .get("podCIDRs")
        .and_then(|ranges| ranges.get(0))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let one = spec
        .get("podCIDR")
        .and_then(Value::as_str)
        .filter(|range| !range.is_empty())
        .map(str::to_owned);
    match (one, first) {
        (Some(one), first) if first.as_ref() != Some(&one) => {
            spec.insert("podCIDRs".to_owned(), vec![one].into());
        }
        (None, Some(first)) => {
            spec.insert("podCIDR".to_owned(), first.into());
        }
        _ => {}
    }
}

/// Drops what no version of Kubernetes with this API still has, or has by default.
pub(super) fn prepare(node: &mut Value) {
    const GONE: [(&str, &str); 3] = [
        ("spec", "configSource"),
        ("spec", "podPreemptionPolicy"),
        ("status", "config"),
    ];
    for (part, field) in GONE {
        if let Some(part) = node.get_mut(part).and_then(Value::as_object_mut) {
            part.remove(field);
        }
    }
}

pub(super) fn check(node: &Value, errors: &mut Errors) {
    let node = FieldValue::root(node);
    let mut seen = BTreeSet::new();
    let taints = FieldValue {
        path: "metadata.taints".to_owned(),
        ..node.at("spec").at("taints")
    };
    for taint in taints.items() {
        let (key, effect) = (taint.at("key"), taint.at("effect"));
        let wrong = names::qualified_name(key.text()).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(&*key.path, key.text(), why)));
        let wrong = names::label_value(taint.at("value").text());
        if !wrong.is_empty() {
            taint.at("value").invalid(errors, &wrong.join(";"));
        }
        if effect.needed(errors) {
            effect.one_of(errors, EFFECTS);
        }
        if !seen.insert((effect.text(), key.text())) {
            let why = "taints must be unique by key and effect pair";
            errors.push(FieldError::with_value(
                FieldErrorKind::Duplicate,
                &*taint.path,
                taint.value.clone(),
                why,
            ));
        }
    }
    pod_ranges(&node.at("spec").at("podCIDRs"), errors);
    amounts(&node, errors);
    declared_features(&node, errors);
}

/// At most one range of each family.
fn pod_ranges(ranges: &FieldValue<'_>, errors: &mut Errors) {
    let items = ranges.items();
    let mut is_readable = true;
    for range in &items {
        let wrong = vocabulary::cidr(range.text());
        is_readable &= wrong.is_empty();
        range.complain(errors, wrong);
    }
    if items.len() < 2 {
        return;
    }
    if !is_readable {
        let why = "invalid PodCIDRs: families cannot be told";
        errors.push(FieldError::internal(&*ranges.path, why));
    }
    let is_six = |range: &FieldValue<'_>| range.text().contains(':');
    if !is_readable || items.len() > 2 || is_six(&items[0]) == is_six(&items[1]) {
        ranges.invalid(
            errors,
            "may specify no more than one CIDR for each IP family",
        );
    }
}

/// Features are named like types, and in order.
fn declared_features(node: &FieldValue<'_>, errors: &mut Errors) {
    let features = node.at("status").at("declaredFeatures").items();
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric());
    for (index, feature) in features.iter().enumerate() {
        let name = feature.text();
        let is_type = name.starts_with(|c: char| c.is_ascii_uppercase());
        if !is_type || name.len() > names::SUBDOMAIN_MAX || !name.split('/').all(is_word) {
            feature.invalid(errors, "must be words like MyFeature, separated by '/'");
        }
        match index
            .checked_sub(1)
            .map(|before| features[before].text().cmp(name))
        {
            Some(Ordering::Equal) => feature.duplicate(errors),
            Some(Ordering::Greater) => feature.invalid(errors, "must be in order"),
            _ => {}
        }
    }
}

fn amounts(node: &FieldValue<'_>, errors: &mut Errors) {
    for list in ["capacity", "allocatable"] {
        let list = node.at("status").at(list);
        for name in list.keys() {
            amount(name, &list.at(name), errors);
        }
    }
}

pub(super) fn check_update(node: &Value, old: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(node).at("spec");
    let old = &old["spec"];
    let ranges = old["podCIDRs"]
        .as_array()
        .is_some_and(|ranges| !ranges.is_empty());
    if ranges && spec.at("podCIDRs").value != &old["podCIDRs"] {
        spec.at("podCIDRs").forbid(
            errors,
            "node updates may not change podCIDR except from \"\" to valid",
        );
    }
    if spec.at("externalID").text() != old["externalID"].as_str().unwrap_or_default() {
        spec.at("externalID").forbid(errors, "may not be updated");
    }
    let provider = spec.at("providerID");
    if old["providerID"]
        .as_str()
        .is_some_and(|old| !old.is_empty() && old != provider.text())
    {
        let what = if provider.is_empty() {
            "cleared"
        } else {
            "modified"
        };
        errors.push(FieldError::invalid(
            provider.path,
            Value::Null,
            format!("field cannot be {what} once set"),
        ));
    }
}

pub(super) fn check_status(node: &Value, old: &Value, errors: &mut Errors) {
    let root = FieldValue::root(node);
    amounts(&root, errors);
    declared_features(&root, errors);
    check_update(node, old, errors);
    let mut seen = Vec::new();
    for address in root.at("status").at("addresses").items() {
        if seen.contains(&address.value) {
            address.duplicate(errors);
        }
        seen.push(address.value);
    }
}
