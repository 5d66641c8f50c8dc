//! Events, in the core group and in their own: the same objects under two sets of names.

use super::check::{Errors, FieldValue};
use super::vocabulary::IMMUTABLE;
use crate::names;
use crate::status::FieldError;
use serde_json::Value;

/// Longest reason, action and reporting instance.
const WORD_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

/// Fields a selector may name in the group of their own.
pub(super) const FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// Where the two groups keep the same things.
struct Names {
    object: &'static str,
    reporter: &'static str,
    note: &'static str,
}

/// Rules of events of the core group.
pub(super) fn core(event: &Value, errors: &mut Errors) {
    let names = Names {
        object: "involvedObject",
        reporter: "reportingComponent",
        note: "message",
    };
    both(event, &names, errors);
}

/// Rules of events of their own group.
pub(super) fn common(event: &Value, errors: &mut Errors) {
    let names = Names {
        object: "regarding",
        reporter: "reportingController",
        note: "note",
    };
    both(event, &names, errors);
}

fn both(event: &Value, fields: &Names, errors: &mut Errors) {
    let root = FieldValue::root(event);
    let namespace = root.at("metadata").at("namespace").text();
    let about = root.at(fields.object).at("namespace").text();
    let timed = !root.at("eventTime").is_empty();
    let elsewhere = match (timed, about) {
        (false, "") => !matches!(namespace, "" | "default"),
        (true, "") => !matches!(namespace, "default" | "kube-system"),
        (false, about) => about != namespace,
        (true, _) => false,
    };
    if elsewhere {
        let why = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", about, why));
    }
    if !timed {
        return;
    }
    let reporter = root.at(fields.reporter);
    reporter.needed(errors);
    let wrong = names::qualified_name(reporter.text()).into_iter();
    errors.extend(wrong.map(|why| FieldError::invalid(&*reporter.path, reporter.text(), why)));
    for field in ["reportingInstance", "action", "reason"] {
        root.at(field).needed(errors);
        no_longer_than(&root.at(field), WORD_MAX, errors);
    }
    no_longer_than(
        &FieldValue {
            path: "message".to_owned(),
            ..root.at(fields.note)
        },
        NOTE_MAX,
        errors,
    );
}

fn no_longer_than(field: &FieldValue<'_>, max: usize, errors: &mut Errors) {
    if field.text().len() > max {
        errors.push(FieldError::invalid(
            &*field.path,
            "",
            format!("can have at most {max} characters"),
        ));
    }
}

/// What a new event of their own group must obey: it has the new fields and none of the old.
pub(super) fn create(event: &Value, errors: &mut Errors) {
    let root = FieldValue::root(event);
    series(&root.at("series"), errors);
    root.at("eventTime").needed(errors);
    let kind = root.at("type").text();
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid(
            "type",
            "",
            format!("has invalid value: {kind}"),
        ));
    }
    for (field, shown) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
    ] {
        if !root.at(field).is_empty() {
            errors.push(FieldError::invalid(shown, "", "needs to be unset"));
        }
    }
    if root.at("deprecatedCount").number() != 0 {
        errors.push(FieldError::invalid("count", "", "needs to be unset"));
    }
    let source = root.at("deprecatedSource");
    if !source.at("component").is_empty() || !source.at("host").is_empty() {
        errors.push(FieldError::invalid("source", "", "needs to be unset"));
    }
}

fn series(series: &FieldValue<'_>, errors: &mut Errors) {
    if !series.is_set() {
        return;
    }
    if series.at("count").number() < 2 {
        errors.push(FieldError::invalid(
            series.at("count").path,
            "",
            "should be at least 2",
        ));
    }
    series.at("lastObservedTime").needed(errors);
}

/// Only the series of an event goes on.
pub(super) fn update(event: &Value, old: &Value, errors: &mut Errors) {
    const FIXED: &[(&str, &str)] = &[
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    let root = FieldValue::root(event);
    if event["series"] != old["series"] {
        series(&root.at("series"), errors);
    }
    for (field, shown) in FIXED {
        let new = &event[*field];
        let is_text = old[*field].is_string() && *field != "eventTime";
        if new != &old[*field] {
            let shown_value = if new.is_null() && is_text {
                "".into()
            } else {
                new.clone()
            };
            errors.push(FieldError::invalid(*shown, shown_value, IMMUTABLE));
        }
    }
}
