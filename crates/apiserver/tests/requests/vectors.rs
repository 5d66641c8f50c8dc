//! Request sequences whose answers were recorded from the reference server, replayed on the router.
//!
//! They are the fixtures of `machinery`, whose own test runs those that need no server;
//! `where.json` says which of the two leaves a sequence to the other, and why.

mod replay;
mod shown;

use std::collections::BTreeSet;

use serde_json::Value;

const FILES: [&str; 5] = [
    include_str!("../../../machinery/fixtures/vectors/configmap.json"),
    include_str!("../../../machinery/fixtures/vectors/deployment.json"),
    include_str!("../../../machinery/fixtures/vectors/deployment-strategic.json"),
    include_str!("../../../machinery/fixtures/vectors/thing.json"),
    include_str!("../../../machinery/fixtures/vectors/others.json"),
];

const WHERE: &str = include_str!("../../../machinery/fixtures/vectors/where.json");

fn vectors() -> Vec<Value> {
    let files = FILES.iter();
    files
        .flat_map(|file| serde_json::from_str::<Vec<Value>>(file).unwrap())
        .collect()
}

fn rule(vector: &Value) -> &str {
    vector["rule"].as_str().unwrap()
}

/// Rules that only one of the two tests runs: `server` or `machinery`.
fn only(which: &str) -> BTreeSet<String> {
    let whole: Value = serde_json::from_str(WHERE).unwrap();
    whole[which].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_sequence_is_run_here_or_by_the_test_of_machinery() {
    let all = vectors();
    let rules: BTreeSet<String> = all.iter().map(|vector| rule(vector).to_owned()).collect();
    assert_eq!((all.len(), rules.len()), (174, 174));
    let (server, machinery) = (only("server"), only("machinery"));
    assert!(
        server.is_disjoint(&machinery),
        "a sequence is run by nobody"
    );
    assert!(server.union(&machinery).all(|rule| rules.contains(rule)));
}

#[tokio::test(start_paused = true)]
async fn every_recorded_sequence_is_answered_alike() {
    let elsewhere = only("machinery");
    let mut failures = Vec::new();
    let mut passed = 0;
    for vector in vectors() {
        if elsewhere.contains(rule(&vector)) {
            continue;
        }
        match replay::replay(&vector).await {
            Ok(()) => passed += 1,
            Err(error) => failures.push(format!("{}: {error}", rule(&vector))),
        }
    }
    let count = passed + failures.len();
    let texts = failures.join("\n");
    assert!(
        failures.is_empty(),
        "{} of {count} failed:\n{texts}",
        failures.len()
    );
}
