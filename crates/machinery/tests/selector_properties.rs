//! Selectors: what they print they parse, and no text makes them panic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use edgegrid_machinery::selector::{Error, FieldSelector, LabelSelector, Operator, Requirement};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn every_form_selects_as_kubernetes_does() {
    let object = labels(&[("app", "web"), ("tier", ""), ("rank", "7"), ("in", "notin")]);
    for (selector, expected) in [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        (" app = web , tier = ", true),
        ("app=web,tier=", true),
        ("app!=web", false),
        ("missing!=x", true),
        ("app in (api, web)", true),
        ("app notin (api,web)", false),
        ("missing notin (x)", true),
        ("tier in ()", true),
        ("tier in (,x)", true),
        ("app", true),
        ("!app", false),
        ("! missing", true),
        ("missing", false),
        ("rank>6", true),
        ("rank<7", false),
        ("app>6", false),
        ("in=notin", true),
        ("in in (notin)", true),
        ("in", true),
    ] {
        let parsed =
            LabelSelector::parse(selector).unwrap_or_else(|error| panic!("{selector}: {error}"));
        assert_eq!(parsed.matches(&object), expected, "{selector}");
    }
}

#[test]
fn refusals_read_like_the_servers() {
    for (selector, message) in [
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            "=a",
            "found '=', expected: !, identifier, or 'end of string'",
        ),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        (
            "a in b",
            "unable to parse requirement: found 'b' expected: '('",
        ),
        (
            "a in (b",
            "unable to parse requirement: found '', expected: ',' or ')'",
        ),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "a=-",
            "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        (
            "-a",
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
    ] {
        assert_eq!(
            LabelSelector::parse(selector).unwrap_err().to_string(),
            message,
            "{selector}"
        );
    }
    for (selector, message) in [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        (
            "a=b=c",
            "invalid field selector: unescaped character in value: 61",
        ),
        (
            r"a=\x",
            r"invalid field selector: invalid escape sequence: \x",
        ),
        (
            r"a=b\",
            r"invalid field selector: invalid escape sequence: \",
        ),
    ] {
        assert_eq!(
            FieldSelector::parse(selector).unwrap_err().to_string(),
            message,
            "{selector}"
        );
    }
}

#[test]
fn a_selector_object_reads_like_its_text() {
    let selector = json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "old", "operator": "DoesNotExist"},
        ],
    });
    let parsed = LabelSelector::from_json(&selector).unwrap().unwrap();
    assert_eq!(parsed.to_string(), "app=web,!old,tier in (a,b)");
    assert_eq!(LabelSelector::from_json(&json!(null)).unwrap(), None);
    assert!(
        LabelSelector::from_json(&json!({}))
            .unwrap()
            .unwrap()
            .is_empty()
    );
    let unknown = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    assert_eq!(
        LabelSelector::from_json(&unknown),
        Err(Error::UnknownOperator("Near".to_owned()))
    );
}

#[test]
fn field_terms_compare_and_pin_values() {
    let selector =
        FieldSelector::parse(r"metadata.name=a,status.phase!=Running,x==b\,c\=d,").unwrap();
    let fields = |path: &str| match path {
        "metadata.name" => Some("a".to_owned()),
        "x" => Some("b,c=d".to_owned()),
        _ => None,
    };
    assert!(selector.matches(fields));
    assert_eq!(selector.exact("metadata.name"), Some("a"));
    assert_eq!(selector.exact("status.phase"), None);
    assert_eq!(
        selector.paths().collect::<Vec<_>>(),
        ["metadata.name", "x", "status.phase"]
    );
}

prop_compose! {
    fn requirement()(
        key in "([a-z]{1,5}(\\.[a-z]{1,3})?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?",
        operator in 0..7_usize,
        values in proptest::collection::btree_set("([A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?)?", 1..4),
        number in any::<i32>(),
    ) -> Requirement {
        let one = || values.iter().next().cloned();
        match operator {
            0 => Requirement::new(&key, Operator::Equals, one()),
            1 => Requirement::new(&key, Operator::NotEquals, one()),
            2 => Requirement::new(&key, Operator::In, values),
            3 => Requirement::new(&key, Operator::NotIn, values),
            4 => Requirement::new(&key, Operator::Exists, []),
            5 => Requirement::new(&key, Operator::DoesNotExist, []),
            _ => Requirement::new(&key, Operator::GreaterThan, [number.unsigned_abs().to_string()]),
        }
        .unwrap()
    }
}

proptest! {
    #[test]
    fn a_printed_label_selector_parses_to_itself(requirements in proptest::collection::vec(requirement(), 0..4)) {
        let selector = LabelSelector::new(requirements);
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn a_printed_field_selector_parses_to_itself(terms in proptest::collection::vec(("[a-z.]{1,9}", "!?==?", "[a-z]{0,4}(\\\\[\\\\,=])?"), 0..4)) {
        let text = terms.iter().map(|(path, op, value)| format!("{path}{op}{value}")).collect::<Vec<_>>().join(",");
        if let Ok(selector) = FieldSelector::parse(&text) {
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}", symbols in "[a=!(),<> \\\\notin]{0,20}") {
        for text in [&text, &symbols] {
            if let Ok(selector) = LabelSelector::parse(text) {
                prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
            }
            let _ = FieldSelector::parse(text);
        }
    }
}
