//! Request sequences whose answers were recorded from the reference server, replayed on a server of
//! just enough parts: the crate under test does the patching and tracking, `server` stands in for
//! storage and strategies, `kinds` for defaulting and conversion.

#![expect(
    clippy::unwrap_used,
    clippy::result_large_err,
    reason = "a test from end to end: whatever is not as recorded may panic, and refusals are answers"
)]

mod answers;
mod custom;
mod kinds;
mod scale;
mod server;

use serde_json::{Value, json};

use answers::Reply;
use server::Server;

const FILES: [&str; 5] = [
    include_str!("../../fixtures/vectors/configmap.json"),
    include_str!("../../fixtures/vectors/deployment.json"),
    include_str!("../../fixtures/vectors/deployment-strategic.json"),
    include_str!("../../fixtures/vectors/thing.json"),
    include_str!("../../fixtures/vectors/others.json"),
];

/// Which sequences only one of two tests runs: this one, or that of the API server.
const WHERE: &str = include_str!("../../fixtures/vectors/where.json");

/// Sequences with a warning that only the validation of pods gives; all else of them is checked.
const WARNED_ELSEWHERE: [&str; 1] = ["duplicate-env-untouched"];

#[test]
fn every_recorded_sequence_is_answered_alike() {
    let only: Value = serde_json::from_str(WHERE).unwrap();
    let server = only["server"].as_object().unwrap();
    let both = server
        .keys()
        .find(|rule| only["machinery"].get(*rule).is_some());
    assert_eq!(both, None, "a sequence is run by nobody");
    let mut failures = Vec::new();
    let mut passed = 0;
    let mut elsewhere = 0;
    for file in FILES {
        let vectors: Vec<Value> = serde_json::from_str(file).unwrap();
        for vector in vectors {
            let rule = vector["rule"].as_str().unwrap();
            if server.contains_key(rule) {
                elsewhere += 1;
                continue;
            }
            match replay(&vector) {
                Ok(()) => passed += 1,
                Err(error) => failures.push(format!("{rule}: {error}")),
            }
        }
    }
    assert_eq!(
        elsewhere,
        server.len(),
        "a sequence left to others is missing"
    );
    assert!(
        failures.is_empty(),
        "{} of {} failed:\n{}",
        failures.len(),
        passed + failures.len(),
        failures.join("\n")
    );
    assert_eq!(passed + elsewhere, 174, "a sequence is missing");
}

fn replay(vector: &Value) -> Result<(), String> {
    let of = |index: usize| vector["of"][index].as_str().unwrap();
    let mut server = Server::new(of(0), of(1));
    if let Some(given) = vector.get("given") {
        let step = json!({"do": "create", "manager": "before", "body": given});
        let reply = server.handle(&step);
        if reply.code != 201 {
            return Err(format!("given: {} {}", reply.code, reply.message));
        }
    }
    for (index, step) in vector["steps"].as_array().unwrap().iter().enumerate() {
        let before = server.snapshot();
        let reply = server.handle(step);
        let mut then = step["then"].clone();
        if WARNED_ELSEWHERE.contains(&vector["rule"].as_str().unwrap()) {
            then.as_object_mut().unwrap().remove("warnings");
        }
        check(&reply, &before, &server, &then).map_err(|e| format!("step {index}: {e}"))?;
    }
    let (mut object, managers) = server.final_state();
    // Recorded without the time.
    if let Some(time) = object.pointer_mut("/metadata/deletionTimestamp") {
        *time = "TIME".into();
    }
    same("object", &object, &vector["finally"]["object"])?;
    let wanted = &vector["finally"]["managers"];
    // Where several entries have one name, the recording does not say which of them had no time.
    let unsaid = wanted
        .as_array()
        .into_iter()
        .flatten()
        .any(|entry| entry[4].is_null());
    if unsaid {
        return same("managers", &untimed(&managers), &untimed(wanted));
    }
    same("managers", &sorted(&managers), &sorted(wanted))
}

/// The order of managers depends on times, which the recorded answers leave out.
fn sorted(managers: &Value) -> Value {
    let mut managers = managers.as_array().cloned().unwrap_or_default();
    managers.sort_by_cached_key(Value::to_string);
    Value::Array(managers)
}

fn check(reply: &Reply, before: &Value, server: &Server, then: &Value) -> Result<(), String> {
    if then["code"] != reply.code {
        return Err(format!(
            "code {} ({}) instead of {}",
            reply.code, reply.message, then["code"]
        ));
    }
    for (key, found) in [
        ("reason", json!(reply.reason)),
        ("message", json!(reply.message)),
        ("warnings", json!(reply.warnings)),
    ] {
        if let Some(wanted) = then.get(key) {
            same(key, &found, wanted)?;
        }
    }
    if let Some(causes) = then.get("causes") {
        check_causes(reply, causes)?;
    }
    let after = server.snapshot();
    same("written", &json!(*before != after), &then["written"])?;
    if let Some(generation) = then.get("generation")
        && !after.is_null()
    {
        same("generation", &after["metadata"]["generation"], generation)?;
    }
    if let Some(retimed) = then.get("retimed") {
        same("retimed", &answers::retimed(before, &after), retimed)?;
    }
    if let Some(object) = then.get("object") {
        same("answer", &answers::shown(&reply.object), object)?;
    }
    if let Some(managers) = then.get("managers") {
        let list = &reply.object["metadata"]["managedFields"];
        let found = untimed(&answers::managers(list));
        same("answered managers", &found, &untimed(managers))?;
    }
    Ok(())
}

/// The recorded answers do not say which entries had times.
fn untimed(managers: &Value) -> Value {
    let mut managers = managers.clone();
    for manager in managers.as_array_mut().into_iter().flatten() {
        manager[4] = Value::Null;
    }
    sorted(&managers)
}

fn check_causes(reply: &Reply, wanted: &Value) -> Result<(), String> {
    let mut found = reply.causes.clone();
    found.sort();
    let mut found = json!(found);
    for (index, cause) in wanted.as_array().unwrap().iter().enumerate() {
        if cause[2].is_null() && found.get(index).is_some() {
            found[index][2] = Value::Null;
        }
    }
    same("causes", &found, wanted)
}

fn same(what: &str, found: &Value, wanted: &Value) -> Result<(), String> {
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{what}:\n  found  {found}\n  wanted {wanted}"))
    }
}
