//! Jobs.

use super::check::{Errors, FieldValue};
use super::default::{fill, inner};
use crate::selector::LabelSelector;
use crate::status::FieldError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Most pods an indexed job runs at a time.
const MOST_INDEXED: i64 = 100_000;

/// Jobs only: a template of jobs is left as it is.
pub(super) fn default(job: &mut Map<String, Value>) {
    let labels = job
        .get("spec")
        .and_then(|spec| spec.pointer("/template/metadata/labels"))
        .cloned();
    default_spec(inner(job, "spec"));
    let metadata = inner(job, "metadata");
    if let Some(labels) = labels.filter(Value::is_object)
        && metadata
            .get("labels")
            .and_then(Value::as_object)
            .is_none_or(Map::is_empty)
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

fn default_spec(spec: &mut Map<String, Value>) {
    let absent =
        |spec: &Map<String, Value>, field: &str| spec.get(field).is_none_or(Value::is_null);
    if absent(spec, "completions") && absent(spec, "parallelism") {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let retries = if absent(spec, "backoffLimitPerIndex") {
        6
    } else {
        i32::MAX
    };
    fill(spec, "backoffLimit", retries);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    let replacement = if absent(spec, "podFailurePolicy") {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    fill(spec, "podReplacementPolicy", replacement);
}

/// Unless its spec says otherwise, a job finds its pods by its own uid; call when uid and name are known.
pub(super) fn prepare_job(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let [name, uid] = ["name", "uid"].map(|field| job["metadata"][field].clone());
    // Labels taken over from the template go on following it.
    let shared = job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"];
    let Some(spec) = job.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let labels = inner(inner(inner(spec, "template"), "metadata"), "labels");
    for (label, value) in [("job-name", &name), ("controller-uid", &uid)] {
        for label in [label.to_owned(), format!("batch.kubernetes.io/{label}")] {
            labels.entry(label).or_insert_with(|| value.clone());
        }
    }
    let selected = inner(inner(spec, "selector"), "matchLabels");
    selected
        .entry("batch.kubernetes.io/controller-uid")
        .or_insert(uid);
    if shared {
        job["metadata"]["labels"] = job["spec"]["template"]["metadata"]["labels"].clone();
    }
}

pub(super) fn job(job: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(job).at("spec");
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.at(field).not_negative(errors);
    }
    completion_mode(&spec, errors);
    let selector = spec.at("selector");
    selected(&spec, errors);
    selector.selector(errors);
    let policy = spec.at("template").at("spec").at("restartPolicy");
    match policy.text() {
        "Always" | "" => policy.require(errors, r#"valid values: "OnFailure", "Never""#),
        "OnFailure" if spec.at("podFailurePolicy").is_set() => {
            policy.invalid(
                errors,
                r#"only "Never" is supported when podFailurePolicy is specified"#,
            );
        }
        "OnFailure" | "Never" => {}
        _ => policy.unsupported(errors, &["OnFailure", "Never"]),
    }
}

/// Whoever made the selector, it is there and selects the pods of the template.
fn selected(spec: &FieldValue<'_>, errors: &mut Errors) {
    let selector = spec.at("selector");
    if !selector.is_set() {
        selector.require(errors, "");
    }
    let labels = spec.at("template").at("metadata").at("labels");
    let label = |key: &str| labels.value.get(key).and_then(Value::as_str);
    let parsed = LabelSelector::from_json(selector.value);
    if parsed.is_ok_and(|parsed| !parsed.is_some_and(|parsed| parsed.matches_with(label))) {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
}

/// A selector of one's own needs to be announced.
pub(super) fn job_selector(job: &Value, errors: &mut Errors) {
    let selector = FieldValue::root(job).at("spec").at("selector");
    let parsed = LabelSelector::from_json(selector.value).ok().flatten();
    let labels = generated_labels(job);
    if job["spec"]["manualSelector"] != true
        && parsed.is_some_and(|parsed| !parsed.matches(&labels))
    {
        selector.invalid(errors, "`selector` not auto-generated");
    }
}

/// What the pods of a job are known by.
fn generated_labels(job: &Value) -> BTreeMap<String, String> {
    let text = |field: &str| {
        job["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let labels = [("job-name", text("name")), ("controller-uid", text("uid"))];
    let both = labels.into_iter().flat_map(|(label, value)| {
        [
            (label.to_owned(), value.clone()),
            (format!("batch.kubernetes.io/{label}"), value),
        ]
    });
    both.collect()
}

fn completion_mode(spec: &FieldValue<'_>, errors: &mut Errors) {
    let mode = spec.at("completionMode");
    mode.one_of(errors, &["NonIndexed", "Indexed"]);
    if mode.text() == "Indexed" {
        if !spec.at("completions").is_set() {
            spec.at("completions")
                .require(errors, "when completion mode is Indexed");
        }
        let parallelism = spec.at("parallelism");
        if parallelism.number() > MOST_INDEXED {
            let why = format!(
                "must be less than or equal to {MOST_INDEXED} when completion mode is Indexed"
            );
            parallelism.invalid(errors, &why);
        }
        return;
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
        if spec.at(field).is_set() && (field == "successPolicy" || mode.text() == "NonIndexed") {
            spec.at(field)
                .invalid(errors, "requires indexed completion mode");
        }
    }
}

pub(super) fn job_update(job: &Value, old: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(job).at("spec");
    let old = &old["spec"];
    for field in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        spec.at(field).fixed(errors, &old[field]);
    }
    let (completions, parallelism) = (spec.at("completions"), spec.at("parallelism"));
    if spec.at("completionMode").text() != "Indexed" {
        completions.fixed(errors, &old["completions"]);
    } else if completions.value != &old["completions"] && completions.value != parallelism.value {
        completions.invalid(
            errors,
            "can only be modified in tandem with spec.parallelism",
        );
    }
    if old["suspend"] != true && spec.at("template").value != &old["template"] {
        let template = spec.at("template");
        errors.push(FieldError::invalid(
            template.path.clone(),
            template.value.clone(),
            "field is immutable",
        ));
    }
}
