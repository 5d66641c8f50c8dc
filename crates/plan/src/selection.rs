//! Which objects a selector picks: labels that are equal, label requirements, annotations that are equal.
//!
//! An empty selector picks nobody, for NodeUnits as for NodeGroups: SuperEdge's two kinds
//! disagreed, and "everybody" is never what an empty field means.
//!
//! What a NodeUnit itself has written must not push nodes out of it again: a selector "without the
//! label x" in a NodeUnit that sets x would otherwise take a node in and throw it out for ever. So
//! requirements that something is *not* there pass over labels that are the asker's own.

use std::collections::BTreeMap;

use edgegrid_api::node_unit::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use kube::core::ObjectMeta;

/// A label requirement that can be asked.
enum Requirement<'a> {
    In(&'a [String]),
    NotIn(&'a [String]),
    Exists,
    DoesNotExist,
}

/// Whether a selector asks for nothing, and so picks nobody.
pub fn is_empty(selector: &Selector) -> bool {
    selector.match_labels.is_empty()
        && selector.match_expressions.is_empty()
        && selector.annotations.is_empty()
}

/// Whether a selector picks an object. `is_own` knows the labels (key, value) that are there only
/// because the object is picked.
pub fn picks(
    selector: &Selector,
    object: &ObjectMeta,
    is_own: impl Fn(&str, &str) -> bool,
) -> bool {
    let labels = object.labels.as_ref();
    let label = |key: &str| {
        labels
            .and_then(|labels| labels.get(key))
            .map(String::as_str)
    };
    !is_empty(selector)
        && has_all(labels, &selector.match_labels)
        && has_all(object.annotations.as_ref(), &selector.annotations)
        && selector.match_expressions.iter().all(|asked| {
            let value = label(&asked.key);
            let others = value.filter(|value| !is_own(&asked.key, value));
            requirement(asked).is_some_and(|asked| asked.is_met(value, others))
        })
}

/// Requirements that mean nothing, in words. A selector that has one picks nobody.
pub fn field_errors(selector: &Selector) -> Vec<String> {
    let meaningless = selector
        .match_expressions
        .iter()
        .filter(|asked| requirement(asked).is_none());
    meaningless
        .map(|asked| {
            format!(
                "selector: {} {} is no requirement: use In or NotIn with values, Exists or DoesNotExist without",
                asked.key, asked.operator
            )
        })
        .collect()
}

fn requirement(asked: &LabelSelectorRequirement) -> Option<Requirement<'_>> {
    let values = asked.values.as_deref().unwrap_or_default();
    match (asked.operator.as_str(), values) {
        ("In", [_, ..]) => Some(Requirement::In(values)),
        ("NotIn", [_, ..]) => Some(Requirement::NotIn(values)),
        ("Exists", []) => Some(Requirement::Exists),
        ("DoesNotExist", []) => Some(Requirement::DoesNotExist),
        _ => None,
    }
}

impl Requirement<'_> {
    /// Whether the requirement is met. `value` is the label's, `others` the same unless the label is the asker's own.
    fn is_met(&self, value: Option<&str>, others: Option<&str>) -> bool {
        let is_in = |values: &[String], value: &str| values.iter().any(|one| one == value);
        match self {
            Self::In(values) => value.is_some_and(|value| is_in(values, value)),
            Self::NotIn(values) => !others.is_some_and(|value| is_in(values, value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => others.is_none(),
        }
    }
}

fn has_all(present: Option<&BTreeMap<String, String>>, asked: &BTreeMap<String, String>) -> bool {
    asked
        .iter()
        .all(|(key, value)| present.and_then(|present| present.get(key)) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selects(selector: Value, object: Value) -> bool {
        let selector: Selector = serde_json::from_value(selector).unwrap();
        let object: ObjectMeta = serde_json::from_value(object).unwrap();
        picks(&selector, &object, |key, _| key == "own")
    }

    #[test]
    fn an_empty_selector_picks_nobody() {
        for empty in [
            json!({}),
            json!({ "matchLabels": {}, "matchExpressions": [] }),
        ] {
            assert!(!selects(empty, json!({ "labels": { "a": "1" } })));
        }
    }

    #[test]
    fn labels_requirements_and_annotations_must_all_hold() {
        let object = json!({ "labels": { "a": "1", "b": "2" }, "annotations": { "n": "x" } });
        let expression = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        let table = [
            (json!({ "matchLabels": { "a": "1" } }), true),
            (json!({ "matchLabels": { "a": "1", "b": "1" } }), false),
            (json!({ "annotations": { "n": "x" } }), true),
            (json!({ "annotations": { "n": "y" } }), false),
            (
                json!({ "matchLabels": { "a": "1" }, "annotations": { "m": "x" } }),
                false,
            ),
            (expression("a", "In", &["1", "2"]), true),
            (expression("a", "In", &["2"]), false),
            (expression("c", "In", &["2"]), false),
            (expression("a", "NotIn", &["1"]), false),
            (expression("a", "NotIn", &["2"]), true),
            (expression("c", "NotIn", &["2"]), true),
            (expression("a", "Exists", &[]), true),
            (expression("c", "Exists", &[]), false),
            (expression("a", "DoesNotExist", &[]), false),
            (expression("c", "DoesNotExist", &[]), true),
        ];
        for (selector, expected) in table {
            assert_eq!(
                selects(selector.clone(), object.clone()),
                expected,
                "{selector}"
            );
        }
    }

    #[test]
    fn a_requirement_without_meaning_picks_nobody_and_is_reported() {
        for (operator, values) in [("In", vec![]), ("Exists", vec!["x"]), ("Gt", vec!["1"])] {
            let selector = json!({ "matchExpressions": [{ "key": "a", "operator": operator, "values": values }] });
            assert!(!selects(
                selector.clone(),
                json!({ "labels": { "a": "1" } })
            ));
            let selector: Selector = serde_json::from_value(selector).unwrap();
            assert_eq!(field_errors(&selector).len(), 1, "{operator}");
        }
    }

    #[test]
    fn what_the_asker_wrote_itself_keeps_nobody_out() {
        let object = json!({ "labels": { "own": "1", "other": "1" } });
        let without =
            |key: &str| json!({ "matchExpressions": [{ "key": key, "operator": "DoesNotExist" }] });
        assert!(selects(without("own"), object.clone()));
        assert!(!selects(without("other"), object.clone()));
        let not_in =
            json!({ "matchExpressions": [{ "key": "own", "operator": "NotIn", "values": ["1"] }] });
        assert!(selects(not_in, object.clone()));
        let exists = json!({ "matchExpressions": [{ "key": "own", "operator": "Exists" }] });
        assert!(
            selects(exists, object),
            "only what must not be there is passed over"
        );
    }
}
