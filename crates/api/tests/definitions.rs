//! Invariants of the definitions, whatever field is added next.
//!
//! Kubernetes checks `required`, `maxItems` and plain CEL rules again on every write when the
//! object holds opaque content. An object stored before such a rule could then be neither
//! labelled nor deleted, so no such rule may stand there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Map, Value};

/// The schemas of all definitions, each with the path to it.
fn schemas() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for crd in edgegrid_api::crds() {
        let crd = serde_json::to_value(crd).unwrap();
        let kind = crd
            .pointer("/spec/names/kind")
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned();
        for version in crd.pointer("/spec/versions").unwrap().as_array().unwrap() {
            collect(
                kind.clone(),
                &version["schema"]["openAPIV3Schema"],
                &mut found,
            );
        }
    }
    found
}

fn collect(path: String, schema: &Value, found: &mut Vec<(String, Value)>) {
    for (name, property) in schema["properties"].as_object().unwrap_or(&Map::new()) {
        collect(format!("{path}.{name}"), property, found);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            collect(format!("{path}[]"), &schema[inner], found);
        }
    }
    found.push((path, schema.clone()));
}

fn is_opaque(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

#[test]
fn nothing_that_holds_opaque_content_has_a_rule_that_is_checked_on_every_write() {
    let all = schemas();
    let holders: Vec<_> = all
        .iter()
        .filter(|(path, _)| {
            all.iter()
                .any(|(other, inner)| other.starts_with(path.as_str()) && is_opaque(inner))
        })
        .collect();
    assert!(
        holders.len() > 20,
        "the walk found too little: {}",
        holders.len()
    );
    for (path, schema) in holders {
        for bound in [
            "required",
            "maxProperties",
            "maxItems",
            "minItems",
            "minProperties",
        ] {
            assert!(schema[bound].is_null(), "{path} has {bound}");
        }
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .unwrap_or(&Vec::new())
        {
            assert_eq!(rule["optionalOldSelf"], true, "{path}: {}", rule["rule"]);
        }
    }
}

#[test]
fn every_rule_says_the_way_out() {
    for (path, schema) in schemas() {
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .unwrap_or(&Vec::new())
        {
            let says = rule
                .get("message")
                .or_else(|| rule.get("messageExpression"));
            assert!(
                says.is_some_and(|text| text.as_str().unwrap().len() > 40),
                "{path}: {rule}"
            );
        }
    }
}

#[test]
fn every_field_is_explained_and_none_may_be_null() {
    for (path, schema) in schemas() {
        assert!(schema["nullable"].is_null(), "{path} is nullable");
        let is_own_field = path.contains(".spec.") && !path.ends_with("[]");
        // Parts of Kubernetes' own types, known by name.
        let is_foreign =
            path.contains("unitCredentialConfigMapRef.") || path.contains(".taints[].");
        if is_own_field && !is_foreign {
            assert!(
                schema["description"].is_string(),
                "{path} has no description"
            );
        }
    }
}

#[test]
fn all_five_kinds_are_defined() {
    let names: Vec<_> = edgegrid_api::crds()
        .iter()
        .map(|crd| crd.metadata.name.clone().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "deploymentgrids.superedge.io",
            "statefulsetgrids.superedge.io",
            "servicegrids.superedge.io",
            "nodeunits.site.superedge.io",
            "nodegroups.site.superedge.io",
        ]
    );
}

/// The schema version and the fingerprint of the definitions it stands for.
const NUMBERED: (u64, u64) = (3, 0x1ce6_1e4c_8d78_063b);

/// FNV-1a, which is the same everywhere and for ever.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn changed_definitions_have_a_new_number() {
    let specs: Vec<_> = edgegrid_api::crds()
        .into_iter()
        .map(|crd| crd.spec)
        .collect();
    let now = fingerprint(&serde_json::to_vec(&specs).unwrap());
    assert_eq!(
        NUMBERED,
        (edgegrid_api::SCHEMA_VERSION, now),
        "clusters are upgraded by number: raise SCHEMA_VERSION if the last one was released, and note the \
         new fingerprint {now:#018x} here"
    );
}
