//! Schemas against what kube-apiserver 1.37.1 answered for the same definitions and objects.
//!
//! `schema_observed.json` holds one entry per case: the schema, the object (and the stored one for
//! an update), and the answer: the stored object, the causes of a refusal, the warnings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use edgegrid_machinery::schema::{Schema, Validation, settle_numbers};
use edgegrid_machinery::status::FieldError;
use serde_json::{Value, json};

const AT: &str = "spec.validation.openAPIV3Schema";

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("schema_observed.json")).unwrap()
}

fn causes(errors: &[FieldError]) -> Vec<Value> {
    let mut causes: Vec<Value> = errors
        .iter()
        .map(FieldError::cause)
        .map(|cause| json!([cause.reason, cause.message, cause.field]))
        .collect();
    causes.sort_by_key(ToString::to_string);
    causes
}

fn sorted(list: &Value) -> Vec<Value> {
    let mut list = list.as_array().cloned().unwrap_or_default();
    list.sort_by_key(ToString::to_string);
    list
}

fn complete(fields: &Value, kind: &Value) -> Value {
    let mut object = fields.clone();
    object["apiVersion"] = json!("probe.example.com/v1");
    object["kind"] = kind.clone();
    object["metadata"] = json!({"name": "p"});
    object
}

fn answer(schema: &Schema, case: &Value) -> (Value, Vec<String>, Validation) {
    let mut object = complete(&case["object"], &case["kind"]);
    let unknown = schema.prune(&mut object);
    schema.apply_defaults(&mut object);
    let verdict = match case.get("old") {
        None => schema.validate(&object),
        Some(old) => {
            let mut old = complete(old, &case["kind"]);
            schema.prune(&mut old);
            schema.apply_defaults(&mut old);
            if case.get("status_update").is_some() {
                schema.validate_status_update(&object, &old)
            } else {
                schema.validate_update(&object, &old)
            }
        }
    };
    settle_numbers(&mut object);
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let warnings: Vec<String> = unknown.chain(verdict.warnings.clone()).collect();
    (object, warnings, verdict)
}

fn difference(case: &Value) -> Option<String> {
    let parsed = Schema::parse(&case["schema"], AT);
    if case.get("crd_code").is_some() {
        let Err(errors) = parsed else {
            return Some("definition was accepted".to_owned());
        };
        let fields = |causes: &[Value]| {
            causes
                .iter()
                .map(|cause| json!([cause[0], cause[2]]))
                .collect::<Vec<_>>()
        };
        let (got, wanted) = (
            fields(&causes(&errors)),
            fields(&sorted(&case["crd_errors"])),
        );
        return (got != wanted).then(|| format!("definition: {got:?} instead of {wanted:?}"));
    }
    let schema = match parsed {
        Ok(schema) => schema,
        Err(errors) => {
            return Some(format!(
                "definition was refused: {}",
                FieldError::join(&errors)
            ));
        }
    };
    let (object, mut warnings, verdict) = answer(&schema, case);
    let (got, wanted) = (causes(&verdict.errors), sorted(&case["causes"]));
    if got != wanted {
        return Some(format!(
            "\n  got    {}\n  wanted {}",
            json!(got),
            json!(wanted)
        ));
    }
    warnings.sort();
    if json!(warnings) != case["warnings"] {
        return Some(format!(
            "warnings {warnings:?} instead of {}",
            case["warnings"]
        ));
    }
    let stored = case.get("stored").filter(|stored| **stored != object);
    stored.map(|stored| format!("stored {object} instead of {stored}"))
}

#[test]
fn every_answer_is_the_one_the_real_server_gave() {
    let cases = cases();
    let different: Vec<String> = cases
        .iter()
        .filter_map(|case| difference(case).map(|why| format!("{}: {why}", case["name"])))
        .collect();
    assert!(
        different.is_empty(),
        "{} of {} differ\n{}",
        different.len(),
        cases.len(),
        different.join("\n")
    );
}
