//! Reading bodies: repeated keys are named, depth is bounded, no bytes panic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use edgegrid_machinery::schema::{MAX_DEPTH, Schema, read_strict};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn repeated_keys_are_named_once_and_the_last_value_counts() {
    let body =
        br#"{"data":{"a":"1","a":"2","a":"3"},"l":[{"x":1},{"x":1,"x":2}],"data":{"b":"4"}}"#;
    let (value, duplicates) = read_strict(body).unwrap();
    assert_eq!(
        value,
        json!({"data": {"b": "4"}, "l": [{"x": 1}, {"x": 2}]})
    );
    let texts: Vec<String> = duplicates.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "duplicate field \"data.a\"",
            "duplicate field \"l[1].x\"",
            "duplicate field \"data\""
        ]
    );
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(read_strict(nested(MAX_DEPTH).as_bytes()).is_ok());
    assert!(read_strict(nested(MAX_DEPTH + 1).as_bytes()).is_err());
    assert!(read_strict(nested(1_000_000).as_bytes()).is_err());
    assert!(read_strict(b"{} x").is_err());
}

#[test]
fn unknown_fields_are_found_at_every_depth() {
    let schema = Schema::parse(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "l": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }}}}),
        "schema",
    )
    .unwrap();
    let object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"any": 1}, "spec": {"l": [{"b": 1}], "c": 2}});
    assert_eq!(schema.prune(&mut object.clone()), ["spec.c", "spec.l[0].b"]);
}

#[test]
fn hostile_rules_are_stopped() {
    let schema = |rule: &str| {
        Schema::parse(
            &json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"},
                "x-kubernetes-validations": [{"rule": rule}]}}}),
            "schema",
        )
    };
    let object = json!({"l": (0..3000).collect::<Vec<_>>()});
    for rule in [
        "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))",
        "self.map(a, self.map(b, self.map(c, a))).size() > 0",
        "self.map(a, self.map(b, [a, b])).all(x, x.all(y, self.all(z, y[0] == z)))",
    ] {
        let errors = schema(rule).unwrap().validate(&object).errors;
        assert!(
            errors[0].to_string().contains("running out of cost budget"),
            "{rule}: {errors:?}"
        );
    }
    assert!(
        schema("self.all(a, a >= 0)")
            .unwrap()
            .validate(&object)
            .errors
            .is_empty()
    );
    for near in [
        "(".repeat(20) + "self.all(x, x >= 0)" + &")".repeat(20),
        "0".to_owned() + &" + 1".repeat(180) + " > 0",
        "true ? true : ".repeat(20) + "true",
    ] {
        if let Ok(schema) = schema(&near) {
            assert!(schema.validate(&object).errors.is_empty(), "{near}");
        }
    }
    for rule in [
        "(".repeat(5000),
        "!".repeat(5000) + "true",
        "[".repeat(300) + &"]".repeat(300),
        "1".to_owned() + &" + 1".repeat(4000),
        "a".to_owned() + &".a".repeat(5000),
        "true ? ".repeat(500),
        "x".repeat(20_000),
    ] {
        assert!(schema(&rule).is_err());
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(
                "a|b|c|items|type|properties|default|enum|anyOf",
                inner,
                0..4
            )
            .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = read_strict(&bytes);
    }

    #[test]
    fn reading_gives_what_an_ordinary_reader_gives(value in json_value()) {
        let (read, duplicates) = read_strict(value.to_string().as_bytes()).unwrap();
        prop_assert_eq!(read, value);
        prop_assert!(duplicates.is_empty());
    }

    #[test]
    fn no_schema_and_no_object_panic(schema in json_value(), object in json_value(), old in json_value()) {
        if let Ok(schema) = Schema::parse(&schema, "schema") {
            let mut pruned = object;
            schema.prune(&mut pruned);
            schema.apply_defaults(&mut pruned);
            let _ = schema.validate_update(&pruned, &old);
        }
    }

    #[test]
    fn defaulting_twice_changes_nothing_and_an_unchanged_object_passes(object in json_value()) {
        let schema = Schema::parse(&json!({"type": "object", "properties": {
            "a": {"type": "integer", "default": 1, "minimum": 3},
            "b": {"type": "array", "items": {"type": "string", "minLength": 2}},
            "c": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}},
        }}), "schema").unwrap();
        let mut object = json!({"a": object.clone(), "b": object.clone(), "c": object});
        schema.prune(&mut object);
        schema.apply_defaults(&mut object);
        let once = object.clone();
        schema.prune(&mut object);
        schema.apply_defaults(&mut object);
        prop_assert_eq!(&once, &object);
        prop_assert!(schema.validate_update(&object, &once).errors.is_empty());
    }
}
